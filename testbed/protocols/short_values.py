"""16-bit block floating point: float gradients as int16 on the wire, their sums rounded to int16.

A block's values have an exponent e with 2^e > abs(x) for every x of every worker. A worker sends

    steps = round(x * scale),   scale = 32767 / 2^e

which is an int16. Switches and servers add int32. The sum of W workers needs up to ceil(log2 W)
bits more, so whoever has it first rounds these off (p4/short_values.p4, server_store.write_result):

    result = round(sum / 2^bits),   bits = ceil(log2 W), a half to the even number

which is an int16 again, and stands for result * 2^bits / scale. Each worker's rounding is off by
half a step at most, and that of the sum by half of 2^bits steps: `error_bound`. Had the workers
sent so few bits instead that no sum leaves int16, each would be off by half of 2^bits steps.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols.jit import njit
from testbed.protocols.sizes import rounded_bits

LARGEST = 2**15 - 1


@njit(cache=True)
def round_off(value, bits):
    """An integer over 2^bits, rounded."""
    if bits == 0:
        return value
    return (value + (1 << (bits - 1)) - 1 + ((value >> bits) & 1)) >> bits


@njit(cache=True)
def scale_of(exponent):
    """Steps per unit of a block whose values are below 2^exponent."""
    return LARGEST * np.ldexp(1.0, -exponent)


def rounded(sums: np.ndarray, workers: int) -> np.ndarray:
    """Sums of all workers' steps, int32 of any shape, as the result has them."""
    return np.rint(sums / 2 ** rounded_bits(workers)).astype(np.int32)


def error_bound(exponent: int, workers: int) -> float:
    """Largest difference between a result over its scale and the sum of the floats."""
    steps = (workers + (1 << rounded_bits(workers))) / 2
    return steps / scale_of(exponent)
