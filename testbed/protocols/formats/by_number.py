"""Generated values, their checks and additions by the numbers of a format (adder and numbers in
testbed/number_formats.py), for workers, servers and algorithms of hosts.

The generated value of a position is h * c as with integers (testbed/protocols/values.py), with h a
float of the position and c a whole number of (job, iteration, worker). Both have so few significant
bits that their product is a value of the format, and that the exact sum over all workers, h times
the sum of the c, is a float64. h has a sign and an exponent of its own, c a sign and a place, so
that additions cancel and shift.

A sum that depends on the order of its additions is right if it is no further from the exact sum
than W - 1 roundings of the sum of the absolute values, W workers.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.mixing import mix, mix2, product

from testbed.number_formats import (
    BFLOAT16,
    BLOCKS,
    FLOAT32_EXACT,
    FPISA,
    HALVES,
    INTEGERS,
)
from testbed.protocols import values, wire
from testbed.protocols.formats import bfloat16, float32, float32_exact, fpisa, mx8

# By the numbers that workers send; those of integers are in values.py.
H_BITS = np.array([0, 16, 4, 16, 4])  # significant bits of h
C_BITS = np.array([0, 8, 4, 8, 3])  # significant bits of c,
C_PLACES = np.array([1, 4, 1, 16, 4])  # which it has in one of so many places
MOST_PARTS = 4  # of which a worker's c is the sum
EXACT = -1.0
WRONG_BOUND = 1.0 + 2.0**-9  # of a sum that a switch has said to be wrong: parts of it are lost
EXPONENTS = 16  # of h: 2^0 to 2^15 of its unit
UNITS = np.ldexp(np.float64(1.0), np.arange(EXPONENTS) - 24)


# int64 of a sum that has more bits than a packet, by adder
WIDTHS = {FLOAT32_EXACT: float32_exact.WIDTH, FPISA: fpisa.WIDTH}


@njit(cache=True)
def add(adder, a, b):
    """(the sum of two words, uint32, of an adder of floats; 1 if it is known to be wrong)."""
    if adder == FPISA:
        return fpisa.added(a, b)
    if adder == BFLOAT16:
        return bfloat16.add(a, b), np.int64(0)
    return float32.add(a, b), np.int64(0)


@njit(cache=True)
def add_wide(adder, total, word):
    """Add a word to a sum, int64[WIDTHS]; 1 if it is known to be wrong."""
    if adder == FPISA:
        return fpisa.add(total, word)
    float32_exact.add(total, word)
    return np.int64(0)


@njit(cache=True)
def read_wide(adder, total):
    """The word, uint32, of such a sum."""
    if adder == FPISA:
        return fpisa.read(total[0], total[1])
    return float32_exact.rounded(total)


@njit(cache=True)
def bound(adder, numbers, workers):
    """Largest error of a sum of so many workers' values, over the sum of the absolute values;
    EXACT: the exact sum, rounded once."""
    if adder == FLOAT32_EXACT:
        return EXACT
    if adder == BFLOAT16:
        return (workers - 1) * bfloat16.ROUNDING
    if adder == FPISA:
        return 2 * workers * fpisa.ROUNDING
    once = bfloat16.ROUNDING if numbers == HALVES else 0.0
    return (workers - 1) * float32.ROUNDING + once


@njit(cache=True)
def factor(numbers, seed, job, iteration, worker):
    """c of a worker in an iteration."""
    return _factor(numbers, seed, job, iteration, worker, worker, C_BITS[numbers])


@njit(cache=True)
def shared_factor(numbers, seed, job, iteration, worker, share):
    """The same; of `share` parts of a sum, if there are any, the sum of those of all of them."""
    if share == 0:
        return factor(numbers, seed, job, iteration, worker)
    total = np.int64(0)
    for part in range(worker * share, (worker + 1) * share):  # a sum has no more than C_BITS
        placed, bits = 0x9A27 + part // MOST_PARTS, C_BITS[numbers] - 2
        total += _factor(numbers, seed, job, iteration, part, placed, bits)
    return total


@njit(cache=True)
def _factor(numbers, seed, job, iteration, drawn, placed, bits):
    """c with so many bits; its place is that of all with the same `placed`."""
    if numbers == INTEGERS:
        return np.int64(values.factor(seed, job, iteration, drawn))
    key = mix2(mix2(seed, job), iteration)
    x, y = np.int64(mix2(key, 0x5EED + drawn)), np.int64(mix2(key, 0x5EED + placed))
    top = np.int64(1) << (bits - 1)
    size = (x >> 24 & (top - 1) | top) << (y >> 16) % C_PLACES[numbers]
    return -size if x & 1 else size


@njit(cache=True)
def factor_sums(numbers, seed, job, iteration, workers, share):
    """(sum of c, sum of the absolute values of c) over workers 0 .. workers - 1."""
    total, size = np.int64(0), np.int64(0)
    for worker in range(workers):
        own = shared_factor(numbers, seed, job, iteration, worker, share)
        total += own
        size += abs(own)
    return total, size


@njit(cache=True)
def _position(numbers, key, position):
    """(h in units, the unit) of one position."""
    step = product(np.uint32(position), np.uint32(0x9E3779B1))
    x = np.int64(mix(np.uint32((np.uint64(key) + np.uint64(step)) & np.uint64(0xFFFFFFFF))))
    h = x & ((np.int64(1) << H_BITS[numbers]) - 1) | 1
    own = -h if x >> 31 else h
    if numbers == BLOCKS:  # one exponent for a block
        step = product(np.uint32(position // mx8.BLOCK), np.uint32(0x85EBCA6B))
        x = np.int64(mix(np.uint32((np.uint64(key) + np.uint64(step)) & np.uint64(0xFFFFFFFF))))
    return own, UNITS[x >> 20 & (EXPONENTS - 1)]


@njit(cache=True)
def exact_generated(numbers, key, position, multiplier):
    """h of a position times `multiplier`, a float64."""
    h, unit = _position(numbers, key, position)
    return h * multiplier * unit


@njit(cache=True)
def write_generated(numbers, row, base, count, key, multiplier):
    """Write `count` floats, h times `multiplier`, into a packet from word `base` on."""
    for i in range(count):
        h, unit = _position(numbers, key, i)
        row[base + i] = wire.swap(float32.word_of(np.float32(h * multiplier * unit)))


@njit(cache=True)
def wrong_generated(numbers, row, base, count, key, factor_sum, factor_size, bound):
    """Position of the first float that is further from h times `factor_sum` than `bound` times the
    sum of the absolute values, or -1."""
    if bound == EXACT:
        for i in range(count):
            sum_ = np.float32(exact_generated(numbers, key, i, factor_sum))
            if row[base + i] != wire.swap(float32.word_of(sum_)):
                return i
        return -1
    for i in range(count):
        h, unit = _position(numbers, key, i)
        found = np.float64(float32.number_of(wire.swap(row[base + i])))
        if not abs(found - h * factor_sum * unit) <= bound * abs(h) * factor_size * unit:
            return i
    return -1


@njit(cache=True)
def round_numbers(numbers, row, base, values):
    """Round float32, `values` from word `base` of a packet on, to the numbers that workers send."""
    if numbers == HALVES:
        for i in range(values):
            row[base + i] = wire.swap(bfloat16.nearest(wire.swap(row[base + i])))
    elif numbers == BLOCKS:
        wire.round_blocks(row, base, values)


@njit(cache=True)
def _rounded_block(key, block, count, factor_sum):
    """The words, uint32[BLOCK], of a block of the sum of all workers' values, of which the fragment
    has `count`."""
    words = np.zeros(mx8.BLOCK, np.uint32)
    start = mx8.BLOCK * block
    for i in range(min(mx8.BLOCK, count - start)):
        sum_ = np.float32(exact_generated(BLOCKS, key, start + i, factor_sum))
        words[i] = float32.word_of(sum_)
    mx8.round_blocks(words)
    return words


@njit(cache=True)
def wrong_blocks(row, base, count, key, factor_sum):
    """Position of the first value of mx8 that is not the exact sum, rounded, or -1."""
    for block in range(-(-count // mx8.BLOCK)):
        words = _rounded_block(key, block, count, factor_sum)
        start = mx8.BLOCK * block
        for i in range(min(mx8.BLOCK, count - start)):
            if row[base + start + i] != wire.swap(words[i]):
                return start + i
    return -1


@njit(cache=True)
def expected_generated(numbers, key, position, factor_sum, count):
    """The exact sum of a position, rounded once, as the int32 of its bits. `count`: values of the
    fragment, of blocks."""
    if numbers == BLOCKS:
        words = _rounded_block(key, position // mx8.BLOCK, count, factor_sum)
        return np.int64(np.int32(words[position % mx8.BLOCK]))
    word = float32.word_of(np.float32(exact_generated(numbers, key, position, factor_sum)))
    return np.int64(np.int32(bfloat16.rounded(word) if numbers == HALVES else word))
