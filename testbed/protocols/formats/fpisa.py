"""FPISA, floating-point sums of today's switch chips: an exponent and a mantissa in two registers.

An arriving float32 is split into its exponent, 1 to 254, and its mantissa of 24 bits with a sign.
A chip shifts the mantissa that arrives, never the one in the register: to the right if its exponent
is the smaller one, and to the left by the SPARE bits of the register at most. If its exponent is
larger than that, the arriving number *overwrites* the sum, which is an error. So is a sum that
leaves 32 bits, which stays at the largest. Both are counted. The register is not normalised before
it is read.

Published (Unlocking the Power of Inline Floating-Point Operations on Programmable Switches, NSDI
2022): registers, the shift of the arriving number alone, spare bits, overwriting. Ours: a shift to
the right rounds down, as a shift of integers does; a sum that is read is cut to 24 bits; it does
not wrap around; a number that is none is infinite. p4/fpisa.p4 has the same for switches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from p4fabric.simulate.jit import njit

SPARE = 7  # bits of a register of 32 beside a sign and 24 of the mantissa
LARGEST = 2**31 - 1
WIDTH = 2  # int64 of a sum: exponent and mantissa
ROUNDING = 2.0**-23  # largest error of a shift or a reading, over the number that is cut
INFINITE = 0x7F800000
SIGN = 0x80000000


@njit(cache=True)
def split(word):
    """(exponent, mantissa) of a float32, by its bits, int64: mantissa * 2^(exponent - 150)."""
    number = np.int64(word)
    exponent, mantissa = number >> 23 & 0xFF, number & 0x7FFFFF
    if exponent == 0:
        exponent = np.int64(1)
    else:
        mantissa |= 0x800000
    return exponent, -mantissa if number >> 31 else mantissa


@njit(cache=True)
def moved(exponent, mantissa, word):
    """(exponent, mantissa, 1 if it is wrong) of a sum to which a float32 is added."""
    own, arriving = split(word)
    distance = own - exponent
    if distance > SPARE:
        return own, arriving, np.int64(mantissa != 0)
    if distance >= 0:
        total = mantissa + (arriving << distance)
    else:
        total = mantissa + (arriving >> min(-distance, 31))
    if abs(total) > LARGEST:
        return exponent, LARGEST if total > 0 else -LARGEST, np.int64(1)
    return exponent, total, np.int64(0)


@njit(cache=True)
def read(exponent, mantissa):
    """A sum as the bits of a float32, uint32, cut to 24 bits."""
    size = abs(mantissa)
    if size == 0:
        return np.uint32(0)
    zeros = np.int64(0)  # in front of 32 bits, but not beyond the smallest exponent
    while zeros < exponent + 7 and size << zeros < SIGN:
        zeros += 1
    word = ((exponent + 7 - zeros) << 23) + (size << zeros >> 8)
    return np.uint32(min(word, INFINITE) | (SIGN if mantissa < 0 else 0))


@njit(cache=True)
def add(total, word):
    """Add a float32, by its bits, to a sum, int64[WIDTH], 1 if it is wrong. The first one is added
    to zeros, an exponent that no number has."""
    if total[0] == 0:
        total[0], total[1] = split(word)
        return np.int64(0)
    total[0], total[1], wrong = moved(total[0], total[1], word)
    return wrong


@njit(cache=True)
def added(a, b):
    """(the sum of two float32, by their bits, uint32; 1 if it is wrong)."""
    exponent, mantissa = split(a)
    exponent, mantissa, wrong = moved(exponent, mantissa, b)
    return read(exponent, mantissa), wrong


def sums(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, int]:
    """The sums of rows in this order, uint32 of any shape each, and how many additions are wrong:
    the reference of tests, by numpy, on the values themselves."""
    wrong = 0
    exponent: np.ndarray = np.zeros(rows[0].shape)
    mantissa: np.ndarray = exponent
    for i, row in enumerate(rows):
        bits = row.astype(np.int64)
        own = np.maximum(bits >> 23 & 0xFF, 1)
        part = (bits & 0x7FFFFF) + np.where(bits >> 23 & 0xFF, 2.0**23, 0)
        part = np.where(bits >> 31, -part, part)
        if i == 0:
            exponent, mantissa = own, part
            continue
        over = own > exponent + SPARE
        total = mantissa + np.floor(np.ldexp(part, np.minimum(own - exponent, SPARE)))
        wrong += int((over & (mantissa != 0) | ~over & (abs(total) > LARGEST)).sum())
        mantissa = np.where(over, part, np.clip(total, -LARGEST, LARGEST))
        exponent = np.where(over, own, exponent)
    length = np.frexp(mantissa)[1]  # bits of the mantissa
    cut = np.maximum(length - 24, 0)
    kept = np.ldexp(np.trunc(np.ldexp(mantissa, -cut)), cut)
    with np.errstate(over="ignore"):
        number = np.ldexp(kept, (exponent - 150).astype(int))
        short = np.trunc(np.ldexp(number, 149))  # units of subnormal numbers: nothing is behind
        number = np.where(abs(number) < 2.0**-126, np.ldexp(short, -149), number)
        return number.astype(np.float32).view(np.uint32) & np.where(
            number == 0, 0, 0xFFFFFFFF
        ).astype(np.uint32), wrong
