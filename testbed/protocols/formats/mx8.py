"""mx8: blocks of 32 values, each of 8 bits, with one scale of 8 bits (MXINT8 of the OCP
Microscaling Formats Specification 1.0). p4/mx8.p4 has the same for switches.

A value is m * 2^(scale - 133) with m from -127 to 127 and the scale from 0 to 254, in E8M0: its
power of two is 2^(scale - 127), and a value has 6 bits behind the point. The scale of a block is
the exponent field of the largest float32 in it. In packets 32 values take 33 bytes; wherever they
are added they are float32, and sums are exact (float32_exact.py). The sum of all workers is rounded
to blocks again, a half to the even number. So it is the same in any order, and each worker has
scales of its own. A block with an infinite number or none keeps its float32.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.number_formats import BLOCK

LARGEST = 127  # of m
NONE = 255  # in place of a scale: numbers of the block are infinite, or none
LARGEST_SCALE = 254
NAN = 0x7FC00000
SIGN = 0x80000000


@njit(cache=True)
def exponent_of(word):
    """The exponent field of a float32, by its bits, int64."""
    return np.int64(word) >> 23 & 0xFF


@njit(cache=True)
def _parts(word, scale):
    """(significand, int64; by how many bits it is shifted right to become m)."""
    exponent, size = exponent_of(word), np.int64(word) & 0x7FFFFF
    if exponent > 0:
        size |= 0x800000
    # A scale of 0 is that of subnormal numbers, whose exponent is that of the field 1.
    return size, min(17 + scale - max(exponent, 1), 31)


@njit(cache=True)
def steps_of(word, scale):
    """(m of a float32 in a block with this scale, True if nothing is lost)."""
    size, shift = _parts(word, scale)
    m = size >> shift
    return -m if np.int64(word) >> 31 else m, m << shift == size


@njit(cache=True)
def word_of(m, scale):
    """The float32 of a value, as its bits, uint32."""
    if scale == NONE:
        return np.uint32(NAN)
    size = abs(m) << (17 if scale > 0 else 16)
    exponent = max(scale, 1)
    while size < 0x800000 and exponent > 1:
        size <<= 1
        exponent -= 1
    word = ((exponent - 1) << 23) + size
    return np.uint32(word | (SIGN if m < 0 else 0))


@njit(cache=True)
def rounds_up(word, scale):
    """True if a float32 rounds to 128 in a block with this scale."""
    size, shift = _parts(word, scale)
    return 2 * size >= (2 * LARGEST + 1) << shift


@njit(cache=True)
def rounded(word, scale):
    """A float32 in a block with this scale, rounded, as the bits of each, uint32."""
    if scale == NONE:
        return np.uint32(word)
    size, shift = _parts(word, scale)
    m = (size + (np.int64(1) << (shift - 1)) - 1 + (size >> shift & 1)) >> shift
    found = np.int64(word_of(min(m, LARGEST), scale))
    return np.uint32(found | (np.int64(word) & SIGN if m > 0 else 0))


@njit(cache=True)
def scale_of(words):
    """The scale of a block of float32, uint32[*] in native order, and that of the rounded one."""
    scale = np.int64(0)
    for word in words:
        scale = max(scale, exponent_of(word))
    more = False
    if scale < LARGEST_SCALE:
        for word in words:
            more |= rounds_up(word, scale)
    return scale, scale + 1 if more else scale


@njit(cache=True)
def round_blocks(words):
    """Round blocks of float32, uint32[*] in native order, in place."""
    for start in range(0, words.size, BLOCK):
        block = words[start : start + BLOCK]
        _, scale = scale_of(block)
        for i in range(block.size):
            block[i] = rounded(block[i], scale)


def quantised(words: np.ndarray) -> np.ndarray:
    """The same as a new array by numpy, uint32[N] of whole blocks, on the numbers: the reference of
    tests."""
    numbers = words.view(np.float32).reshape(-1, BLOCK).astype(np.float64)
    finite = np.asarray(np.isfinite(numbers).all(axis=1, keepdims=True))
    safe = np.where(finite, numbers, 0)
    largest = np.abs(safe).max(axis=1, keepdims=True)
    power = np.maximum(np.frexp(largest)[1] - 1, -127)
    power += np.rint(np.ldexp(largest, 6 - power)) > LARGEST
    power = np.minimum(power, LARGEST_SCALE - 127)
    unit = np.ldexp(1.0, power - 6)
    m = np.clip(np.rint(safe / unit), -LARGEST, LARGEST)
    found = np.where(m == 0, 0.0, m * unit).astype(np.float32).view(np.uint32)
    return np.where(finite, found, words.reshape(-1, BLOCK)).reshape(-1)
