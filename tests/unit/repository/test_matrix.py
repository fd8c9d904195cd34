"""Parameters of tests: parts of a matrix in which all pairs are."""

from __future__ import annotations

import itertools

from p4fabric_testing.matrix import pairwise


def test_each_two_values_are_together():
    factors = ["abcd", range(3), (True, False), "xy"]
    made = pairwise(*factors)
    assert made == pairwise(*factors) and len(made) < 4 * 3 * 2 * 2 / 3
    for (m, first), (n, second) in itertools.combinations(enumerate(factors), 2):
        assert {(each[m], each[n]) for each in made} == {*itertools.product(first, second)}
