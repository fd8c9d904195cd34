"""The float fallback: fragments whose fixed-point values or sums do not fit travel as float32.

Recorded gradients are floats. In fixed point a value beyond LARGEST steps is *over*: ten workers'
sum of such values could leave int32. Its worker sends the whole fragment as float32, flagged, past
all aggregators; the server then wants it as floats from everyone and adds those. The same happens
to a fragment whose sum of whole numbers overflowed on the way.

A server adds in two doubles, a sum and what its roundings have lost (the error-free addition of
Knuth, The Art of Computer Programming 2, section 4.2.2). Together they are exact for the numbers of
up to 1,024 workers that are all 0 or within a factor of 2^60 of each other. So the order of arrival
does not matter: the result is the exact sum, rounded to double and then to float32.

The workers' check is coarser: a result is right if it lies within 2^-23 x sum of absolute values of
the sum that the experiment has stored in double precision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols import send_scoreboard, wire

LARGEST = 213_000_000  # steps; x 10 workers just fits int32
BOUND = 2.0**-23


class WorkerFloats(NamedTuple):
    """I recorded iterations, F fragments of V values. Empty where there are no floats."""

    over: np.ndarray  # uint8[I, F], 1: this worker has a value that is over
    own: np.ndarray  # uint32[I, F * V], bits of this worker's gradients
    sums: np.ndarray  # float64[I, F * V], over the workers
    sizes: np.ndarray  # float64[I, F * V], sums of the absolute values
    number: np.ndarray  # float32[1], and
    bits: np.ndarray  # uint32[1], the same memory


class ServerFloats(NamedTuple):
    """S slots as in server_store.Server. Empty where there are no floats."""

    sums: np.ndarray  # float64[S, V]
    lost: np.ndarray  # float64[S, V], to be added to the sums
    numbers: np.ndarray  # float32[V], and
    bits: np.ndarray  # uint32[V], the same memory


def no_worker_floats() -> WorkerFloats:
    return new_worker_floats(
        np.zeros((0, 0), np.uint8), np.zeros((0, 0), np.float32), *2 * [np.zeros((0, 0))]
    )


def new_worker_floats(
    over: np.ndarray, own: np.ndarray, sums: np.ndarray, sizes: np.ndarray
) -> WorkerFloats:
    """Arrays as in WorkerFloats, but `own` as float32."""
    number = np.zeros(1, np.float32)
    return WorkerFloats(over, own.view(np.uint32), sums, sizes, number, number.view(np.uint32))


def new_server_floats(slots: int, values: int) -> ServerFloats:
    numbers = np.zeros(values, np.float32)
    sums, lost = np.zeros((slots, values)), np.zeros((slots, values))
    return ServerFloats(sums, lost, numbers, numbers.view(np.uint32))


@njit(cache=True)
def wanted(f, iteration, fragment, status):
    """True if a worker sends a fragment with this scoreboard status as floats."""
    if f.over.shape[0] == 0:
        return False
    return status & send_scoreboard.FLOAT != 0 or f.over[iteration % f.over.shape[0], fragment] == 1


@njit(cache=True)
def write_own(f, row, base, iteration, fragment, values):
    """Write a fragment's float32 into a packet from word `base` on."""
    i = iteration % f.own.shape[0]
    for j in range(values):
        row[base + j] = wire.swap(f.own[i, fragment * values + j])


@njit(cache=True)
def first_wrong(f, row, base, iteration, fragment, values):
    """Position of the first float32 that is further than the bound from the sum, or -1."""
    i = iteration % f.sums.shape[0]
    for j in range(values):
        f.bits[0] = wire.swap(row[base + j])
        k = fragment * values + j
        if not abs(np.float64(f.number[0]) - f.sums[i, k]) <= BOUND * f.sizes[i, k]:
            return j
    return -1


@njit(cache=True)
def expected_bits(f, iteration, place):
    """The sum at place `place` of an iteration, rounded to float32, as the int32 of its bits."""
    f.number[0] = np.float32(f.sums[iteration % f.sums.shape[0], place])
    return np.int64(np.int32(f.bits[0]))


@njit(cache=True)
def add(f, slot, row, base):
    """The server adds a packet's float32 to those of a slot."""
    for j in range(f.bits.size):
        f.bits[j] = wire.swap(row[base + j])
    for j in range(f.numbers.size):
        number, before = np.float64(f.numbers[j]), f.sums[slot, j]
        after = before + number
        f.sums[slot, j] = after
        if np.isfinite(after):
            rounded = after - before
            f.lost[slot, j] += (before - (after - rounded)) + (number - rounded)


@njit(cache=True)
def clear(f, slot):
    """Begin the sums of a slot anew."""
    for j in range(f.numbers.size):
        f.sums[slot, j] = 0.0
        f.lost[slot, j] = 0.0


@njit(cache=True)
def write_sum(f, slot, row, base):
    """Write the sums of a slot as float32 into a packet from word `base` on."""
    for j in range(f.numbers.size):
        f.numbers[j] = np.float32(f.sums[slot, j] + f.lost[slot, j])
    for j in range(f.bits.size):
        row[base + j] = wire.swap(f.bits[j])
