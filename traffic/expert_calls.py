"""The exchange of tokens with experts as calls of sets of ranks: in place of each all_to_all, a
dispatch or a combine for each rank with tokens and each set of other ranks that some go to.

Tokens of one rank with the same set travel together. A set and its rank are a communicator, in
which a switch multiplies a dispatch's packets to the ranks of the set, and adds their answers up in
a combine. All ranks have a layer's calls in the same order, and those of different sets overlap.

By rails, which is the rival without switches that add: a token goes once to each other server with
one of its experts, to the rank in its owner's place there, which passes it on inside. Answers are
added up inside servers, and one sum of each goes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from testbed.traffic.expert_routing import Counts, ExpertRouting
from testbed.traffic.rank_graph import COMPUTE, GroupRoute, Node, Program
from testbed.traffic.rank_layout import Exchange, StagedRanks
from testbed.traffic.server_steps import ACROSS, IN, by_server
from testbed.traffic.trace import TraceError
from testbed.traffic.transformer_shapes import Shape

FLOWS, SETS, PACKETS, RAILS = "flows", "sets", "packets", "rails"
CALLS = (FLOWS, SETS, PACKETS, RAILS)
OF_OWNER = "tokens"  # of the groups of owners
MOST_MEMBERS = 256  # of one, which switches tell apart behind a port (p4/egress.p4)
NAME = "experts"  # of the sets' groups
MAX_SETS = 4096
DROPPED = "dropped"  # of what a program says of itself: answers that tokens go without

Ranks = tuple[int, ...]
_Placed = tuple[Program, list[list[int]]]


@dataclass(frozen=True, kw_only=True)
class DrawnExperts:
    """Ways of a model's tokens to its experts. experts: one of CALLS, "": as many to each rank;
    number, top_k: of the model's experts, and of those of a token, 0: as published; skew, capacity,
    routing_seed, counts: of expert_routing; per_server: neighbouring ranks that share a server;
    word: bytes of a value of the system's sums."""

    experts: str = ""
    number: int = 0
    top_k: int = 0
    skew: float = 0.0
    capacity: float = 0.0
    routing_seed: int = 0
    per_server: int = 1
    word: int = 4
    counts: Counts = ()

    def shaped(self, shape: Shape) -> Shape:
        """The shape with other numbers of experts."""
        experts, top_k = self.number or shape.experts, self.top_k or shape.top_k
        return replace(shape, experts=experts, top_k=top_k) if shape.experts else shape

    def routed(self, program: Program, experts: int, top_k: int, ranks: int) -> _Placed:
        """`with_experts`, of which `top_k` answer a token, on so many ranks."""
        routing = ExpertRouting(
            *(experts, top_k, ranks, self.skew, self.routing_seed, self.capacity),
            counts=self.counts,
        )
        made, places = with_experts(program, routing, self.experts, self.per_server)
        return replace(made, word=self.word), places

    @property
    def ways(self) -> list[str]:
        """Words for a title."""
        limit = f" of capacity {self.capacity:g}" if self.capacity else ""
        how = "counted" if self.counts else "drawn"
        how += f" {self.number}" * (self.number > 0)
        of_token = f", {self.top_k} of a token," * (self.top_k > 0)
        return [f"{how} experts{of_token}{limit} by {self.experts}"] if self.experts else []

    def missing(self, model: str, shape: Shape, ranks: int) -> Iterator[str]:
        """Problems of ep and of numbers of experts, of which `experts` needs several ranks."""
        if self.experts and ranks < 2:
            yield (
                f"experts: {model} has ep: {ranks}, so no tokens travel to experts. Take a"
                " model with experts and ep above 1, or this key out"
            )
        if shape.experts < shape.top_k:
            yield (
                f"experts.top_k: found {shape.top_k}, above the number of experts,"
                f" {shape.experts}; write at most that"
            )


class _Sets:
    """The sets that have been met, by their ranks."""

    def __init__(self) -> None:
        self.names: dict[Ranks, str] = {}

    def named(self, ranks: Ranks) -> str:
        ranks = tuple(sorted(ranks))
        if ranks not in self.names:
            self.names[ranks] = f"{NAME}.{len(self.names)}"
        return self.names[ranks]


