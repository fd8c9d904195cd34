"""Percentiles of the histogram of lags."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols import lag


@given(st.lists(st.integers(0, 2**39), min_size=1, max_size=200), st.sampled_from([0.5, 0.99]))
def test_percentile_is_at_most_a_quarter_octave_high(lags, share):
    histogram = lag.new_lag()
    for value in lags:
        lag.record(histogram, value)
    exact = int(np.sort(lags)[int(np.ceil(share * len(lags))) - 1])
    found = lag.percentile(histogram, share)
    assert exact <= found <= max(lags)
    assert found <= exact * 1.25 + 1
    assert histogram[lag.MAXIMUM] == max(lags)


def test_nothing_recorded():
    assert lag.percentile(lag.new_lag(), 0.99) == 0


def test_short_lags_are_told_apart():
    for value in range(1, 200):
        histogram = lag.new_lag()
        lag.record(histogram, value)
        lag.record(histogram, 10**9)
        assert value <= lag.percentile(histogram, 0.5) <= 1.25 * value


def test_the_longest_lags_share_a_bucket():
    histogram = lag.new_lag()
    for value in (2**40 - 1, 2**40, 2**50):
        lag.record(histogram, value)
    assert histogram[lag.BUCKETS - 1] == 3 and histogram[: lag.BUCKETS - 1].sum() == 0
    assert histogram[lag.MAXIMUM] == 2**50
