"""The small arrays of many machines, side by side.

Each array of a machine is an allocation of its own, and a step reads about forty of them. So
hundreds of machines use more pages of memory than the processor's TLB has entries, and many
accesses wait for the page tables. Here the arrays move into one piece of memory, machine by
machine, short arrays that every step reads first. numpy asks the kernel for large pages if a piece
is large enough for them (4 MiB).

Large arrays stay where they are. Those of a large model take memory only where they are used, and
large pages would take memory for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from p4fabric.simulate.placed_machine import Placed, address_of

if TYPE_CHECKING:
    from p4fabric.simulate.machine import Machine

Leaf: TypeAlias = np.ndarray | np.record
T = TypeVar("T", bound=tuple)

LINE_BYTES = 64  # of the cache
SHORT_BYTES = 256  # at most: the scalars of a state, a configuration, counters
LARGEST_BYTES = 64 << 10
PAGE_BYTES = 4 << 10

_base = np.generic.base.__get__
"""The array that a record views; to ask the record itself takes ten times as long."""


def packed(machines: list[Machine]) -> tuple[list[Placed], list[int]]:
    """The same machines (named tuples of arrays and of such tuples), placed, with their small
    arrays moved together behind their words; and of each the bytes from its words to the end of its
    short arrays.

    Arrays that several machines share are shared as before. An array that views another one's
    memory stays where it is, as does the other one."""
    parts: list[list[Leaf]] = []
    for machine in machines:
        parts.append([])
        _flatten(machine, parts[-1])
    moving, starts, hot, end = _plan(parts)
    memory = np.zeros(end + LINE_BYTES, np.uint8)
    memory = memory[-address_of(memory) % LINE_BYTES :]
    begin = address_of(memory)
    moved = {key: _move(each, memory, start) for key, (start, each) in moving.items()}
    places = {key: begin + start for key, (start, _) in moving.items()}
    placed = []
    for machine, own, start in zip(machines, parts, starts, strict=True):
        words = []
        for each in own:
            place = places.get(id(each))
            if place is None:  # nothing is read of an array without elements
                place = places[id(each)] = address_of(each) if each.size else begin
            words.append(place)
            if type(each) is np.ndarray:
                words += each.shape
                words += each.strides
        room = memory[start : start + 8 * len(words)].view(np.int64)
        room[:] = words
        there = _with(machine, iter([moved.get(id(each), each) for each in own]))
        placed.append(Placed.already(there, room, begin + start))
    return placed, hot


def _plan(
    parts: list[list[Leaf]],
) -> tuple[dict[int, tuple[int, Leaf]], list[int], list[int], int]:
    """From the arrays and records of each machine: what moves, by its id, with its place; where
    each machine begins, the bytes up to the end of its short arrays; and the end of all."""
    kept = {
        id(each.base if type(each) is np.ndarray else _base(each)) for own in parts for each in own
    }
    moving: dict[int, tuple[int, Leaf]] = {}
    starts, hot, end = [], [], 0
    for own in parts:
        starts.append(end)
        end = _after(end, 8 * sum(1 + 2 * each.ndim for each in own))
        late = []
        for each in own:
            key, is_array = id(each), type(each) is np.ndarray
            if key in moving or key in kept or (is_array and each.base is not None):
                continue
            size = each.nbytes if is_array else each.dtype.itemsize
            if size > SHORT_BYTES:
                late.append((key, each, size))
            elif size > 0:
                moving[key] = end, each
                end = _after(end, size)
        hot.append(end - starts[-1])
        for key, each, size in late:
            if size <= LARGEST_BYTES and key not in moving:
                moving[key] = end, each
                end = _after(end, size)
    return moving, starts, hot, end


def _after(start: int, count: int) -> int:
    return start + -(-count // LINE_BYTES) * LINE_BYTES


def _flatten(part: tuple, into: list[Leaf]) -> None:
    for each in part:
        if isinstance(each, tuple):
            _flatten(each, into)
        else:
            into.append(each)


def _move(part: Leaf, memory: np.ndarray, start: int) -> Leaf:
    """An array or a record that has moved to this place in memory."""
    if type(part) is not np.ndarray:
        table = np.ndarray(1, part.dtype, memory, start)
        table[0] = part
        return table[0]
    there = np.ndarray(part.shape, part.dtype, memory, start)
    if part.nbytes < PAGE_BYTES or part.view(np.uint8).any():
        there[...] = part  # zeros take no memory before they are used
    return there


def _with(part: T, leaves: Iterator[Leaf]) -> T:
    """The same tuple with these arrays and records, in their order."""
    return type(part)(
        *[_with(each, leaves) if isinstance(each, tuple) else next(leaves) for each in part]
    )
