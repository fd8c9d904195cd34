"""The communicators of a program of ranks (rank_graph), and the calls of its ranks in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from testbed.collective.memory_map import WHOLE
from testbed.collective_kinds import CARRIED, OTHERS, OWN
from testbed.traffic import rank_source
from testbed.traffic.rank_graph import GroupRoute, Node, Program, check, width_of
from testbed.traffic.rank_layout import smaller
from testbed.traffic.rank_source import Source
from testbed.traffic.trace import MAX_VALUES, TraceError
from testbed.traffic.transfers import PacketNumbers, Transfers, transfers_of

What = str | Path | Source
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """A collective of a communicator. The first of its `values` is value `share_at` of those of all
    ranks, of which `share` belong to each: it gets them, or gives them to all (`from_one`); with
    `from_others` it gets those of the others alone. share 0: all values belong to all ranks."""

    node: Node  # of the communicator's first rank
    values: int
    share: int = 0
    share_at: int = 0
    from_one: bool = False
    from_others: bool = False
    wanted: tuple[int, ...] = ()  # members beside the root, where packets name them

    @property
    def gives(self) -> int:
        """As in JobSpec.shares."""
        return 2 if self.from_others else int(self.from_one)


@dataclass(frozen=True)
class Group:
    """A communicator of several ranks, with its calls in order."""

    route: GroupRoute
    ranks: tuple[int, ...]
    calls: tuple[Call, ...]

    @property
    def of_tokens(self) -> bool:
        """True if packets name the ranks of each call; the first rank is the root of all."""
        return bool(self.calls[0].wanted)


def _of_source(make: Callable[Concatenate[Source, P], T]) -> Callable[Concatenate[What, P], T]:
    """A function of a source, by that or its text (rank_source), that keeps its last results until
    the file changes."""

    @lru_cache(maxsize=16)  # several sizes of sampled layers of some jobs
    def kept(state: tuple[int, ...], source: Source, /, *more: P.args, **named: P.kwargs) -> T:
        return make(source, *more, **named)

    @wraps(make)
    def load(what: What, /, *more: P.args, **named: P.kwargs) -> T:
        source = rank_source.of(what)
        return kept(source.state(), source, *more, **named)  # type: ignore[arg-type]

    return load


@_of_source
def load_program(source: Source) -> Program:
    """A program. Raises TraceError."""
    return source.load()


@_of_source
def check_program(source: Source) -> Program:
    """The same, after a check of the program."""
    program = load_program(source)
    if not source.is_trace:
        check(smaller(program))
    return program


@_of_source
def load_groups(source: Source, values: int) -> tuple[Group, ...]:
    """The communicators of several ranks in which there are calls, with `values` values per packet.
    What belongs to a rank is whole packets. Raises TraceError if a call is too large."""
    return _groups_of(load_program(source), values)


def calls_by_route(nodes: Sequence[Node]) -> dict[GroupRoute, list[tuple[str, int]]]:
    """A rank's calls of each communicator in order, each by its group and its number there."""
    found: dict[GroupRoute, list[tuple[str, int]]] = {}
    seen: Counter[tuple[GroupRoute, str]] = Counter()
    for node in nodes:
        if node.kind in CARRIED:
            found.setdefault(node.route, []).append((node.group, seen[node.route, node.group]))
            seen[node.route, node.group] += 1
    return found


@_of_source
def load_token_calls(source: Source) -> dict[GroupRoute, dict[tuple[str, int], int]]:
    """Numbers of the calls in which owners give or get tokens, of each owner's communicator, by the
    calls' groups and numbers there."""
    program = load_program(source)
    owners: dict[GroupRoute, int] = {}
    for nodes in program.ranks:
        owners |= {node.route: node.peer for node in nodes if node.through}
    return {
        route: {call: n for n, call in enumerate(calls_by_route(program.ranks[owner])[route])}
        for route, owner in owners.items()
    }


@_of_source
def load_transfers(source: Source) -> Transfers:
    """Transfers between single ranks of a program."""
    return transfers_of(load_program(source))


@_of_source
def load_numbers(source: Source, values: int) -> PacketNumbers:
    """The numbers of these transfers' packets of `values` values (Transfers.numbered)."""
    return load_transfers(source).numbered(values)


def _groups_of(program: Program, values: int) -> tuple[Group, ...]:
    found = []
    for route in program.routes_with():
        ranks = program.groups[route.group]
        nodes = [
            node for node in program.ranks[ranks[0]] if node.kind in CARRIED and node.route == route
        ]
        if len(ranks) < 2 or not nodes:
            continue
        calls = tuple(_call(program, ranks, node, values) for node in nodes)
        for call in calls:
            if call.values > MAX_VALUES:
                raise TraceError(
                    f"{program.where(ranks[0])}, node {call.node.id} ({call.node.kind}) has"
                    f" {call.values} values; allowed: up to {MAX_VALUES}. Take a smaller scale"
                )
        found.append(Group(route, ranks, calls))
    return tuple(found)


def _call(program: Program, ranks: tuple[int, ...], node: Node, values: int) -> Call:
    # Bytes of any type travel as words of 32 bits, but tokens in those of the system's sums. A sum
    # needs one for each of its numbers.
    kind, size = CARRIED[node.kind], len(ranks)
    moved = program.word if node.kind == "dispatch" else 4
    count = -(-node.bytes // (width_of(node) if kind.sums else moved))
    if kind.rooted:
        root = ranks.index(node.peer)
        from_one, others = not kind.sums, kind.gives == OTHERS
        members = program.groups[node.group] if node.through else ()
        wanted = tuple(sorted(ranks.index(each) for each in members if each != node.peer))
        return Call(node, max(count, 1), WHOLE, root * WHOLE, from_one, others, wanted)
    if not kind.parts:
        return Call(node, max(count, 1))
    part = _whole_packets(count if kind.gives == OWN else -(-count // size), values)
    return Call(node, size * part, part, from_one=not kind.sums)


def _whole_packets(count: int, values: int) -> int:
    return max(-(-count // values), 1) * values
