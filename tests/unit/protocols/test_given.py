"""Values that a program gives, on their way into packets and back."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import given
from testbed.protocols.given import FIXED, RARE, ROUNDED, SCALED, WHOLE, Given

BLOCKS = 2
ARENA = 64
SOURCE, TARGET = (3, 20), (30, 45)  # first places of the blocks
BASE = 2  # first word of values in a packet
COUNT = 4


def new(form: int, workers: int = 4, scale: float = 1.0, divisor: float = 1.0, **options) -> Given:
    """Two blocks; what is expected of the second is that it differs from the first."""
    words = np.full(ARENA, 12345, np.int32)
    g = given.new_given(BLOCKS, 2, workers, **options)._replace(
        words=words, numbers=words.view(np.float32)
    )
    g.source[:], g.target[:] = SOURCE, TARGET
    g.form[:] = form
    g.scale[:], g.divisor[:] = (7.0, scale), (3.0, divisor)
    g.counter[:] = 0, 1
    g.left[:] = 10, 10
    return g


def put(g: Given, *values: float, offset: int = 0) -> None:
    """Into the second block's source."""
    into = g.words if g.form[1] == WHOLE else g.numbers
    start = SOURCE[1] + offset
    into[start : start + len(values)] = values


def written(g: Given, offset: int = 0, count: int = COUNT, function=given.write) -> np.ndarray:
    """The words of a packet, in native order; what is around them stays."""
    row = np.full(BASE + count + 1, 0xDEADBEEF, np.uint32)
    function(g, row, BASE, 1, offset, count)
    assert row[:BASE].tolist() == [0xDEADBEEF] * BASE and row[-1] == 0xDEADBEEF
    return row[BASE:-1].byteswap().view(np.int32)


def taken(g: Given, words, offset: int = 0, function=given.take) -> np.ndarray:
    """Words in the second block's target after a result with these words; the rest stays."""
    before = g.words.copy()
    row = np.zeros(BASE + len(words), np.uint32)
    row[BASE:] = np.asarray(words, np.int64).astype(np.int32).view(np.uint32).byteswap()
    function(g, row, BASE, 1, offset, len(words))
    start = TARGET[1] + offset
    into = g.words if g.form[1] == WHOLE else g.numbers
    found = into[start : start + len(words)].copy()
    g.words[start : start + len(words)] = before[start : start + len(words)]
    np.testing.assert_array_equal(g.words, before)
    assert g.left.tolist() == [10, 9]
    g.left[1] = 10
    return found


# ---- int32 ----


def test_whole_numbers_go_as_they_are():
    g = new(WHOLE)
    numbers = [1, -2, 2**31 - 1, -(2**31)]
    put(g, *numbers, offset=5)
    assert written(g, 5).tolist() == numbers
    assert taken(g, numbers, 6).tolist() == numbers


# ---- float32 in steps ----


@pytest.mark.parametrize("form", [SCALED, FIXED, ROUNDED])
def test_floats_go_in_steps(form):
    g = new(form, scale=10.0)
    put(g, 1.0, -0.25, 0.06, -3e7, offset=1)
    assert written(g, 1).tolist() == [10, -2, 1, -300_000_000]
    assert written(g, 2, 2).tolist() == [-2, 1]


@pytest.mark.parametrize("form", [SCALED, FIXED])
def test_sums_of_steps_are_divided_by_scale_and_divisor(form):
    g = new(form, scale=10.0, divisor=4.0)
    assert taken(g, [40, -10, 1, 2**31 - 1], 3).tolist() == [
        *np.array([1.0, -0.25, 0.025, (2**31 - 1) / 40], np.float32).tolist()
    ]


@pytest.mark.parametrize("workers, bits", [(1, 0), (2, 1), (5, 3), (8, 3)])
def test_rounded_sums_stand_for_more_steps(workers, bits):
    g = new(ROUNDED, workers, scale=10.0, divisor=2.0, value_bits=16)
    assert taken(g, [5, -3]).tolist() == [
        *np.array([5 * 2**bits / 20, -3 * 2**bits / 20], np.float32).tolist()
    ]


