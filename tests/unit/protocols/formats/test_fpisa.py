"""FPISA in host code against numpy, and what it does to sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.number_formats import FAR_SINGLES, FPISA
from testbed.protocols import values
from testbed.protocols.formats import by_number, fpisa
from tests.support.floats import pairs

pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid):RuntimeWarning")


def word_of(number: float) -> np.ndarray:
    return np.array([number], np.float32).view(np.uint32)


def number_of(words: np.ndarray) -> float:
    return float(words.astype(np.uint32).view(np.float32)[0])


def added(rows: list[np.ndarray]) -> tuple[list[int], int]:
    """Sums of the host code, and how many additions are wrong."""
    totals, wrong = np.zeros((rows[0].size, fpisa.WIDTH), np.int64), 0
    for row in rows:
        wrong += sum(int(fpisa.add(total, word)) for total, word in zip(totals, row, strict=True))
    return [int(fpisa.read(*total)) for total in totals], wrong


@given(st.lists(pairs(4), min_size=1, max_size=5))
def test_sums_and_errors_are_those_of_numpy_in_the_same_order(some):
    rows = [row for both in some for row in both]
    expected, wrong = fpisa.sums(rows)
    assert added(rows) == (expected.tolist(), wrong)
    a, b = rows[:2]
    two, wrong = fpisa.sums([a, b])
    found = [fpisa.added(x, y) for x, y in zip(a, b, strict=True)]
    assert [int(word) for word, _ in found] == two.tolist()
    assert sum(int(each) for _, each in found) == wrong


@given(st.integers(1, 254), st.integers(1, 254), st.integers(1, 2**23 - 1))
def test_a_sum_is_overwritten_only_by_exponents_more_than_seven_above_its_own(first, second, low):
    a, b = (np.array([each << 23 | low], np.uint32) for each in (first, second))
    sums, wrong = fpisa.sums([a, b])
    assert wrong == (second - first > fpisa.SPARE)
    if wrong:
        assert sums == b
    elif max(first, second) < 254:
        unit = Fraction(2) ** (first - 150)  # of the first one's register
        error = abs(Fraction(number_of(sums)) - Fraction(number_of(a)) - Fraction(number_of(b)))
        assert error <= unit + Fraction(number_of(sums)) / 2**23


def test_a_sum_stays_at_the_largest_and_is_counted():
    rows = [word_of(2.0 - 2.0**-23)] * 200  # 128 of them fill the register
    (word,), wrong = added(rows)
    assert wrong == 200 - 128 and number_of(np.array([word])) == pytest.approx(256, rel=1e-6)
    assert fpisa.sums(rows)[0].tolist() == [word]


def test_order_changes_bits_and_sums_of_few_bits_are_exact():
    one, near, far = word_of(1.0), word_of(2.0**-5), word_of(2.0**-24 * 3)
    assert number_of(fpisa.sums([one, far])[0]) == 1 + 2.0**-23  # rounded down
    orders = [near, one, far, word_of(-1.0)], [one, near, far, word_of(-1.0)]
    sums = [fpisa.sums(list(order)) for order in orders]
    assert [wrong for _, wrong in sums] == [0, 0]
    assert number_of(sums[0][0]) == 2.0**-5 + 2.0**-24 * 3
    assert number_of(sums[1][0]) == 2.0**-5 + 2.0**-23
    # The first one's exponent is far below: overwritten.
    assert fpisa.sums([far, one])[1] == 1


@given(seed=st.integers(0, 2**31), workers=st.integers(1, 12), order=st.randoms())
def test_a_sum_that_is_not_said_to_be_wrong_is_within_its_bound(seed, workers, order):
    rows = np.zeros((workers, 8), np.uint32)
    key = values.fragment_key(seed, 1, 2)
    for worker in range(workers):
        factor = by_number.factor(FAR_SINGLES, seed, 1, 3, worker)
        by_number.write_generated(FAR_SINGLES, rows[worker], 0, 8, key, factor)
    rows = list(rows.byteswap())
    order.shuffle(rows)
    sums, wrong = fpisa.sums(rows)
    bound = by_number.bound(FPISA, FAR_SINGLES, workers) if wrong == 0 else by_number.WRONG_BOUND
    total = by_number.factor_sums(FAR_SINGLES, seed, 1, 3, workers, 0)
    check = FAR_SINGLES, sums.byteswap(), 0, 8, key, *total
    assert by_number.wrong_generated(*check, bound) == -1
    if wrong == 0:
        missing = fpisa.sums(rows[1:])[0] if workers > 1 else sums * 0
        other = FAR_SINGLES, missing.byteswap(), 0, 8, key, *total
        assert by_number.wrong_generated(*other, bound) == 0
