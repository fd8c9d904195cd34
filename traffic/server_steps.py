"""An all_reduce among ranks that share servers, as three steps: the ranks of a server add up and
each gets a part (reduce_scatter), those with the same part add up across servers (all_reduce), and
the ranks of a server exchange the parts (all_gather). So a server's part of a sum crosses each of
its cards once. The steps are calls of groups of their own, such as `dp in server 3` and `dp across
servers 0`. The group's next call begins after the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from testbed.collective_kinds import COLLECTIVES
from testbed.traffic.rank_graph import GroupRoute, Node, Program, width_of
from testbed.traffic.trace import TraceError

IN, ACROSS = STEPS = (" in server ", " across servers ")  # between names of groups and numbers
Ranks = tuple[int, ...]
# What a call becomes, by its node: the algorithms of hosts inside servers and across them ("": the
# system); None: it stays as it is.
Choice = Callable[[Node, Ranks], tuple[str, str] | None]


def in_steps(program: Program, per_server: int, choose: Choice) -> Program:
    """The program with the all_reduces that `choose` names in steps. per_server: neighbouring ranks
    that share a server. Raises TraceError if a group has more ranks in one server than in
    another."""
    groups = dict(program.groups)
    routes: list[GroupRoute] = []
    servers = {name: by_server(ranks, per_server) for name, ranks in groups.items()}
    graphs = []
    for rank in range(len(program.ranks)):
        made: list[Node] = []
        first: list[int] = []  # where the first and the last step of each node are
        last: list[int] = []
        calls: dict[str, tuple[int, bool]] = {}  # of each group: its last call, and if it has steps
        for place, node in enumerate(program.ranks[rank]):
            steps = _steps(program, rank, node, servers.get(node.group, ()), choose)
            first.append(len(made))
            for group, ranks, step in steps:
                groups.setdefault(group, ranks)
                before = range(first[-1], len(made))
                made.append(replace(step, group=group, after=tuple(before[-1:])))
                routes.append(made[-1].route)
            if not steps:
                made.append(replace(node, after=()))
            last.append(len(made) - 1)
            if node.kind in COLLECTIVES:
                several = len(steps) > 1
                call, had_several = calls.get(node.group, (-1, False))
                if call >= 0 and (several or had_several):
                    made[first[-1]] = replace(made[first[-1]], after=(last[call],))
                calls[node.group] = place, several
        # Nodes may name later ones, so these places are known only now.
        for node, start in zip(program.ranks[rank], first, strict=True):
            waits = (*(last[place] for place in node.after), *made[start].after)
            made[start] = replace(made[start], after=tuple(dict.fromkeys(waits)))
        graphs.append(tuple(made))
    return replace(program, groups=groups, ranks=graphs, routes=program.routes_with(routes))


def _steps(
    program: Program, rank: int, node: Node, servers: Sequence[Ranks], choose: Choice
) -> list[tuple[str, Ranks, Node]]:
    """(group, its ranks, call) of the steps of a node; []: it has none. servers: the ranks of its
    group, by server."""
    ranks = program.groups.get(node.group, ())
    chosen = choose(node, ranks) if node.kind == "all_reduce" and len(ranks) > 1 else None
    if chosen is None:
        return []
    few, most = min(servers, key=len), max(servers, key=len)
    if len(few) < len(most):
        raise TraceError(
            f"group {node.group}: has ranks {', '.join(map(str, most))} in one server and"
            f" {', '.join(map(str, few))} in another; steps inside servers need as many in each."
            " Take `inside` out of collectives.all_reduce, or change the parallelism"
        )
    inside, across = chosen
    number = next(number for number, each in enumerate(servers) if rank in each)
    own = servers[number]
    if len(servers) == 1:
        return [(node.group, ranks, replace(node, algorithm=inside))]
    if len(own) == 1:
        return [(node.group, ranks, replace(node, algorithm=across))]
    place, width = own.index(rank), width_of(node)
    values = -(-node.bytes // width)
    part = -(-values // len(own)) * width
    same = tuple(each[place] for each in servers)
    within, between = f"{node.group}{IN}{number}", f"{node.group}{ACROSS}{place}"
    step = replace(node, algorithm=inside)
    return [
        (within, own, replace(step, kind="reduce_scatter", bytes=part * len(own))),
        (between, same, replace(node, bytes=part, algorithm=across)),
        (within, own, replace(step, kind="all_gather", bytes=part)),
    ]


def by_server(ranks: Ranks, per_server: int) -> tuple[Ranks, ...]:
    """The ranks of a group in each server, of `per_server` neighbouring ranks."""
    servers: dict[int, Ranks] = {}
    for rank in ranks:
        servers[rank // per_server] = (*servers.get(rank // per_server, ()), rank)
    return tuple(servers.values())