def with_experts(
    program: Program, routing: ExpertRouting, calls: str, per_server: int = 1
) -> _Placed:
    """The program whose exchanges (Template.exchanges) go to the experts that `routing` draws:
    calls: FLOWS: all_to_alls with parts; SETS: calls of sets; PACKETS: `in_packets`; RAILS: two
    all_to_alls with parts, of servers with `per_server` neighbouring ranks. With it where each
    node is now, by rank: of an exchange the last one. Raises TraceError."""
    graphs = program.ranks
    assert isinstance(graphs, StagedRanks)
    sets = _Sets()
    made, places = [], []
    steps: dict[str, Ranks] = {}  # groups of calls by rails
    dropped: dict[tuple[int, ...], int] = {}  # by rank and call, of which backward passes are none
    for rank in range(len(graphs)):
        exchanges = graphs.templates[graphs.number_of(rank)].exchanges
        found: list[Node] = []
        last: list[int] = []  # where each node of the rank ends
        for place, node in enumerate(graphs[rank]):
            after = tuple(last[each] for each in node.after)
            if place not in exchanges:
                last.append(len(found))
                found.append(replace(node, after=after))
                continue
            exchange, members = exchanges[place], program.groups[node.group]
            dropped[(rank - rank % exchange.alike, *exchange.which)] = routing.dropped(
                *_drawn(members, members.index(rank), exchange)
            )
            if calls == FLOWS:
                parts = _parts(members, rank, exchange, routing)
                found.append(replace(node, after=after, parts=parts, bytes=sum(parts)))
            elif calls == RAILS:
                servers = by_server(members, per_server)
                for name, group, parts in _steps(node.group, servers, rank, exchange, routing):
                    steps[name] = group
                    step = replace(node, group=name, after=after, parts=parts, bytes=sum(parts))
                    after = (len(found),)
                    found.append(step)
            else:
                begin = len(found)
                for name, owner, kind, size in _calls(members, rank, exchange, routing, sets):
                    call = replace(node, kind=kind, after=after, group=name, peer=owner, bytes=size)
                    found.append(call)
                ends = tuple(range(begin, len(found))) or after
                found.append(Node(COMPUTE, ends, id=node.id))  # all of them are done
            last.append(len(found) - 1)
        made.append(tuple(replace(node, id=place) for place, node in enumerate(found)))
        places.append(last)
    if routing.capacity:
        about = {**program.about, DROPPED: str(sum(dropped.values()))}
        program = replace(program, about=about)
    if calls == FLOWS:
        return replace(program, ranks=tuple(made)), places
    called = {node.group for nodes in made for node in nodes}
    groups = {
        name: ranks
        for name, ranks in program.groups.items()
        if not name.startswith("ep.") or name in called
    }
    routes = tuple(each for each in program.routes if each.group in groups)
    if calls == RAILS:
        groups, routes = groups | steps, (*routes, *map(GroupRoute, steps))
        return replace(program, groups=groups, ranks=tuple(made), routes=routes), places
    if calls == SETS and len(sets.names) > MAX_SETS:
        raise TraceError(
            f"experts: {len(sets.names)} sets of ranks, each a communicator; allowed: up to"
            f" {MAX_SETS}. Take calls: {FLOWS}, fewer ranks of ep, or a shorter sequence"
        )
    groups |= {name: ranks for ranks, name in sets.names.items()}
    routes += tuple(GroupRoute(name) for name in sets.names.values())
    made_of_sets = replace(program, groups=groups, ranks=tuple(made), routes=routes)
    return (in_packets(made_of_sets) if calls == PACKETS else made_of_sets), places


