"""Parts of a host that generates flows: draws, and the histogram of latencies."""

from __future__ import annotations

import math

import numpy as np
from p4fabric.simulate.flow_machine import percentile
from p4fabric.simulate.generator import (
    BUCKETS,
    FINE,
    LONGEST_NS,
    RECEPTION,
    bucket,
    exponential,
    times,
)
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.records import new_record


def test_exponential_is_a_logarithm():
    for drawn in (0, 1, 2, 12345, 2**30 - 1, 2**31, 2**32 - 2, 2**32 - 1):
        expected = -math.log((drawn + 1) / 2**32)
        assert abs(exponential(drawn) / 2**20 - expected) < 4e-6


def test_exponential_draws_have_mean_and_variance_one():
    drawn = np.array([exponential(mix2(7, number)) for number in range(40_000)]) / 2**20
    assert abs(drawn.mean() - 1) < 4 / math.sqrt(drawn.size)
    assert abs(drawn.var() - 1) < 4 * math.sqrt(8 / drawn.size)


def test_products_are_exact_to_a_unit():
    for mean in (1, 999, 80_000, 10**9, 7 * 10**12, 10**15):
        for share in (0, 1, 2**19, 2**20, 3 * 2**20 + 77, 22 * 2**20):
            assert abs(times(mean, share) - mean * share // 2**20) <= 1


def test_buckets_are_in_order_and_as_fine_as_they_say():
    last = -1
    for ns in [*range(3000), *(2**power + more for power in range(12, 40) for more in (-1, 0, 1))]:
        place = bucket(ns)
        assert last <= place < BUCKETS
        last = place
    assert bucket(2 * FINE - 1) == 2 * FINE - 1
    assert bucket(LONGEST_NS + 5) == bucket(LONGEST_NS - 1) < BUCKETS


def test_percentiles_are_within_a_step():
    drawn = np.sort(np.random.default_rng(3).integers(0, 3_000_000, 5000))
    histogram = np.zeros(BUCKETS, np.int64)
    for ns in drawn:
        histogram[bucket(ns)] += 1
    row = new_record(RECEPTION, least_ns=int(drawn[0]), most_ns=int(drawn[-1]))
    for per_cent in (1, 50, 99, 100):
        exact = drawn[-(-drawn.size * per_cent // 100) - 1]
        assert abs(percentile(histogram, per_cent, row) - exact) <= exact / FINE + 1
