"""The communicators of a program of ranks (rank_graph), and the calls of its ranks in each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from testbed.collective.memory_map import WHOLE
from testbed.traffic import rank_source
from testbed.traffic.rank_graph import COLLECTIVES, Node, Program, check, width_of
from testbed.traffic.rank_layout import smaller
from testbed.traffic.rank_source import Source
from testbed.traffic.trace import MAX_VALUES, TraceError
from testbed.traffic.transfers import PacketNumbers, Transfers, is_carried, transfers_of


@dataclass(frozen=True)
class Call:
    """A collective of a communicator. The first of its `values` is value `share_at` of those of all
    ranks, of which `share` belong to each: it gets them, or gives them to all (`from_one`). share
    0: all values belong to all ranks."""

    node: Node  # of the communicator's first rank
    values: int
    share: int = 0
    share_at: int = 0
    from_one: bool = False


@dataclass(frozen=True)
class Group:
    """A communicator of several ranks, with its calls in order."""

    name: str
    ranks: tuple[int, ...]
    calls: tuple[Call, ...]


@lru_cache(maxsize=4)
def _loaded(source: Source, *_: int) -> Program:
    return source.load()


@lru_cache(maxsize=4)
def _checked(source: Source, *state: int) -> Program:
    program = _loaded(source, *state)
    if not source.is_trace:
        check(smaller(program))
    return program


@lru_cache(maxsize=4)
def _grouped(values: int, source: Source, *state: int) -> tuple[Group, ...]:
    return _groups_of(_loaded(source, *state), values)


@lru_cache(maxsize=4)
def _moved(source: Source, *state: int) -> Transfers:
    return transfers_of(_loaded(source, *state))


@lru_cache(maxsize=4)
def _numbered(values: int, source: Source, *state: int) -> PacketNumbers:
    return _moved(source, *state).numbered(values)


def load_program(what: str | Path | Source, folder: str | Path | None = None) -> Program:
    """A program by its source, or by the text of that (rank_source); a path is relative to
    `folder`. Raises TraceError."""
    source = rank_source.of(what, folder)
    return _loaded(source, *source.state())


def check_program(what: str | Path | Source) -> Program:
    """The same, after a check of the program."""
    source = rank_source.of(what)
    return _checked(source, *source.state())


def load_groups(what: str | Path | Source, values: int) -> tuple[Group, ...]:
    """The communicators of several ranks in which there are calls, with `values` values per packet.
    What belongs to a rank is whole packets. Raises TraceError if a call is too large."""
    source = rank_source.of(what)
    return _grouped(values, source, *source.state())


def load_transfers(what: str | Path | Source) -> Transfers:
    """Transfers between single ranks of a program."""
    source = rank_source.of(what)
    return _moved(source, *source.state())


def load_numbers(what: str | Path | Source, values: int) -> PacketNumbers:
    """The numbers of these transfers' packets of `values` values (Transfers.numbered)."""
    source = rank_source.of(what)
    return _numbered(values, source, *source.state())


def _groups_of(program: Program, values: int) -> tuple[Group, ...]:
    found = []
    for name, ranks in program.groups.items():
        nodes = calls_of(program, ranks[0], name)
        if len(ranks) < 2 or not nodes:
            continue
        calls = tuple(_call(program, ranks, node, values) for node in nodes)
        for call in calls:
            if call.values > MAX_VALUES:
                raise TraceError(
                    f"{program.where(ranks[0])}, node {call.node.id} ({call.node.kind}) has"
                    f" {call.values} values; allowed: up to {MAX_VALUES}. Take a smaller scale"
                )
        found.append(Group(name, ranks, calls))
    return tuple(found)


def calls_of(program: Program, rank: int, group: str) -> list[Node]:
    """A rank's collectives in a group, in order, without those whose parts are transfers."""
    return [
        node
        for node in program.ranks[rank]
        if node.kind in COLLECTIVES and node.group == group and not is_carried(node)
    ]


def _call(program: Program, ranks: tuple[int, ...], node: Node, values: int) -> Call:
    # Bytes of any type travel as words of 32 bits. A sum needs one for each of its numbers.
    words = -(-node.bytes // 4)
    numbers = -(-node.bytes // width_of(node))
    size = len(ranks)
    if node.kind == "all_gather":
        part = _whole_packets(words, values)
        return Call(node, size * part, part, from_one=True)
    if node.kind == "reduce_scatter":
        part = _whole_packets(-(-numbers // size), values)
        return Call(node, size * part, part)
    root = ranks.index(node.peer) if node.kind in ("broadcast", "reduce") else 0
    if node.kind == "broadcast":
        return Call(node, max(words, 1), WHOLE, root * WHOLE, from_one=True)
    if node.kind == "reduce":
        return Call(node, max(numbers, 1), WHOLE, root * WHOLE)
    return Call(node, max(numbers, 1))


def _whole_packets(count: int, values: int) -> int:
    return max(-(-count // values), 1) * values
