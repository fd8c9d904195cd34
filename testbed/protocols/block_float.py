"""Block floating point: float gradients as int32, with one exponent for each fragment.

A block is a fragment's values. Its exponent e is the smallest whole number with 2^e > abs(x) for
every x in it (the published condition is >=; with > no sum can leave int32, whatever the rounding).
With the largest exponent over W workers, a worker sends

    round(x * scale),   scale = (2^31 - 1) / (W * 2^e)

and divides the sum of the integers by the scale. That is off by at most half a step per worker,
`error_bound`. Exponents are signed bytes; a block whose values are all below 2^-128 has -128.

With B = 16 or 8 bits, float gradients are int16 or int8 on the wire, and their sums are rounded to
as many bits.

A worker sends

    steps = round(x * scale),   scale = (2^(B - 1) - 1) / 2^e

which has B bits. Switches and servers add integers of more bits. The sum of W workers needs up to
ceil(log2 W) bits more, so whoever has it first rounds these off (p4/short_values.p4,
server_store.write_result):

    result = round(sum / 2^bits),   bits = ceil(log2 W), a half to the even number

which has B bits again, and stands for result * 2^bits / scale. Each worker's rounding is off by
half a step at most, and that of the sum by half of 2^bits steps: `short_error_bound`. Had the
workers sent so few bits instead that no sum leaves B bits, each would be off by half of 2^bits
steps.

A switch keeps two sums of 8-bit steps in one word of its registers (p4/int8.p4), which is 2^16 *
first + second, modulo 2^32. Adding words adds both sums, and they can be taken apart as long as
each is an int16: no sum of number_formats.MOST_PACKED workers leaves that.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols.sizes import rounded_bits
from testbed.protocols.wire import swap

MIN_EXPONENT = -128
MAX_EXPONENT = 127
LARGEST_SUM = 2**31 - 1


def exponents(values: np.ndarray) -> np.ndarray:
    """Exponents of blocks, int8[...], of float32[..., V].

    Raises ValueError for values that are not finite or do not fit an exponent."""
    largest = np.abs(values.astype(np.float64)).max(axis=-1)
    if not np.isfinite(largest).all():
        raise ValueError("gradients must be finite")
    result = np.where(largest > 0, np.frexp(largest)[1], MIN_EXPONENT)
    if result.max(initial=MIN_EXPONENT) > MAX_EXPONENT:
        raise ValueError(f"gradients must be below 2^{MAX_EXPONENT}")
    return np.maximum(result, MIN_EXPONENT).astype(np.int8)


@njit(cache=True)
def scale_of(exponent, workers):
    """Steps per unit of a block's values."""
    return LARGEST_SUM / (workers * np.ldexp(1.0, exponent))


def error_bound(exponent: int, workers: int) -> float:
    """Largest difference between a received sum over its scale and the sum of the floats."""
    return workers / (2 * scale_of(exponent, workers))


def quantise(values: np.ndarray, exponent: np.ndarray, workers: int) -> np.ndarray:
    """int32[..., V] of float32[..., V] and the exponents [...] of its blocks."""
    scale = LARGEST_SUM / (workers * np.ldexp(1.0, exponent.astype(np.int64)))
    return np.rint(values.astype(np.float64) * scale[..., np.newaxis]).astype(np.int32)


@njit(cache=True)
def write_steps(row, base, values, scale):
    """Write float32 `values` as int32 into a packet from word `base` on, in `scale` steps per
    unit."""
    for i in range(values.size):
        row[base + i] = swap(np.uint32(np.int32(np.rint(np.float64(values[i]) * scale))))


@njit(cache=True)
def round_off(value, bits):
    """An integer over 2^bits, rounded."""
    if bits == 0:
        return value
    return (value + (1 << (bits - 1)) - 1 + ((value >> bits) & 1)) >> bits


@njit(cache=True)
def largest_short(bits):
    """Most steps of a value of so many bits."""
    return (1 << (bits - 1)) - 1


@njit(cache=True)
def short_scale_of(exponent, bits):
    """Steps of `bits` bits per unit of a block whose values are below 2^exponent."""
    return largest_short(bits) * np.ldexp(1.0, -exponent)


def rounded(sums: np.ndarray, workers: int) -> np.ndarray:
    """Sums of all workers' steps, int32 of any shape, as the result has them."""
    return np.rint(sums / 2 ** rounded_bits(workers)).astype(np.int32)


def short_error_bound(exponent: int, workers: int, bits: int = 16) -> float:
    """Largest difference between a result over its scale and the sum of the floats."""
    steps = (workers + (1 << rounded_bits(workers))) / 2
    return float(steps / short_scale_of(exponent, bits))


def packed(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Words, uint32, of two int16 in each; int32 of any shape."""
    return (first.astype(np.int64) * 2**16 + second).astype(np.uint32)


def taken_apart(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two sums of uint32 of any shape, int32."""
    second = words.astype(np.int16).astype(np.int32)
    first = (words - second.astype(np.uint32)).astype(np.int32) >> 16
    return first, second
