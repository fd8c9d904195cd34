"""Random numbers by hashing: the same for the same seed and number, on every machine.

Nothing is kept between two draws, so each can be made again by itself, in any order.
"""

from __future__ import annotations

import numpy as np

from p4fabric.simulate.jit import njit


@njit(cache=True)
def product(a, b):
    """The low 32 bits of the product of two uint32. Of 64 bits, so that plain Python, which the
    same functions are without numba, has no overflow to warn of; compiled it is one instruction."""
    return np.uint32(np.uint64(a) * np.uint64(b) & np.uint64(0xFFFFFFFF))


@njit(cache=True)
def mix(x):
    """A uint32 well mixed (multiply and xor-shift, after Wellons' search for low bias)."""
    x = np.uint32(x ^ (x >> np.uint32(16)))
    x = product(x, np.uint32(0x7FEB352D))
    x = np.uint32(x ^ (x >> np.uint32(15)))
    x = product(x, np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@njit(cache=True)
def mix2(a, b):
    """A hash, from 0 to 2^32 - 1, of two int64 of which the low 32 bits count."""
    first = mix(np.uint32(a & 0xFFFFFFFF))
    return np.int64(mix(np.uint32((np.int64(first) + 0x9E3779B9 + b) & 0xFFFFFFFF)))
