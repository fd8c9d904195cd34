"""Sums of floating-point numbers at a server: exact, and the same in every order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols import floats

numbers = st.one_of(
    st.just(0.0),
    st.floats(2.0**-30, 2.0**29, width=32),
    st.floats(-(2.0**29), -(2.0**-30), width=32),
)


def summed(parts):
    """What a server makes of one number from each worker, in this order."""
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
