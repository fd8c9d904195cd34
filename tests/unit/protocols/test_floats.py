"""Sums of floating-point numbers at a server: exact, and the same in every order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols import floats, send_scoreboard

numbers = st.one_of(
    st.just(0.0),
    st.floats(2.0**-30, 2.0**29, width=32),
    st.floats(-(2.0**29), -(2.0**-30), width=32),
)


def summed(parts):
    """Server's sum of one number from each worker, in this order."""
    f = floats.new_server_floats(1, 1)
    row = np.zeros(1, np.uint32)
    floats.clear(f, 0)
    for part in parts:
        row[0] = np.float32(part).view(np.uint32).byteswap()
        floats.add(f, 0, row, 0)
    floats.write_sum(f, 0, row, 0)
    return row.byteswap().view(np.float32)[0]


@given(st.lists(numbers, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_sums_are_exact_in_every_order(parts, random):
    expected = np.float32(math.fsum(parts))
    assert summed(parts) == expected
    random.shuffle(parts)
    assert summed(parts) == expected


def test_what_rounding_loses_comes_back():
    assert summed([2.0**55, 1.0, -(2.0**55)]) == 1.0
    assert summed([1.0, 2.0**55, -(2.0**55)]) == 1.0


@pytest.mark.parametrize(
    "parts, expected",
    [
        ([1.0, math.inf, 2.0], math.inf),
        ([-math.inf, 1.0], -math.inf),
        ([math.inf, 1.0, -math.inf], math.nan),
        ([1.0, math.nan, math.inf], math.nan),
        ([3e38, 3e38], math.inf),
    ],
)
def test_what_is_not_finite_stays_so(parts, expected):
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_equal(summed(parts), np.float32(expected))


def bits(*numbers: float) -> list[int]:
    """float32 as the words of a packet."""
    return np.array(numbers, np.float32).view(np.uint32).byteswap().tolist()


def test_a_server_adds_row_by_row_from_a_packets_base_on():
    f = floats.new_server_floats(2, 3)
    f.sums[:], f.lost[:] = 99.0, 1.0
    for place in (0, 1):
        floats.clear(f, place)
    assert not f.sums.any() and not f.lost.any()
    row = np.array([7, 7, *bits(1.5, -2.0, 0.25), 7], np.uint32)
    floats.add(f, 1, row, 2)
    floats.add(f, 1, row, 2)
    out = np.full(6, 7, np.uint32)
    floats.write_sum(f, 1, out, 2)
    assert out.tolist() == [7, 7, *bits(3.0, -4.0, 0.5), 7]
    floats.write_sum(f, 0, out, 2)
    assert out.tolist() == [7, 7, *bits(0.0, 0.0, 0.0), 7]
    f.lost[1, 0] = 0.5
    floats.write_sum(f, 1, out, 2)
    assert out[2] == bits(3.5)[0]


# ---- at a worker: two recorded iterations of two fragments with three values ----


def recorded() -> floats.WorkerFloats:
    own = np.arange(12, dtype=np.float32).reshape(2, 6)
    over = np.array([[0, 1], [0, 0]], np.uint8)
    sums = 10.0 * own.astype(np.float64)
    sizes = np.full((2, 6), 2.0**10)
    return floats.new_worker_floats(over, own, sums, sizes)


def test_a_fragment_goes_as_floats_if_it_is_over_or_wanted():
    f = recorded()
    over = [[bool(floats.wanted(f, i, fragment, 0)) for fragment in (0, 1)] for i in range(4)]
    assert over == [[False, True], [False, False]] * 2
    for status, expected in ((send_scoreboard.FLOAT, True), (send_scoreboard.SENT, False)):
        assert bool(floats.wanted(f, 1, 0, status)) is expected
    nothing = floats.no_worker_floats()
    assert not floats.wanted(nothing, 0, 0, send_scoreboard.FLOAT)


@pytest.mark.parametrize("iteration", [0, 1, 2, 5])
def test_own_floats_are_written_as_recorded(iteration):
    f = recorded()
    row = np.full(6, 7, np.uint32)
    floats.write_own(f, row, 2, iteration, 1, 3)
    first = 6 * (iteration % 2) + 3
    assert row.tolist() == [7, 7, *bits(first, first + 1, first + 2), 7]


@pytest.mark.parametrize("iteration", [0, 1, 2])
def test_a_sum_may_differ_by_the_bound_and_no_more(iteration):
    """2^-23 of a size of 2^10 is 2^-13."""
    f = recorded()
    first = 10.0 * (6 * (iteration % 2) + 3)
    expected = [first, first + 10, first + 20]
    row = np.array([7, 7, *bits(*expected), 7], np.uint32)
    assert floats.first_wrong(f, row, 2, iteration, 1, 3) == -1
    for place in range(3):
        for step, wrong in ((2.0**-13, -1), (-(2.0**-13), -1), (2.0**-12, place), (-1.0, place)):
            changed = list(expected)
            changed[place] += step
            row[2:5] = bits(*changed)
            assert floats.first_wrong(f, row, 2, iteration, 1, 3) == wrong
        for bad in (np.nan, np.inf):
            changed[place] = bad
            row[2:5] = bits(*changed)
            assert floats.first_wrong(f, row, 2, iteration, 1, 3) == place
