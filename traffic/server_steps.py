"""An all_reduce among ranks that share servers, as three steps: the ranks of a server add up and
each gets a part (reduce_scatter), those with the same part add up across servers (all_reduce), and
the ranks of a server exchange the parts (all_gather). So a server's part of a sum crosses each of
its cards once. The steps are calls of groups of their own: `dp in server 3`, `dp across servers 0`
and `dp back in server 3`. The group's next call begins after the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from testbed.traffic.rank_graph import COLLECTIVES, Node, Program, width_of
from testbed.traffic.rank_layout import BY
from testbed.traffic.trace import TraceError

Ranks = tuple[int, ...]
# What a call becomes, by its node: the algorithms of hosts inside servers and across them ("": the
# system); None: it stays as it is.
Choice = Callable[[Node, Ranks], tuple[str, str] | None]


def in_steps(program: Program, per_server: int, choose: Choice) -> Program:
    """The program with the all_reduces that `choose` names in steps. per_server: neighbouring ranks
    that share a server. Raises TraceError if a group has more ranks in one server than in
    another."""
    groups = dict(program.groups)
    graphs = []
    for rank in range(len(program.ranks)):
        made: list[Node] = []
        at: list[int] = []  # where the last step of each node is
        last: dict[str, tuple[int, bool]] = {}  # that of each group's last call, and if it had more
        for node in program.ranks[rank]:
            after = tuple(at[place] for place in node.after)
            steps = _steps(program, rank, node, per_server, choose)
            several = len(steps) > 1
            before, had_several = last.get(node.group, (0, False))
            if node.group in last and (several or had_several):
                after = (*after, before)
            for group, ranks, step in steps:
                groups.setdefault(group, ranks)
                made.append(replace(step, group=group, after=after))
                after = (len(made) - 1,)
            if not steps:
                made.append(replace(node, after=after))
            at.append(len(made) - 1)
            if node.kind in COLLECTIVES:
                last[node.group] = at[-1], several
        graphs.append(tuple(made))
    return replace(program, groups=groups, ranks=graphs)


def _steps(
    program: Program, rank: int, node: Node, per_server: int, choose: Choice
) -> list[tuple[str, Ranks, Node]]:
    """(group, its ranks, call) of the steps of a node; []: it has none."""
    ranks = program.groups.get(node.group, ())
    chosen = choose(node, ranks) if node.kind == "all_reduce" and len(ranks) > 1 else None
    if chosen is None:
        return []
    inside, across = (f"{BY}{algorithm}" if algorithm else "" for algorithm in chosen)
    servers = _by_server(node.group, ranks, per_server)
    own = next(each for each in servers if rank in each)
    place, server = own.index(rank), rank // per_server
    if len(servers) == 1:
        return [(f"{node.group}{inside}", ranks, node)]
    if len(own) == 1:
        return [(f"{node.group}{across}", ranks, node)]
    values = -(-node.bytes // width_of(node))
    part = -(-values // len(own)) * width_of(node)
    same = tuple(each[place] for each in servers)
    return [
        (
            f"{node.group} in server {server}{inside}",
            own,
            replace(node, kind="reduce_scatter", bytes=part * len(own)),
        ),
        (f"{node.group} across servers {place}{across}", same, replace(node, bytes=part)),
        (
            f"{node.group} back in server {server}{inside}",
            own,
            replace(node, kind="all_gather", bytes=part),
        ),
    ]


def _by_server(group: str, ranks: Ranks, per_server: int) -> Sequence[Ranks]:
    servers: dict[int, Ranks] = {}
    for rank in ranks:
        servers[rank // per_server] = (*servers.get(rank // per_server, ()), rank)
    few, most = min(servers.values(), key=len), max(servers.values(), key=len)
    if len(few) < len(most):
        raise TraceError(
            f"group {group}: has ranks {', '.join(map(str, most))} in one server and"
            f" {', '.join(map(str, few))} in another; steps inside servers need as many in each."
            " Take `inside` out of collectives.all_reduce, or change the parallelism"
        )
    return tuple(servers.values())
