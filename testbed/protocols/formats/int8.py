"""Two sums of int8 in one word of a switch's registers: p4/int8.p4 has the same for switches.

A word is 2^16 * first + second, modulo 2^32. Adding words adds both sums, and they can be taken
apart as long as each is an int16. With MOST_WORKERS workers at most, each with a value of -127 to
127, no sum leaves that. Hosts add int32, in which sums of int8 always fit.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols.block_float import largest_short

MOST_WORKERS = largest_short(16) // largest_short(8)


def packed(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Words, uint32, of two int16 in each; int32 of any shape."""
    return (first.astype(np.int64) * 2**16 + second).astype(np.uint32)


def taken_apart(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two sums of uint32 of any shape, int32."""
    second = words.astype(np.int16).astype(np.int32)
    first = (words - second.astype(np.uint32)).astype(np.int32) >> 16
    return first, second
