"""Recorded gradients in a format of floats: the values that a worker sends, and the sums that it
must receive.

A sum that no order changes is compared bit by bit. Another one must be as near to the exact sum
as the format's additions are (by_number.bound), but for the rounding of the sum that is compared
with it, and for that of numbers next to 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.number_formats import BLOCK, BLOCKS, FORMATS, HALVES
from testbed.protocols import wire
from testbed.protocols.formats import bfloat16, by_number, float32, float32_exact, mx8
from testbed.protocols.host_spec import JobSpec

SMALLEST = 2.0**-133  # bfloat16 next to 0


class RecordedFloats(NamedTuple):
    """I recorded iterations, F fragments of V values. Empty where there are none."""

    own: np.ndarray  # uint32[I, F * V], the bits of this worker's float32
    sums: np.ndarray  # uint32[I, F * V], of the exact sums over the workers, rounded to float32
    sizes: np.ndarray  # float32[I, F * V], sums of the absolute values


def no_floats() -> RecordedFloats:
    words = np.zeros((0, 0), np.uint32)
    return RecordedFloats(words, words, np.zeros((0, 0), np.float32))


def numbers_sent(job: JobSpec, gradients: np.ndarray) -> np.ndarray:
    """The words, uint32[F * V], that a worker sends of its float32[F * V] in the job's format."""
    words = np.ascontiguousarray(gradients).view(np.uint32)
    numbers = FORMATS[job.sum].numbers
    if numbers == HALVES:
        return _halves(words)
    if numbers == BLOCKS:
        rows = words.reshape(-1, job.values).copy()
        whole = job.values // BLOCK * BLOCK
        rows[:, :whole] = mx8.quantised(rows[:, :whole].reshape(-1)).reshape(-1, whole)
        return rows.reshape(-1)
    return words


@njit(cache=True)
def _halves(words):
    made = np.empty_like(words)
    for i in range(words.size):
        made[i] = bfloat16.nearest(words[i])
    return made


def of_workers(job: JobSpec, number: int, gradients: np.ndarray) -> RecordedFloats:
    """The words that worker `number` sends, and the sums, of float32[W, I, F * V]."""
    shape = gradients.shape[1:]
    made = RecordedFloats(
        np.zeros(shape, np.uint32), np.zeros(shape, np.uint32), np.zeros(shape, np.float32)
    )
    for i in range(shape[0]):
        sent = np.stack([numbers_sent(job, each) for each in gradients[:, i]])
        made.own[i] = sent[number]
        _exact_sums(sent, made.sums[i])
        if FORMATS[job.sum].numbers == BLOCKS:
            made.sums[i] = numbers_sent(job, made.sums[i].view(np.float32))
        made.sizes[i] = np.abs(sent.view(np.float32)).sum(axis=0, dtype=np.float64)
    return made


@njit(cache=True)
def _exact_sums(sent, sums):
    """The sums of uint32[W, N], rounded once, into uint32[N]."""
    total = np.zeros(float32_exact.WIDTH, np.int64)
    for i in range(sums.size):
        total[:] = 0
        for worker in range(sent.shape[0]):
            float32_exact.add(total, sent[worker, i])
        sums[i] = float32_exact.rounded(total)


@njit(cache=True)
def write(f, row, base, iteration, start, count):
    """Write `count` of an iteration's floats, from place `start` on, into a packet from word `base`
    on."""
    i = iteration % f.own.shape[0]
    for j in range(count):
        row[base + j] = wire.swap(f.own[i, start + j])


@njit(cache=True)
def first_wrong(f, row, base, iteration, start, count, bound):
    """Position of the first of `count` floats that is further from the exact sum than `bound` times
    the sum of the absolute values (by_number.EXACT: not equal to it), or -1."""
    i = iteration % f.sums.shape[0]
    for j in range(count):
        found, right = wire.swap(row[base + j]), f.sums[i, start + j]
        if found == right:
            continue
        if bound == by_number.EXACT:
            return j
        away = np.float64(float32.number_of(found)) - np.float64(float32.number_of(right))
        size = np.float64(f.sizes[i, start + j])
        if not abs(away) <= (bound + 2 * float32.ROUNDING) * size + SMALLEST:
            return j
    return -1


@njit(cache=True)
def expected(f, iteration, place):
    """The exact sum at a place of an iteration, rounded, as the int32 of its bits."""
    return np.int64(np.int32(f.sums[iteration % f.sums.shape[0], place]))
