"""Float32 of programs with a fixed scale, and as floating-point numbers where that does not fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from testbed.protocols import given
from tests.support.fabric import lossy, perfect, total
from tests.support.programs import draw, programs, sums, text

FAULTS = dict(loss=0.02, duplicate=0.02, reorder=0.05)
SCALE = 10**6
PACKET = 16  # values


def fixed(schedule=perfect, options=""):
    return programs(text("atp", options=options, keys=", numbers: fixed"), schedule)


def assert_right(found: np.ndarray, arrays: list[np.ndarray], scale: int = SCALE) -> None:
    """Every fragment as docs/training.md says: steps where all fit, else the exact sum."""
    for start in range(0, arrays[0].size, PACKET):
        parts = np.stack([array[start : start + PACKET] for array in arrays]).astype(np.float64)
        exact, got = parts.sum(axis=0), found[start : start + PACKET]
        if (np.abs(np.rint(parts * scale)) <= given.most_steps(4)).all():
            expected = (np.rint(parts * scale).sum(axis=0) / scale).astype(np.float32)
            np.testing.assert_array_equal(got, expected)
            bound = 4 / (2 * scale) + np.abs(exact) * 2.0**-24
            assert (np.abs(got - exact) <= bound).all()
        else:
            exact = [math.fsum(each) for each in parts.T]
            np.testing.assert_array_equal(got, np.float32(exact))


def test_whole_numbers_are_still_exact_modulo_two_to_the_32():
    """Sums that leave int32 are those of int32, and no reason for floating-point numbers."""
    fabric, jobs = fixed(lossy(4, **FAULTS))
    arrays = draw(5, 3000, np.int32)
    floats = [np.full(100, 1e9, np.float32) for _ in jobs]
    handles = [job.allreduce_async(array) for job, array in zip(jobs, arrays, strict=True)]
    for found in sums(jobs, floats):
        np.testing.assert_array_equal(found, np.float32(4e9))
    for handle in handles:
        np.testing.assert_array_equal(handle.wait(), np.sum(arrays, axis=0, dtype=np.int32))
    assert total(fabric.servers(), "float_results") == 7


def test_the_scale_is_that_of_the_experiment():
    fabric, jobs = fixed(options=", fixed_point_scale: 1000")
    arrays = [np.array([0.0014, 200_000.0] * 16, np.float32) for _ in range(4)]
    found = sums(jobs, arrays)[0]
    assert found[:2].tolist() == [pytest.approx(0.004), 800_000.0]
    assert total(fabric.workers(), "float_results") == 0
    assert_right(found, arrays, 1000)


def test_the_most_that_fits_leaves_int32_for_no_number_of_workers():
    for workers in (1, 2, 10, 11, 100, 1024):
        assert given.most_steps(workers) * workers < 2**31
    assert given.most_steps(10) == 213_000_000, "as ATP has published it"
