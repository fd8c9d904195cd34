"""float32 added in the order of arrival: IEEE 754, rounded to nearest, a half to the even number.

A result that is no number is NAN, whatever the operands' payloads are, since processors differ in
these. p4/float32.p4 has the same addition for switches.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

NAN = np.uint32(0x7FC00000)
ROUNDING = 2.0**-24  # largest relative error of an addition


@njit(cache=True)
def number_of(word):
    """The float32 whose bits a uint32 has."""
    return np.uint32(word).view(np.float32)


@njit(cache=True)
def word_of(number):
    """The bits of a float32, uint32."""
    return np.float32(number).view(np.uint32)


@njit(cache=True)
def add(a, b):
    """The sum of two float32, as the bits of each, uint32."""
    total = number_of(a) + number_of(b)
    return NAN if total != total else word_of(total)


def added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same by numpy, uint32 of any shape: the reference of tests."""
    with np.errstate(all="ignore"):
        total = a.view(np.float32) + b.view(np.float32)
    return np.where(np.isnan(total), NAN, total.view(np.uint32))
