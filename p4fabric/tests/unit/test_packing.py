"""Machines' arrays side by side (p4fabric/src/p4fabric/simulate/packing.py)."""

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.packing import LARGEST_BYTES, LINE_BYTES, packed
from p4fabric.simulate.placed_machine import Placed
from p4fabric.simulate.records import new_record, record


class Inner(NamedTuple):
    number: np.ndarray
    bits: np.ndarray  # the same memory


class Machine(NamedTuple):
    shared: np.ndarray
    table: np.ndarray
    inner: Inner
    large: np.ndarray
    counters: np.ndarray
    again: np.ndarray  # the same array as `counters`
    state: np.record
    tail: np.ndarray  # zeros but for the last element
    turned: np.ndarray  # columns one after the other
    nothing: np.ndarray


STATE = record("first", "second")
SHARED = np.arange(3, dtype=np.int16)


def machine(seed: int) -> Machine:
    number, tail = np.full(1, seed, np.float32), np.zeros(5001, np.uint8)
    tail[-1] = seed
    counters = np.arange(seed, seed + 5)
    return Machine(
        SHARED,
        np.arange(600, dtype=np.int64).reshape(200, 3) + seed,
        Inner(number, number.view(np.uint32)),
        np.zeros(LARGEST_BYTES + 1, np.uint8),
        counters,
        counters,
        new_record(STATE, first=seed),
        tail,
        np.full((2, 3), seed, order="F"),
        np.zeros((0, 2), np.int32),
    )


def arrays(part):
    for each in part:
        yield from arrays(each) if isinstance(each, tuple) else (each,)


def test_arrays_keep_what_they_hold_and_their_kind():
    before = [machine(1), machine(20)]
    after = [each.part for each in packed(before)[0]]
    for old, new in zip(before, after, strict=True):
        assert type(new) is Machine and type(new.inner) is Inner
        for one, other in zip(arrays(old), arrays(new), strict=True):
            assert type(one) is type(other)
            there = np.asarray(other)
            assert (one.dtype, one.shape, one.strides) == (there.dtype, there.shape, there.strides)
            assert there.flags.c_contiguous or other is one  # which stays where it is
            assert there.flags.writeable and there.flags.aligned
            np.testing.assert_array_equal(one, other)


def test_shared_arrays_stay_shared_and_others_stay_apart():
    placed, _ = packed([machine(1), machine(20)])
    after, rooms = [each.part for each in placed], [each.words for each in placed]
    first, second = after
    assert first.counters is first.again
    assert first.shared is second.shared
    first.inner.number[0] = 1.5
    assert first.inner.bits[0] == np.float32(1.5).view(np.uint32)  # still one memory
    every = [*rooms, first.shared]
    for each in after:
        every += [each.table, each.inner.number, each.large, each.counters]
    spans = sorted((each.ctypes.data, each.ctypes.data + each.nbytes) for each in every)
    assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:], strict=False))


def test_a_machine_is_packed_but_for_large_arrays():
    before = [machine(1), machine(20)]
    placed, _ = packed(before)
    for old, each in zip(before, placed, strict=True):
        new, room = each.part, each.words
        assert new.large is old.large and new.turned is old.turned
        assert room.dtype == np.int64 and room.tolist() == Placed(new).words.tolist()
        assert each.address == room.ctypes.data and each.address % LINE_BYTES == 0
        # Its words, then what is small, then the rest.
        assert room.ctypes.data < new.counters.ctypes.data < new.table.ctypes.data
        assert new.table.ctypes.data < room.ctypes.data + 16 * LINE_BYTES


def test_a_machine_begins_with_its_words_and_short_arrays():
    """So what every step reads is prefetched in one piece (loop.py)."""
    placed, hot = packed([machine(1), machine(20)])
    for place, count in zip(placed, hot, strict=True):
        begin, each = place.address, place.part
        short = [place.words, each.counters, np.asarray(each.state)]
        assert all(begin <= part.ctypes.data < begin + count for part in short)
        assert begin + count == each.table.ctypes.data
