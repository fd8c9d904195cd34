"""Words that ranks exchange before the values: sums of preludes are as the docs describe them."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.collective import prelude
from testbed.collective_kinds import CARRIED

LIMITS = np.finfo(np.float32)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8, 31, 32, 100, 1000, 1023, 1024])
def test_no_sum_of_preludes_leaves_int32_or_runs_into_its_neighbour(ranks):
    """Every rank counts itself at the highest level and at RARE, in the same block."""
    levels, rare = np.full(2, prelude.RARE - 1), np.ones(2, bool)
    size = prelude.prelude_words(ranks, 2)
    total = np.zeros(size, np.int64)
    for rank in range(ranks):
        words = np.zeros(size, np.int32)
        given = prelude.given_words(2**31 - 1, 2**40, "barrier", np.dtype("V1"), 1023)
        prelude.write_prelude(words, rank, ranks, given, levels, rare)
        assert (words >= 0).all()
        total += words
    assert total.max() < 2**31
    bits, per_word = prelude.counter_bits(ranks), prelude.counters_per_word(ranks)
    blocks = total[prelude.WORDS_PER_RANK * ranks :].reshape(2, -1)
    counts = [
        int(blocks[0][level // per_word]) >> bits * (level % per_word) & (1 << bits) - 1
        for level in range(prelude.LEVELS)
    ]
    assert counts[prelude.RARE] == counts[prelude.RARE - 1] == ranks
    assert sum(counts) == 2 * ranks


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8, 31, 100, 1023])
def test_every_rank_reads_the_largest_level_of_each_block(ranks):
    """Block i has level i on one rank and lower ones on the others; a third of them are rare."""
    numbers = np.arange(prelude.RARE)
    total = np.zeros(prelude.prelude_words(ranks, numbers.size), np.int32)
    given = prelude.given_words(3, 4, "all_reduce", np.dtype(np.float32))
    for rank in range(ranks):
        words = np.zeros_like(total)
        levels = np.where(numbers % ranks == rank, numbers, numbers // 2)
        rare = (numbers % 3 == 0) & (numbers % ranks == rank)
        prelude.write_prelude(words, rank, ranks, given, levels, rare)
        assert (words >= 0).all()
        total += words
    found, rare = np.zeros(numbers.size, np.int64), np.zeros(numbers.size, np.int64)
    assert prelude.read_levels(total, ranks, numbers.size, found, rare) == 47
    np.testing.assert_array_equal(found, numbers)
    np.testing.assert_array_equal(rare, numbers % 3 == 0)
    assert prelude.ranks_agree(total, ranks)
    for place in range(prelude.WORDS_PER_RANK * ranks if ranks > 1 else 0):
        total[place] += 1
        assert not prelude.ranks_agree(total, ranks)
        total[place] -= 1


@pytest.mark.parametrize(
    "value", [1.0, 0.9999999, 2.0, 1e-30, LIMITS.max, LIMITS.tiny, LIMITS.smallest_subnormal]
)
@pytest.mark.parametrize("ranks", [1, 4, 1000])
def test_a_level_is_just_above_its_values(value, ranks):
    (level,), (rare,) = prelude.levels_of(np.array([0, -value], np.float32), 10)
    assert 0 < level < prelude.RARE and not rare
    largest = np.float64(np.float32(value))
    exponent = prelude.exponent_of(int(level))
    assert largest < 2.0**exponent <= 4 * largest
    steps = np.rint(largest * prelude.steps(ranks, exponent, rare=False))
    assert ranks * steps < 2**31


def test_blocks_have_levels_of_their_own_and_rare_ones_those_of_finite_values():
    values = np.array([0, 0, 1, -3, np.nan, 0.25, np.inf, np.nan, -np.inf], np.float32)
    levels, rare = prelude.levels_of(values, 2)
    assert rare.tolist() == [False, False, True, True, True]
    of = [prelude.levels_of(np.array([each], np.float32), 1)[0][0] for each in (3, 0.25)]
    assert levels.tolist() == [0, of[0], of[1], 0, 0]


def test_what_a_rank_gives_can_be_said():
    for dtype in (np.int32, np.float32, np.float64, np.uint8, np.complex64, bool):
        words = prelude.given_words(5, 4097, "all_gather", np.dtype(dtype))
        assert prelude.described(words) == f"all_gather of 4097 {np.dtype(dtype).name} values"
    kinds = np.dtype(np.int32), np.dtype(np.float32)
    words = prelude.given_words(5, 10, "broadcast", kinds[0], 1023)
    assert prelude.described(words) == "broadcast from rank 1023 of 10 int32 values"
    assert prelude.described(prelude.given_words(1, 0, "barrier", kinds[0])) == "barrier"
    said = {
        prelude.given_words(values, whole, collective, dtype, root)
        for values in (5, 6)
        for whole in (10, 11)
        for collective in CARRIED
        for dtype in kinds
        for root in (0, 1)
    }
    assert len(said) == 2 * 2 * len(CARRIED) * 2 * 2, "all of it counts"


@pytest.mark.parametrize("rare, bound", [(False, 2.0**-24), (True, 2.0**-17)])
def test_a_sum_is_off_by_half_a_step_of_each_rank(rare, bound):
    """Of four ranks: three bits count them, and values below 2^3 have 2^25 steps, or 2^18."""
    assert prelude.error_bound(4, 3.0, rare) == prelude.error_bound(4, 2.0, rare) == bound
    assert prelude.error_bound(4, 8.0, rare) == 4 * bound
    assert prelude.error_bound(4, 0.0, rare) == 0
