"""Lab 7: gradients as integers. All arrays are one-dimensional."""

from __future__ import annotations

import numpy as np

LARGEST = 2**31 - 1
SMALLEST = -(2**31)
BLOCK = 64  # values that share an exponent
NO_VALUE = -127  # the exponent of a block of zeros


def quantise(values: np.ndarray, scale: float | np.ndarray) -> np.ndarray:
    """float32 to int32: values * scale, to the nearest integer (ties to even), saturated."""
    scaled = np.rint(values.astype(np.float64) * scale)
    return np.clip(scaled, SMALLEST, LARGEST).astype(np.int32)


def dequantise(numbers: np.ndarray, scale: float | np.ndarray) -> np.ndarray:
    """int32 to float32: the inverse of `quantise`."""
    return (numbers.astype(np.float64) / scale).astype(np.float32)


def switch_add(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add int32 arrays as a switch does: (sum that wraps, bool array: where it overflowed)."""
    exact = a.astype(np.int64) + b.astype(np.int64)
    wrapped = exact.astype(np.int32)
    return wrapped, wrapped != exact


def safe_scale(largest: float, workers: int) -> float:
    """The largest power of two with which no sum of `workers` values, each at most `largest` in
    size, leaves the range of int32."""
    scale = 2.0 ** (np.floor(np.log2(LARGEST / (workers * largest))) + 2)  # too large
    while workers * np.rint(largest * scale) > LARGEST:
        scale /= 2
    return float(scale)


def block_exponents(values: np.ndarray) -> np.ndarray:
    """int8, one per block: the smallest e with 2^e >= every |value| of the block."""
    blocks = np.abs(values.astype(np.float64)).reshape(-1, BLOCK).max(axis=1)
    mantissa, exponent = np.frexp(blocks)  # block = mantissa * 2^exponent, 0.5 <= mantissa < 1
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    return np.where(blocks == 0, NO_VALUE, np.maximum(exponent, NO_VALUE)).astype(np.int8)


def shared_exponents(exponents: list[np.ndarray]) -> np.ndarray:
    """The exponents that the workers agree on (int8, one per block), from all `block_exponents`."""
    return np.max(np.stack(exponents), axis=0)


def _scales(exponents: np.ndarray, workers: int) -> np.ndarray:
    room = np.floor(np.log2(LARGEST / workers))
    return np.repeat(2.0 ** (room - exponents.astype(np.float64)), BLOCK)


def quantise_blocks(values: np.ndarray, exponents: np.ndarray, workers: int) -> np.ndarray:
    """float32 to int32, each block with the best power of two for its exponent, such that the sum
    of `workers` of them cannot overflow."""
    return quantise(values, _scales(exponents, workers))


def dequantise_blocks(numbers: np.ndarray, exponents: np.ndarray, workers: int) -> np.ndarray:
    """int32 to float32: the inverse of `quantise_blocks`, for sums, too."""
    return dequantise(numbers, _scales(exponents, workers))
