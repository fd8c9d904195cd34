"""Block floating point of 16 and 8 bits against sums in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import block_float
from testbed.protocols.block_float import exponents
from testbed.protocols.sizes import rounded_bits


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 8, 9, 100, 1024])
def test_every_sum_is_within_the_bound_and_has_as_many_bits(workers, bits):
    random = np.random.default_rng(workers)
    for size in (1e-30, 1e-4, 1.0, 3e30):
        given = (random.standard_cauchy((workers, 256)) * size).astype(np.float32)
        given[:, :8] = np.abs(given).max()  # all at the edge, in the same direction
        given[:, 8:16] = -np.abs(given).max()
        exponent = int(exponents(given).max())
        scale = block_float.short_scale_of(exponent, bits)
        steps = np.rint(given.astype(np.float64) * scale).astype(np.int32)
        assert np.abs(steps).max() <= block_float.largest_short(bits)
        result = block_float.rounded(steps.sum(axis=0, dtype=np.int32), workers)
        assert result.dtype == np.int32 and np.abs(result).max() < 2 ** (bits - 1)
        found = result.astype(np.float64) * 2 ** rounded_bits(workers) / scale
        exact = given.astype(np.float64).sum(axis=0)
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
