"""Sums of float32 as if rounded once: a whole number for each value, in units of 2^-149.

Every float32 is a whole number of these units below 2^277. A sum is held as LIMBS of 32 bits, each
in an int64, so that additions need no carries, and a last int64 with what is no whole number. It
does not depend on the order of additions. p4/float32_exact.p4 has the same for switches.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols.formats.float32 import NAN

LIMBS = 9
WIDTH = LIMBS + 1  # int64 of a sum
# In the last of them
INFINITY = 1
MINUS = 2  # minus infinity
IS_NAN = 4
OTHER = 8  # any number but -0
INFINITE = 0x7F800000
SIGN = 0x80000000


@njit(cache=True)
def add(total, word):
    """Add a float32, by its bits, to a sum, int64[WIDTH]."""
    number = np.int64(word)
    exponent, significand = number >> 23 & 0xFF, number & 0x7FFFFF
    negative = number >> 31 == 1
    if number != SIGN:
        total[LIMBS] |= OTHER
    if exponent == 255:
        if significand > 0:
            total[LIMBS] |= IS_NAN
        else:
            total[LIMBS] |= MINUS if negative else INFINITY
        return
    place = np.int64(0)
    if exponent > 0:
        significand |= 0x800000
        place = exponent - 1
    shifted = significand << (place & 31)
    low, high = shifted & 0xFFFFFFFF, shifted >> 32
    if negative:
        low, high = -low, -high
    total[place >> 5] += low
    total[(place >> 5) + 1] += high


@njit(cache=True)
def rounded(total):
    """The float32 nearest to a sum, uint32; carries are settled in the sum."""
    special = total[LIMBS]
    infinities = special & (INFINITY | MINUS)
    if special & IS_NAN or infinities == INFINITY | MINUS:
        return NAN
    if infinities:
        return np.uint32(INFINITE | (SIGN if infinities == MINUS else 0))
    carry = np.int64(0)
    for i in range(LIMBS):
        whole = total[i] + carry
        total[i] = whole & 0xFFFFFFFF if i < LIMBS - 1 else whole
        carry = whole >> 32
    negative = total[LIMBS - 1] < 0
    size = np.zeros(LIMBS, np.int64)
    borrow = np.int64(0)
    for i in range(LIMBS):
        each = (-total[i] - borrow) if negative else total[i]
        size[i] = each & 0xFFFFFFFF
        borrow = np.int64(each < 0)
    top = LIMBS - 1
    while top > 0 and size[top] == 0:
        top -= 1
    if size[top] == 0:
        return np.uint32(0 if special & OTHER else SIGN)
    sign = SIGN if negative else 0
    length = np.int64(0)
    while size[top] >> length:
        length += 1
    shift = 32 * top + length - 24  # bits behind the 24 that are kept
    if shift <= 0:
        return np.uint32(sign | size[0])
    below = size[top - 1] if top > 0 else np.int64(0)
    pair = size[top] << 32 | below  # 33 to 64 bits; as int64 perhaps negative
    behind = 32 + length - 24  # of the pair
    kept = (pair >> behind) & 0xFFFFFF
    rest = pair & ((np.int64(1) << behind) - 1)
    half = np.int64(1) << (behind - 1)
    more = False
    for i in range(top - 1):
        more |= size[i] != 0
    result = (shift << 23) + kept
    if rest > half or (rest == half and (more or result & 1)):
        result += 1
    return np.uint32(sign | min(result, INFINITE))


def nearest(words: Iterable[int]) -> int:
    """The sum of float32 by their bits, by rational numbers: the reference of tests. Infinities and
    what is no number are as in IEEE 754."""
    numbers = np.array(list(words), np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        if not (finite := np.isfinite(numbers)).all():
            total = numbers[~finite].sum()  # finite ones may overflow on the way
            return int(NAN) if np.isnan(total) else int(total.view(np.uint32))
        if not numbers.any():
            return int(SIGN if np.signbit(numbers).all() else 0)
    exact = sum((Fraction(float(each)) for each in numbers), Fraction(0))
    if exact == 0:
        return 0
    with np.errstate(all="ignore"):
        near = np.float32(float(exact))  # one of the two neighbours
    around = [int(near.view(np.uint32)) + step for step in (-1, 0, 1)]
    largest = Fraction(2) ** 128  # what rounds to infinity is nearer to it

    def distance(word: int) -> tuple[Fraction, int]:
        size = word & 0x7FFFFFFF
        number = largest if size == INFINITE else Fraction(float(np.uint32(size).view(np.float32)))
        return abs(abs(exact) - number), word & 1

    sound = [word for word in around if 0 <= word & 0x7FFFFFFF <= INFINITE and word >= 0]
    best = min(sound, key=distance) & 0x7FFFFFFF
    return best | (SIGN if exact < 0 else 0)
