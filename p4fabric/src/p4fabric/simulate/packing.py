"""The small arrays of many machines, side by side.

Each array of a machine is an allocation of its own, and a step reads about forty of them. So
hundreds of machines use more pages of memory than the processor's TLB has entries, and many
accesses wait for the page tables. Here the arrays move into one piece of memory, machine by
machine, short arrays that every step reads first. numpy asks the kernel for large pages if a piece
is large enough for them (4 MiB).

Large arrays stay where they are. Those of a large model take memory only where they are used, and
large pages would take memory for all of them.

Thousands of machines have half a million arrays, and Python takes microseconds to ask one for its
place, its shape and what it views. So compiled code reads them where numpy's C interface has them
in an object (PyArrayObject_fields and PyVoidScalarObject in numpy's headers).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from p4fabric.simulate.jit import njit
from p4fabric.simulate.native import copy, peek, poke
from p4fabric.simulate.placed_machine import Placed, address_of
from p4fabric.simulate.records import record

if TYPE_CHECKING:
    from p4fabric.simulate.machine import Machine

Leaf: TypeAlias = np.ndarray | np.record
T = TypeVar("T", bound=tuple)

LINE_BYTES = 64  # of the cache
SHORT_BYTES = 256  # at most: the scalars of a state, a configuration, counters
LARGEST_BYTES = 64 << 10
PAGE_BYTES = 4 << 10

# In bytes: where an object has its type. Where an array has its fields, behind the head of an
# object: the address of its elements, the number of dimensions (int32), the addresses of shape and
# strides, the object whose memory it views, and flags (int32). Where a record has the first and the
# fifth of them, behind the head of an object with a length.
TYPE = object.__basicsize__ - 8
DATA, DIMENSIONS, SHAPE, STRIDES, BASE, FLAGS = (object.__basicsize__ + 8 * at for at in range(6))
FLAGS += 8  # the type of its elements comes before
RECORD_DATA, RECORD_BASE = tuple.__basicsize__, tuple.__basicsize__ + 24
CONTIGUOUS, INT32 = 1, (1 << 32) - 1

FOUND = record(
    "address",
    "dimensions",
    "shape_at",
    "strides_at",
    "viewed",  # the object whose memory it views, or 0
    "bytes",  # of what can move, else 0
    "place",  # where it moves to, in bytes, or -1
)


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
    begins = np.array([0, *accumulate(map(len, parts))])
    leaves = [*chain.from_iterable(parts)]
    ids = np.fromiter(map(id, leaves), np.int64, len(leaves))
    objects, first, which = np.unique(ids, return_index=True, return_inverse=True)
    own = [leaves[place] for place in first.tolist()]
    assert {*map(type, own)} <= {np.ndarray, np.record}  # others have their fields elsewhere
    found = np.zeros(len(own), FOUND)
    found["bytes"] = [each.nbytes for each in own]
    _look(objects, id(np.record), found)
    found["bytes"][np.isin(objects, found["viewed"])] = 0
    starts, hot = np.zeros((2, len(machines)), np.int64)
    end = _plan(begins, which, found, starts, hot)
    memory = np.zeros(end + LINE_BYTES, np.uint8)
    memory = memory[-address_of(memory) % LINE_BYTES :]
    begin = address_of(memory)
    _move(begin, found)
    ends = _write_words(begin, begins, which, found, starts)
    moved = [
        each if place < 0 else _there(each, memory, place)
        for each, place in zip(own, found["place"].tolist(), strict=True)
    ]
    after = map(moved.__getitem__, which.tolist())
    placed = [
        Placed.already(_with(machine, after), memory[start:end].view(np.int64), begin + start)
        for machine, start, end in zip(machines, starts.tolist(), ends.tolist(), strict=True)
    ]
    return placed, hot.tolist()


def _flatten(part: tuple, into: list[Leaf]) -> None:
    for each in part:
        if isinstance(each, tuple):
            _flatten(each, into)
        else:
            into.append(each)


@njit(cache=True)
def _look(objects, records, found):
    """Fill the rows of `found`, which have the objects' bytes; records: the type of records. All by
    their addresses."""
    for i in range(objects.size):
        at, one = objects[i], found[i]
        one.place = -1
        if peek(at + TYPE) == records:
            one.address, one.viewed = peek(at + RECORD_DATA), peek(at + RECORD_BASE)
            continue
        one.address, one.viewed = peek(at + DATA), peek(at + BASE)
        one.dimensions = peek(at + DIMENSIONS) & INT32
        one.shape_at, one.strides_at = peek(at + SHAPE), peek(at + STRIDES)
        if one.viewed != 0 or peek(at + FLAGS) & CONTIGUOUS == 0:
            one.bytes = 0


@njit(cache=True)
def _after(start, count):
    return start + -(-count // LINE_BYTES) * LINE_BYTES


@njit(cache=True)
def _plan(begins, which, found, starts, hot):
    """Give each array a place, and each machine its start and the bytes up to the end of its short
    arrays; returns the end of all. A machine's objects: which[begins[m] : begins[m + 1]]."""
    end = 0
    for m in range(starts.size):
        own = which[begins[m] : begins[m + 1]]
        starts[m], words = end, 0
        for i in own:
            words += 1 + 2 * found[i].dimensions
        end = _after(end, 8 * words)
        for shortest, longest in ((0, SHORT_BYTES), (SHORT_BYTES, LARGEST_BYTES)):
            for i in own:
                if found[i].place < 0 and shortest < found[i].bytes <= longest:
                    found[i].place = end
                    end = _after(end, found[i].bytes)
            if shortest == 0:
                hot[m] = end - starts[m]
    return end


@njit(cache=True)
def _is_zero(address, count):
    """True if all of at least 8 bytes are 0."""
    for at in range(address, address + count - 7, 8):
        if peek(at) != 0:
            return False
    return peek(address + count - 8) == 0


@njit(cache=True)
def _move(begin, found):
    """Copy what has a place into memory, which is zeros from address `begin` on."""
    for one in found:
        if one.place < 0:
            continue
        # Zeros take no memory before they are used.
        if one.bytes < PAGE_BYTES or not _is_zero(one.address, one.bytes):
            copy(begin + one.place, one.address, one.bytes)
        one.address = begin + one.place


@njit(cache=True)
def _write_words(begin, begins, which, found, starts):
    """Write the words of each machine (placed_machine.py) to its start; returns their ends."""
    ends = starts.copy()
    for m in range(starts.size):
        at = begin + starts[m]
        for i in which[begins[m] : begins[m + 1]]:
            one = found[i]
            poke(at, one.address)
            size = 8 * one.dimensions
            copy(at + 8, one.shape_at, size)
            copy(at + 8 + size, one.strides_at, size)
            at += 8 + 2 * size
        ends[m] = at - begin
    return ends


def _there(part: Leaf, memory: np.ndarray, place: int) -> Leaf:
    """An array or a record at its new place."""
    if type(part) is np.ndarray:
        return np.ndarray(part.shape, part.dtype, memory, place)
    return np.ndarray(1, part.dtype, memory, place)[0]


def _with(part: T, leaves: Iterator[Leaf]) -> T:
    """The same tuple with these arrays and records, in their order."""
    return type(part)(
        *[_with(each, leaves) if isinstance(each, tuple) else next(leaves) for each in part]
    )