def in_packets(program: Program) -> Program:
    """The program whose dispatches and combines travel in a communicator of their root and all
    ranks to which it has any. Their packets name the ranks of the call."""
    members: dict[int, set[int]] = {}
    carried: set[str] = set()
    for nodes in program.ranks:
        for node in nodes:
            if node.kind in ("dispatch", "combine"):
                members.setdefault(node.peer, set()).update(program.groups[node.group])
                carried.add(node.group)
    names = {root: f"{OF_OWNER}.{root}" for root in sorted(members)}
    groups = {names[root]: (root, *sorted(members[root] - {root})) for root in names}

    def change(node: Node) -> Node:
        of_tokens = node.kind in ("dispatch", "combine")
        return replace(node, through=names[node.peer]) if of_tokens else node

    ranks = tuple(tuple(map(change, nodes)) for nodes in program.ranks)
    others = {node.group for nodes in ranks for node in nodes if node.group and not node.through}
    routes = [each for each in program.routes_with() if each.group not in carried - others]
    return replace(
        program,
        groups=program.groups | groups,
        ranks=ranks,
        routes=(*routes, *map(GroupRoute, groups)),
    )


def _drawn(ranks: Ranks, place: int, exchange: Exchange) -> tuple[int, ...]:
    """Place and tokens of a member, and numbers, on which the routing of these tokens depends."""
    first = ranks[0] - ranks[0] % exchange.alike
    return place, exchange.tokens[place], *exchange.which, first


def _parts(ranks: Ranks, rank: int, exchange: Exchange, routing: ExpertRouting) -> Ranks:
    """Bytes that a rank gives to each of the group: its tokens, or answers to theirs."""
    own = ranks.index(rank)
    found = []
    for other in range(len(ranks)):
        source, target = (other, own) if exchange.combine else (own, other)
        sets = routing.sets_of(*_drawn(ranks, source, exchange))
        tokens = sum(count for targets, count in sets.items() if target in targets)
        found.append(tokens * exchange.token_bytes)
    return tuple(found)


def _steps(
    name: str, servers: tuple[Ranks, ...], rank: int, exchange: Exchange, routing: ExpertRouting
) -> list[tuple[str, Ranks, Ranks]]:
    """(group, its ranks, bytes for each) of a rank's two calls: across servers and inside its own,
    or of answers the other way round. servers: the ranks of the call's group in each."""
    if len({len(each) for each in servers}) > 1 or len(servers[0]) == 1:
        raise TraceError(
            f"experts: the servers of group {name} have {', '.join(str(len(e)) for e in servers)}"
            f" of its ranks; calls: {RAILS} needs equally many in each, two or more. Take calls:"
            f" {FLOWS}, another topology, or other parallelism"
        )
    everyone = [each for server in servers for each in server]
    size = len(servers[0])
    number, place = divmod(everyone.index(rank), size)

    def bytes_of(owner: tuple[int, int], server: int, at: int | None = None) -> int:
        """Of the tokens of the owner, a server and a place in it, with experts in a server."""
        wanted = {at} if at is not None else {*range(size)}
        source = owner[0] * size + owner[1]
        sets = routing.sets_of(*_drawn(tuple(everyone), source, exchange))
        there = {server * size + each for each in wanted}
        return exchange.token_bytes * sum(n for to, n in sets.items() if there & {*to})

    numbers, places = range(len(servers)), range(size)
    if exchange.combine:
        across = [bytes_of((each, place), number) * (each != number) for each in numbers]
        inside = [
            sum(bytes_of((each, other), number, place) for each in numbers) * (other != place)
            for other in places
        ]
    else:
        across = [bytes_of((number, place), each) * (each != number) for each in numbers]
        inside = [
            sum(bytes_of((each, place), number, other) for each in numbers) * (other != place)
            for other in places
        ]
    rail = tuple(each[place] for each in servers)
    both = [
        (f"{name}{ACROSS}{place}", rail, tuple(across)),
        (f"{name}{IN}{number}", servers[number], tuple(inside)),
    ]
    return both[::-1] if exchange.combine else both


def _calls(
    ranks: Ranks, rank: int, exchange: Exchange, routing: ExpertRouting, sets: _Sets
) -> Iterator[tuple[str, int, str, int]]:
    """(group, root, kind, bytes) of a rank's calls: those of all owners' sets that it is in."""
    kind = "combine" if exchange.combine else "dispatch"
    for owner, member in enumerate(ranks):
        counted = routing.sets_of(*_drawn(ranks, owner, exchange))
        for targets, tokens in sorted(counted.items()):
            others = tuple(ranks[each] for each in targets)
            if others and rank in (member, *others):
                name = sets.named((member, *others))
                yield name, member, kind, tokens * exchange.token_bytes
