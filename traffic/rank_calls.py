"""The communicators of a program of ranks (rank_graph), and the calls of its ranks in each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from testbed.collective.memory_map import WHOLE
from testbed.traffic import chakra
from testbed.traffic.rank_graph import COLLECTIVES, COMPUTE, Node, Program
from testbed.traffic.trace import MAX_VALUES, TraceError

REPLAYED = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "barrier")
NARROW = {"bfloat16": 2, "float16": 2, "int8": 1, "uint8": 1}  # bytes of types below 32 bits


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
def _loaded(path: Path, *_: int) -> Program:
    program = chakra.load(path)
    for rank, nodes in enumerate(program.ranks):
        for place, node in enumerate(nodes):
            if node.kind not in (COMPUTE, *REPLAYED):
                raise TraceError(
                    f"{program.where(rank, place)}: {node.kind} is not replayed, only"
                    f" {', '.join(REPLAYED)}; take such nodes out"
                )
    return program


@lru_cache(maxsize=4)
def _grouped(values: int, path: Path, *state: int) -> tuple[Group, ...]:
    return _groups_of(_loaded(path, *state), values)


def _state(path: Path) -> tuple:
    """Key of a program in the caches: its path, and the state of its first rank's file."""
    first = path if path.name.endswith(chakra.FIRST) else path.with_suffix(chakra.FIRST)
    try:
        state = first.stat()
    except OSError:
        return (path.absolute(),)  # loading it says what is the matter
    return path.absolute(), state.st_mtime_ns, state.st_size


def load_program(path: str | Path, folder: str | Path | None = None) -> Program:
    """A program whose collectives can all be replayed; path: relative to `folder`. Raises
    TraceError."""
    return _loaded(*_state(Path(folder or ".") / Path(path).expanduser()))


def load_groups(path: Path, values: int) -> tuple[Group, ...]:
    """The communicators of several ranks in which there are calls, with `values` values per packet.
    What belongs to a rank is whole packets. Raises TraceError if a call is too large."""
    return _grouped(values, *_state(path))


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
                    f"{program.files[ranks[0]]}: node {call.node.id} ({call.node.kind}) has"
                    f" {call.values} values; allowed: up to {MAX_VALUES}"
                )
        found.append(Group(name, ranks, calls))
    return tuple(found)


def calls_of(program: Program, rank: int, group: str) -> list[Node]:
    """A rank's collectives in a group, in order."""
    return [
        node for node in program.ranks[rank] if node.kind in COLLECTIVES and node.group == group
    ]


def _call(program: Program, ranks: tuple[int, ...], node: Node, values: int) -> Call:
    # Bytes of any type travel as words of 32 bits. A sum needs one for each of its numbers.
    words = -(-node.bytes // 4)
    numbers = -(-node.bytes // NARROW.get(node.dtype, 4))
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
