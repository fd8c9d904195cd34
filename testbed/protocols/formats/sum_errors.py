"""Errors of the sums that a worker has kept (kept_sums.py): their distance from the exact sums of
the values that workers have sent, over the sums of the absolute values.

Those of generated values are made here, those of recorded ones in testbed/workload/gradients.py. Of
the formats whose sums are rounded to fewer bits (int8) a sum is what it stands for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.number_formats import FORMATS, INTEGERS
from testbed.protocols import values
from testbed.protocols.formats import by_number
from testbed.protocols.host_spec import JobSpec
from testbed.protocols.sizes import rounded_bits


class ExactSums(NamedTuple):
    """Of an iteration, in the order of the model's values."""

    sums: np.ndarray  # float64[N], exact
    sizes: np.ndarray  # float64[N], sums of the absolute values
    units: np.ndarray | float = 1.0  # float64[N], what a step of a received integer stands for


@njit(cache=True)
def _fill(numbers, key, shift, factor_sum, factor_size, sums, sizes):
    for i in range(sums.size):
        if numbers == INTEGERS:
            h = np.float64(values.position_hash(key, i, shift))
            sums[i], sizes[i] = h * factor_sum, abs(h) * factor_size
        else:
            sums[i] = by_number.exact_generated(numbers, key, i, factor_sum)
            sizes[i] = abs(by_number.exact_generated(numbers, key, i, factor_size))


def exact_sums(job: JobSpec, iteration: int) -> ExactSums:
    """The exact sums over all workers of a job with generated values."""
    numbers = FORMATS[job.sum].numbers
    shift = values.hash_shift(job.workers, job.value_bits)
    factors = by_number.factor_sums(numbers, job.seed, job.number, iteration, job.workers)
    count = sum(tensor.values for tensor in job.tensors)
    found = ExactSums(np.zeros(count), np.zeros(count))
    whole, place = iteration * job.fragments, 0
    for tensor in job.tensors:
        for start in range(0, tensor.values, job.values):
            part = slice(place, place + min(job.values, tensor.values - start))
            key = values.fragment_key(job.seed, job.number, whole)
            _fill(numbers, key, shift, *factors, found.sums[part], found.sizes[part])
            whole, place = whole + 1, part.stop
    return found


def numbers_of(job: JobSpec, words: np.ndarray) -> np.ndarray:
    """The numbers, float64, that received words stand for, uint32 of any shape."""
    if FORMATS[job.sum].is_float:
        return words.view(np.float32).astype(np.float64)
    recorded = job.gradients is not None and job.value_bits < 32
    bits = rounded_bits(job.workers) if recorded or job.rounds_bytes else 0
    return words.view(np.int32).astype(np.float64) * 2**bits


def errors(job: JobSpec, words: np.ndarray, exact: ExactSums) -> tuple[float, float]:
    """(largest, mean) error of a worker's sums of an iteration, uint32[N], over `exact.sizes`."""
    away = np.abs(numbers_of(job, words) * exact.units - exact.sums)
    relative = np.divide(away, exact.sizes, out=np.zeros_like(away), where=exact.sizes > 0)
    return float(relative.max(initial=0.0)), float(relative.mean()) if relative.size else 0.0
