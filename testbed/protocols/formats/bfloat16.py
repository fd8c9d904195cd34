"""bfloat16: the upper half of a float32, added as such in the order of arrival; each sum is rounded
to nearest, a half to the even number. p4/bfloat16.p4 has the same for switches.

A word has the 32 bits of the float32 whose lower half is 0.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols.formats import float32

# Largest relative error of an addition, which is rounded to float32 first.
ROUNDING = 2.0**-8 + 2.0**-23


@njit(cache=True)
def rounded(word):
    """A float32 rounded to bfloat16, as the bits of each, uint32. What is no number is NAN."""
    number = np.int64(word)
    return np.uint32((number + 0x7FFF + (number >> 16 & 1)) & 0xFFFF0000)


@njit(cache=True)
def nearest(word):
    """The same of any float32, whose payload may be another one."""
    number = float32.number_of(word)
    return float32.NAN if number != number else rounded(word)


@njit(cache=True)
def add(a, b):
    """The sum of two bfloat16, uint32."""
    return rounded(float32.add(a, b))


def added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same by numpy, uint32 of any shape, by the nearer of two neighbours: the reference of
    tests."""
    total = float32.added(a, b)
    lower, rest = total & np.uint32(0xFFFF0000), total & np.uint32(0xFFFF)
    up = (rest > 0x8000) | (rest == 0x8000) & (lower >> np.uint32(16) & np.uint32(1) == 1)
    return (lower + (up.astype(np.uint32) << np.uint32(16))).astype(np.uint32)
