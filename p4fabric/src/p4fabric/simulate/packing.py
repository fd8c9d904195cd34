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
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from p4fabric.simulate.machine import Machine

LINE_BYTES = 64  # of the cache
SHORT_BYTES = 256  # at most: the scalars of a state, a configuration, counters
LARGEST_BYTES = 64 << 10
PAGE_BYTES = 4 << 10


def packed(machines: list[Machine]) -> tuple[list[Machine], list[np.ndarray], list[int]]:
    """The same machines (named tuples of arrays and of such tuples) with their small arrays moved
    together; for each machine room for its words (placed.Placed), int64, in front of them; and the
    bytes from there to the end of its short arrays.

    Arrays that several machines share are shared as before. An array that views another one's
    memory stays where it is, as does the other one."""
    parts = [list(_arrays(machine)) for machine in machines]
    kept = {id(each.base) for own in parts for each in own}
    places: dict[int, tuple[int, np.ndarray]] = {}  # by id of the array
    rooms, hot, end = [], [], 0
    for own in parts:
        words = sum(1 + 2 * each.ndim for each in own)
        start, hot_bytes = end, 0
        end = _after(end, 8 * words)
        for short in (True, False):
            for each in own:
                size = each.nbytes
                if (size <= SHORT_BYTES) is not short or not 0 < size <= LARGEST_BYTES:
                    continue
                owns = each.base is None or isinstance(each, np.record)
                if owns and id(each) not in kept and id(each) not in places:
                    places[id(each)] = end, each
                    end = _after(end, size)
            hot_bytes = hot_bytes or end - start
        rooms.append((start, words))
        hot.append(hot_bytes)
    memory = np.zeros(end + LINE_BYTES, np.uint8)
    memory = memory[-memory.ctypes.data % LINE_BYTES :]
    moved = {key: _move(each, memory[start:]) for key, (start, each) in places.items()}
    return (
        [_with(machine, moved) for machine in machines],
        [memory[start : start + 8 * words].view(np.int64) for start, words in rooms],
        hot,
    )


def _after(start: int, count: int) -> int:
    return start + -(-count // LINE_BYTES) * LINE_BYTES


def _arrays(part: tuple) -> Iterator[np.ndarray]:
    for each in part:
        if isinstance(each, tuple):
            yield from _arrays(each)
        else:
            yield each


def _move(part: Any, memory: np.ndarray) -> Any:
    """An array or a record that has moved to this memory."""
    array = np.atleast_1d(part)
    there = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    if (
        array.nbytes < PAGE_BYTES or array.view(np.uint8).any()
    ):  # zeros take no memory before they are used
        there[...] = array
    return there[0] if isinstance(part, np.record) else there


def _with(part: Any, moved: dict[int, np.ndarray]) -> Any:
    return type(part)(
        *(
            _with(each, moved) if isinstance(each, tuple) else moved.get(id(each), each)
            for each in part
        )
    )
