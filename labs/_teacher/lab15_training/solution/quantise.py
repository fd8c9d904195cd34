"""Lab 15: gradients in 32, 16 or 8 bits. All arrays are one-dimensional."""

from __future__ import annotations

import numpy as np

BLOCK = 64  # values that share an exponent
NO_VALUE = -127  # the exponent of a block of zeros


class Quantiser:
    """Makes integers of gradients, and gradients of the integers' sums.

    Args:
        size: of a gradient, a multiple of BLOCK.
        workers: whose integers are added.
        bits: of an integer: 32, 16 or 8. A word has 32 // bits of them.
    """

    def __init__(self, size: int, workers: int, bits: int) -> None:
        self.size, self.workers, self.bits = size, workers, bits
        self.lanes = 32 // bits
        self.room = (2 ** (bits - 1) - 1) // workers  # the largest integer of a worker
        self.left = np.zeros(size)  # rounding errors of earlier gradients

    def exponents(self, values: np.ndarray) -> np.ndarray:
        """int8, one per block: the smallest e with 2^e >= every |value| of the block."""
        wanted = self._wanted(values)
        largest = np.abs(wanted).reshape(-1, BLOCK).max(axis=1)
        mantissa, exponent = np.frexp(largest)
        exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
        exponent = np.where(largest == 0, NO_VALUE, exponent)
        return np.clip(exponent, NO_VALUE, 127).astype(np.int8)

    def encode(self, values: np.ndarray, shared: np.ndarray) -> np.ndarray:
        """float32[size] to int32[size * bits / 32]."""
        wanted, scale = self._wanted(values), self._scale(shared)
        numbers = np.rint(wanted * scale)
        numbers = np.clip(numbers, -self.room, self.room)
        self.left = wanted - numbers / scale
        fields = numbers.astype(np.int64).reshape(-1, self.lanes)
        words = sum(fields[:, k] << (self.bits * k) for k in range(self.lanes))
        return np.asarray(words).astype(np.int32)

    def decode(self, sums: np.ndarray, shared: np.ndarray) -> np.ndarray:
        """The sums of what the workers have encoded, as float32[size]."""
        left, half = sums.astype(np.int64), 1 << (self.bits - 1)
        fields = np.empty((len(sums), self.lanes), np.int64)
        for k in range(self.lanes):
            fields[:, k] = ((left + half) % (2 * half)) - half
            left = (left - fields[:, k]) >> self.bits
        return (fields.ravel() / self._scale(shared)).astype(np.float32)

    def _wanted(self, values: np.ndarray) -> np.ndarray:
        if not np.isfinite(values).all():
            raise ValueError("a gradient has values that are no numbers")
        return values.astype(np.float64) + self.left

    def _scale(self, shared: np.ndarray) -> np.ndarray:
        return np.repeat(self.room / 2.0 ** shared.astype(np.float64), BLOCK)
