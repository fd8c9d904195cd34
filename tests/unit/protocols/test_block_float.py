"""Float gradients as integers with one exponent for each block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols import block_float

LARGEST = 2**31 - 1


@pytest.mark.parametrize(
    ("exponent", "workers", "scale"),
    [(0, 1, LARGEST), (0, 4, LARGEST / 4), (1, 1, LARGEST / 2), (-3, 2, LARGEST * 4)],
)
def test_scale_is_as_many_steps_as_all_workers_together_may_have(exponent, workers, scale):
    assert block_float.scale_of(exponent, workers) == scale
    assert block_float.error_bound(exponent, workers) == workers / (2 * scale)


def test_steps_are_written_in_network_order_from_the_base_on():
    row = np.full(6, 0xDEADBEEF, np.uint32)
    values = np.array([1.0, -0.5, 0.26], np.float32)
    block_float.write_steps(row, 2, values, 10.0)
    assert row[:2].tolist() == [0xDEADBEEF] * 2 and row[5] == 0xDEADBEEF
    assert row[2:5].byteswap().view(np.int32).tolist() == [10, -5, 3]


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=4), st.sampled_from([1, 2, 8, 32])
)
def test_a_packet_has_the_same_steps_as_a_whole_array(numbers, workers):
    values = np.array([numbers], np.float32)
    exponents = block_float.exponents(values)
    row = np.zeros(4, np.uint32)
    scale = block_float.scale_of(int(exponents[0]), workers)
    block_float.write_steps(row, 0, values[0], scale)
    steps = row.byteswap().view(np.int32)
    np.testing.assert_array_equal(steps, block_float.quantise(values, exponents, workers)[0])
    assert np.abs(steps.astype(np.int64)).max() * workers <= LARGEST + workers
    bound = block_float.error_bound(int(exponents[0]), workers) / workers
    assert np.abs(steps / scale - values[0]).max() <= bound * (1 + 1e-9)


def test_exponents_are_the_smallest_that_exceed_the_values():
    values = np.array([[0.0, 0.0], [1.0, 0.3], [0.99, -0.2], [-4.0, 3.0], [1e-45, 0]], np.float32)
    assert block_float.exponents(values).tolist() == [-128, 1, 0, 3, -128]
    for bad in (np.inf, np.nan, np.float32(2.0**127)):
        with pytest.raises(ValueError):
            block_float.exponents(np.array([[bad]], np.float32))