# ---- a fixed scale ----


@pytest.mark.parametrize(
    "value, fit",
    [(1.0, True), (25.0, True), (25.04, True), (25.06, False), (-25.0, True), (-26.0, False)]
    + [(np.nan, False), (np.inf, False), (-np.inf, False)],
)
@pytest.mark.parametrize("place", [0, 3])
def test_values_fit_a_fixed_scale_up_to_a_limit(value, fit, place):
    g = new(FIXED, scale=10.0)
    g.fixed[1] = 250
    values = [0.0] * 4
    values[place] = value
    put(g, *values, offset=2)
    assert bool(given.fits(g, 1, 2, 4)) is fit
    # What is beside them does not count.
    put(g, np.nan, offset=1)
    put(g, np.nan, offset=6)
    assert bool(given.fits(g, 1, 2, 4)) is fit


def test_most_steps_leave_room_for_all_workers():
    assert given.most_steps(4) == 213_000_000 and given.most_steps(20) == (2**31 - 1) // 20
    g = given.new_given(1, 1, 20, fixed_scale=1000)
    assert g.fixed.tolist() == [1000, (2**31 - 1) // 20] and g.rounded.tolist() == [-1, 32]


def test_what_does_not_fit_goes_as_it_is():
    g = new(FIXED)
    values = np.array([1.5, -np.inf, np.nan, 3e38], np.float32)
    put(g, *values, offset=4)
    words = written(g, 4, function=given.write_floats)
    np.testing.assert_array_equal(words, values.view(np.int32))
    found = taken(g, words, 2, given.take_floats)
    np.testing.assert_array_equal(found.view(np.int32), values.view(np.int32))
    g = new(FIXED, divisor=2.0)
    words = np.array([3.0, -5.0], np.float32).view(np.int32)
    assert taken(g, words, 2, given.take_floats).tolist() == [1.5, -2.5]


# ---- marks of what is not finite ----


@pytest.mark.parametrize("workers", [1, 3, 4, 32])
def test_what_is_not_finite_leaves_its_mark_in_every_sum(workers):
    """Sums of words say how many workers had an infinity of either sign, beside the steps."""
    steps = [5, -7, 0]
    for special in ([], [np.inf], [-np.inf], [np.nan], [np.inf, -np.inf], [np.inf] * workers):
        special = special[:workers]
        total = np.zeros(3, np.int64)
        for worker in range(workers):
            g = new(RARE, workers, scale=2.0)
            values = [step / 2 for step in steps]
            if worker < len(special):
                values[1] = special[worker]
            put(g, *values)
            total += written(g, 0, 3)
        g = new(RARE, workers, scale=2.0, divisor=workers)
        with np.errstate(invalid="ignore"):
            middle = np.float32(np.sum(special)) if special else np.float32(-3.5)
        expected = np.array([2.5, middle, 0.0], np.float32)
        wrapped = (total + 2**31) % 2**32 - 2**31
        np.testing.assert_array_equal(taken(g, wrapped), expected)


def test_sums_of_steps_may_be_negative_beside_marks():
    """A negative sum borrows from the marks' bits, and they are told apart all the same."""
    workers = 3
    total = np.zeros(2, np.int64)
    for values in ([-1.0, np.inf], [-1.0, -400.0], [-1.0, -300.0]):
        g = new(RARE, workers)
        put(g, *values)
        total += written(g, 0, 2)
    assert taken(new(RARE, workers, divisor=3.0), total).tolist() == [-1.0, np.inf]
    total = np.zeros(1, np.int64)
    for value in (-np.inf, -400.0, -300.0):
        g = new(RARE, workers)
        put(g, value)
        total += written(g, 0, 1)
    assert taken(new(RARE, workers, divisor=3.0), total).tolist() == [-np.inf]
