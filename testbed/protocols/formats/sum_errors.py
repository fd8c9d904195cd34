"""Errors of the sums that a worker has kept (kept_sums.py): their distance from the exact sums of
the values that workers have sent, over the sums of the absolute values; and the bits that the order
of additions has changed.

Those of generated values are made here, those of recorded ones in testbed/workload/gradients.py. Of
the formats whose sums are rounded to fewer bits (int8) a sum is what it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.number_formats import FORMATS, FPISA, HALVES, INTEGERS
from testbed.protocols import values
from testbed.protocols.formats import bfloat16, by_number, fpisa
from testbed.protocols.formats.kept_sums import by_position, of_all_ranks
from testbed.protocols.host_spec import HostSpec, JobSpec
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


def exact_sums(spec: HostSpec, iteration: int) -> ExactSums:
    """The exact sums over all workers of a job with generated values."""
    job = spec.job
    numbers = FORMATS[job.sum].numbers
    shift = values.hash_shift(job.parts or job.workers, job.value_bits)
    place, share = (job.seed, job.number, iteration), job.parts // job.workers
    factors = by_number.factor_sums(numbers, *place, job.workers, share)
    count = sum(tensor.values for tensor in job.tensors)
    found = ExactSums(np.zeros(count), np.zeros(count))
    whole, at = iteration * job.fragments, 0
    for tensor in job.tensors:
        for start in range(0, tensor.values, job.values):
            part = slice(at, at + min(job.values, tensor.values - start))
            key = values.fragment_key(job.seed, job.number, whole)
            _fill(numbers, key, shift, *factors, found.sums[part], found.sizes[part])
            whole, at = whole + 1, part.stop
    of_all = np.repeat(of_all_ranks(job), [tensor.values for tensor in job.tensors])
    return ExactSums(found.sums[of_all], found.sizes[of_all])


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


def words_sent(spec: HostSpec, iteration: int) -> Iterator[np.ndarray]:
    """The floats, uint32[N] of their bits, that each worker of a job sends in an iteration."""
    job = spec.job
    numbers = FORMATS[job.sum].numbers
    for worker in range(job.workers):
        place = job.seed, job.number, iteration, worker
        factor = by_number.shared_factor(numbers, *place, job.parts // job.workers)
        rows = np.zeros((job.fragments, job.values), np.uint32)
        for f in range(job.fragments):
            key = values.fragment_key(job.seed, job.number, iteration * job.fragments + f)
            by_number.write_generated(numbers, rows[f], 0, job.values, key, factor)
        yield by_position(spec, rows.byteswap().reshape(1, -1))[0]


def in_rank_order(job: JobSpec, sent: Iterable[np.ndarray]) -> np.ndarray | None:
    """The sums, uint32[N], of what the W ranks of a job send, uint32[N] each, added in the order of
    ranks; None in a format whose sums no order changes: then `sent` is not asked for any."""
    form = FORMATS[job.sum]
    if not form.ordered:
        return None
    words = np.stack([*sent])
    sums = np.zeros(words.shape[1], np.uint32)
    _add_in_order(form.adder, form.numbers, words, sums)
    return sums


@njit(cache=True)
def _add_in_order(adder, numbers, sent, sums):
    total = np.zeros(fpisa.WIDTH, np.int64)
    for i in range(sums.size):
        sum_ = sent[0, i]
        total[:] = 0
        for worker in range(sent.shape[0]):
            if adder == FPISA:
                fpisa.add(total, sent[worker, i])
            elif worker > 0:
                sum_, _ = by_number.add(adder, sum_, sent[worker, i])
        if adder == FPISA:
            sum_ = fpisa.read(total[0], total[1])
        sums[i] = bfloat16.rounded(sum_) if numbers == HALVES else sum_


def order_bits(words: np.ndarray, in_order: np.ndarray | None) -> float:
    """Bits of a sum, in the mean, in which received sums, uint32[N], are not those in the order of
    ranks; 0 where no order changes a sum, since every bit has been checked."""
    if in_order is None or not words.size:
        return 0.0
    return int(np.unpackbits((words ^ in_order).view(np.uint8)).sum()) / words.size
