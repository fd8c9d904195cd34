"""Block floating point of 16 and 8 bits against sums in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.number_formats import MOST_PACKED
from testbed.protocols import block_float
from testbed.protocols.block_float import exponents
from testbed.protocols.sizes import rounded_bits

MOST = MOST_PACKED
STEPS = st.integers(-127, 127)


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 8, 9, 100, 1024])
def test_every_sum_is_within_the_bound_and_has_as_many_bits(workers, bits):
    random = np.random.default_rng(workers)
    for size in (1e-30, 1e-4, 1.0, 3e30):
        parts = (random.standard_cauchy((workers, 256)) * size).astype(np.float32)
        parts[:, :8] = np.abs(parts).max()  # all at the edge, in the same direction
        parts[:, 8:16] = -np.abs(parts).max()
        exponent = int(exponents(parts).max())
        scale = block_float.short_scale_of(exponent, bits)
        steps = np.rint(parts.astype(np.float64) * scale).astype(np.int32)
        assert np.abs(steps).max() <= block_float.largest_short(bits)
        result = block_float.rounded(steps.sum(axis=0, dtype=np.int32), workers)
        assert result.dtype == np.int32 and np.abs(result).max() < 2 ** (bits - 1)
        found = result.astype(np.float64) * 2 ** rounded_bits(workers) / scale
        exact = parts.astype(np.float64).sum(axis=0)
        bound = block_float.short_error_bound(exponent, workers, bits)
        assert (np.abs(found - exact) <= bound * (1 + 1e-9)).all()


def test_a_half_goes_to_the_even_number():
    sums = np.arange(-8, 9, dtype=np.int32)
    assert block_float.rounded(sums, 2).tolist() == [
        *(-4, -4, -3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4),
    ]
    assert block_float.rounded(sums, 4).sum() == block_float.rounded(sums, 8).sum() == 0


@pytest.mark.parametrize("workers, bits", [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10)])
def test_a_sum_is_rounded_by_as_many_bits_as_its_workers_need(workers, bits):
    assert rounded_bits(workers) == bits
    edges = np.array([-32767 * workers, -1, 0, 1, 32767 * workers], np.int32)
    expected = np.rint(edges / 2**bits)
    np.testing.assert_array_equal(block_float.rounded(edges, workers), expected)
    for edge, rounded in zip(edges.tolist(), expected.tolist(), strict=True):
        assert block_float.round_off(np.int64(edge), bits) == rounded


@given(st.lists(st.tuples(STEPS, STEPS), min_size=1, max_size=MOST))
def test_words_add_both_sums_and_give_them_back(parts):
    first, second = np.array(parts, np.int32).T
    total = block_float.packed(first, second).sum(dtype=np.uint32)
    found = block_float.taken_apart(np.array([total], np.uint32))
    assert [int(each[0]) for each in found] == [first.sum(), second.sum()]


def test_as_many_workers_fit_a_word_as_are_allowed_and_no_more():
    """At the edge in all directions."""
    for workers, right in ((MOST, True), (MOST + 1, False)):
        ends = np.array([[a, b] for a in (-127, 127) for b in (-127, 127)], np.int32).T
        total = block_float.packed(*ends) * np.uint32(workers)
        found = np.stack(block_float.taken_apart(total))
        assert np.array_equal(found, ends * workers) == right
