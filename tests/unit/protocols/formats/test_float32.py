"""Generated floats, and the addition of float32 in host code against numpy's."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.number_formats import BFLOAT16, FLOAT32, FLOAT32_EXACT, HALVES, SINGLES
from testbed.protocols import values
from testbed.protocols.formats import bfloat16, by_number, float32, float32_exact
from tests.support.floats import pairs

pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid):RuntimeWarning")


@pytest.mark.parametrize("adder, reference", [(FLOAT32, float32), (BFLOAT16, bfloat16)])
@given(pairs(8))
def test_the_addition_is_that_of_numpy(adder, reference, both):
    a, b = both
    found = [int(by_number.add(adder, x, y)[0]) for x, y in zip(a, b, strict=True)]
    assert found == reference.added(a, b).tolist()


def parts_of(
    seed: int, workers: int, count: int = 8, numbers: int = SINGLES
) -> tuple[np.ndarray, tuple]:
    """float32[workers, count] of a fragment, and the arguments of its check."""
    key = values.fragment_key(seed, 1, 2)
    rows = np.zeros((workers, count), np.uint32)
    for worker in range(workers):
        factor = by_number.factor(numbers, seed, 1, 3, worker)
        by_number.write_generated(numbers, rows[worker], 0, count, key, factor)
    sums = by_number.factor_sums(numbers, seed, 1, 3, workers, 0)
    return rows.byteswap().view(np.float32), (
        key,
        *sums,
        by_number.bound(FLOAT32, numbers, workers),
    )


def wrong(sums: np.ndarray, check: tuple) -> int:
    row = sums.astype(np.float32).view(np.uint32).byteswap()
    return by_number.wrong_generated(SINGLES, row, 0, row.size, *check)


@given(seed=st.integers(0, 2**31), workers=st.integers(1, 40), order=st.randoms())
def test_a_sum_in_any_order_is_right_and_one_of_other_workers_is_wrong(seed, workers, order):
    parts, check = parts_of(seed, workers)
    exact = [math.fsum(column) for column in parts.T.astype(float).tolist()]
    places = list(range(workers))
    order.shuffle(places)
    total = np.zeros(parts.shape[1], np.float32)
    for worker in places:
        total = total + parts[worker]
    assert wrong(total, check) == -1
    assert wrong(np.array(exact), check) == -1
    found = by_number.expected_generated(SINGLES, check[0], 3, check[1], 8)
    assert np.int32(found) == np.float32(exact[3]).view(np.int32)
    for other in (-parts[places[0]], parts[places[0]]):
        assert wrong(np.array(exact) + other, check) == 0
    assert wrong(np.full(parts.shape[1], np.nan), check) == 0


def test_from_three_workers_on_the_order_of_additions_changes_bits():
    parts, _ = parts_of(0, 3, 64)
    sums = {(parts[a] + parts[b] + parts[c]).tobytes() for a, b, c in permutations(range(3))}
    assert len(sums) == 3
    assert np.array_equal(parts[0] + parts[1], parts[1] + parts[0])


def test_generated_bfloat16_are_such():
    parts, _ = parts_of(1, 6, 64, HALVES)
    assert not (parts.view(np.uint32) & 0xFFFF).any() and (parts != 0).all()
    assert len(np.unique(np.abs(parts))) > 100


@given(st.lists(pairs(2), min_size=1, max_size=4), st.randoms())
def test_exact_sums_are_rounded_once_in_any_order(some, order):
    words = [int(word) for a, b in some for word in (*a, *b)]
    # Each number and its opposite, but for the first one: all that is left is small.
    words += [word ^ 0x80000000 for word in words[1:] if order.random() < 0.5]
    found = set()
    for _ in range(3):
        order.shuffle(words)
        total = np.zeros(float32_exact.WIDTH, np.int64)
        for word in words:
            float32_exact.add(total, np.uint32(word))
        found.add(int(float32_exact.rounded(total)))
    assert found == {float32_exact.nearest(words)}


def test_the_generated_exact_sum_is_equal_in_every_bit():
    parts, check = parts_of(2, 5)
    exact = np.array([math.fsum(column) for column in parts.T.astype(float).tolist()])
    assert wrong(exact, (*check[:3], by_number.bound(FLOAT32_EXACT, SINGLES, 5))) == -1
    one_off = np.nextafter(exact.astype(np.float32), np.float32(np.inf))
    assert wrong(one_off, (*check[:3], by_number.bound(FLOAT32_EXACT, SINGLES, 5))) == 0
