"""The gradients that workers send, and the check of every received sum.

Generated gradients: the value of a position is h * c with h a hash of (seed, job, iteration,
fragment, position in the fragment) and c a small odd number drawn per (job, iteration, worker).
The expected sum of a position is then h times the sum of the c, at the same cost for any number of
workers. A missing, duplicated or swapped worker changes the sum, since the c differ.

Invariant: abs(h) <= 2^31 / (15 W) for W workers, so that no sum leaves int32; `hash_shift` ensures
it. Where packets have 16-bit values, it is 2^15 / (15 W). 8 bits have no room for both factors and
the sum of many workers: there it is 2^7 / 15, so that each worker's value fits, and the sum is
rounded (block_float.py). A missing worker then changes most values of a packet, not all. A test
that needs overflow passes a smaller shift.

Recorded gradients (a trace with float32 values): the workers' quantised int32 values and their sums
lie in arrays, and the check compares with those.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numba import carray, cfunc, types
from p4fabric.simulate.jit import njit
from p4fabric.simulate.mixing import mix, mix2, product

from testbed.protocols.block_float import round_off
from testbed.protocols.wire import swap

if TYPE_CHECKING:
    from numba.core.ccallback import CFunc

LARGEST_FACTOR = 15


def hash_shift(workers: int, bits: int = 32) -> int:
    """Right shift of a 32-bit hash that keeps sums over `workers` workers inside int32, or int16
    with `bits` 16; or the values of each worker inside int8 with `bits` 8."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    shift, added = 1, 1 if bits == 8 else workers
    while ((1 << 31) >> shift) * LARGEST_FACTOR * added >= 1 << (bits - 1):
        shift += 1
    return shift


@njit(cache=True)
def factor(seed, job, iteration, worker):
    """The odd factor c, 1 to 15, of a worker in an iteration."""
    return 2 * (mix2(mix2(mix2(seed, job), iteration), 0x5EED + worker) >> 29) + 1


@njit(cache=True)
def fragment_key(seed, job, fragment):
    """The uint32 from which the hashes of a fragment's positions are made."""
    return np.uint32(mix2(mix2(seed, job + 0x10000), fragment))


@njit(cache=True)
def position_hash(key, position, shift):
    """h of one position, as int32."""
    step = product(np.uint32(position), np.uint32(0x9E3779B1))
    x = mix(np.uint32((np.uint64(key) + np.uint64(step)) & np.uint64(0xFFFFFFFF)))
    return np.int32(x) >> np.int32(shift)


@njit(cache=True)
def write_generated(row, base, count, key, multiplier, shift):
    """Write `count` values, h times `multiplier`, into a packet from word `base` on."""
    m = np.int32(multiplier)
    # Of a slice numba knows that no place is negative, so that it writes several at a time.
    place = row[base : base + count]
    for i in range(place.size):
        place[i] = swap(np.uint32(np.int32(position_hash(key, i, shift) * m)))


@njit(cache=True)
def write_seed(row, base, count, key, multiplier, shift):
    """Write, in place of these values, what they follow from; uint32[4] from word `base` on."""
    row[base] = key
    row[base + 1] = np.uint32(count)
    row[base + 2] = np.uint32(np.int64(multiplier) & 0xFFFFFFFF)
    row[base + 3] = np.uint32(shift)


@njit(cache=True)
def write_seeded(row, seed):
    """Fill a row with the values of `write_seed`, and zeros behind them."""
    count = np.int64(seed[1])
    write_generated(row, 0, count, seed[0], np.int32(seed[2]), np.int64(seed[3]))
    write_zeros(row, count, row.size)


@cache
def filler() -> CFunc:
    """The `tm_fill` of tm.h for packets with `write_seed`. Its target may be at any address."""

    def fill(target, seed, size):
        write_seeded(carray(target, size // 4), carray(seed, 4))

    fill.__qualname__ = "fill"
    word = types.CPointer(types.uint32)
    return cfunc(types.void(word, word, types.int64), cache=True)(fill)


@njit(cache=True)
def wrong_generated(row, base, count, key, multiplier, shift):
    """Position of the first value that is not h times `multiplier`, or -1."""
    m = np.int32(multiplier)
    wrong = np.uint32(0)
    place = row[base : base + count]
    for i in range(place.size):
        expected = swap(np.uint32(np.int32(position_hash(key, i, shift) * m)))
        wrong = np.uint32(wrong | np.uint32(place[i] ^ expected))
    if wrong == 0:
        return -1
    for i in range(count):
        if row[base + i] != swap(np.uint32(np.int32(position_hash(key, i, shift) * m))):
            return i
    return -1


@njit(cache=True)
def are_generated(numbers, key, multiplier, shift):
    """True if int32 `numbers` are h times `multiplier`."""
    m = np.int32(multiplier)
    wrong = np.int32(0)
    for i in range(numbers.size):
        wrong |= numbers[i] ^ np.int32(position_hash(key, i, shift) * m)
    return wrong == 0


@njit(cache=True)
def rounded(key, position, multiplier, shift, bits):
    """h of one position times `multiplier`, rounded by so many bits, int64."""
    return round_off(np.int64(position_hash(key, position, shift)) * multiplier, bits)


@njit(cache=True)
def wrong_rounded(row, base, count, key, multiplier, shift, bits):
    """Position of the first value that is not `rounded`, or -1."""
    for i in range(count):
        if np.int64(np.int32(swap(row[base + i]))) != rounded(key, i, multiplier, shift, bits):
            return i
    return -1


@njit(cache=True)
def write_recorded(row, base, values):
    """Write int32 `values` into a packet from word `base` on."""
    for i in range(values.size):
        row[base + i] = swap(np.uint32(values[i]))


@njit(cache=True)
def wrong_recorded(row, base, values):
    """Position of the first word that differs from int32 `values`, or -1."""
    for i in range(values.size):
        if row[base + i] != swap(np.uint32(values[i])):
            return i
    return -1


@njit(cache=True)
def write_zeros(row, start, stop):
    for i in range(start, stop):
        row[i] = np.uint32(0)


@njit(cache=True)
def first_nonzero(row, start, stop):
    """Offset from `start` of the first word that is not 0, or -1."""
    for i in range(start, stop):
        if row[i] != np.uint32(0):
            return i - start
    return -1
