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

    def exponents(self, values: np.ndarray) -> np.ndarray:
        """int8, one per block: the smallest e with 2^e >= every |value| of the block, but at least
        NO_VALUE. Raises ValueError for values that are no numbers."""
        return np.zeros(self.size // BLOCK, np.int8)  # TODO (task 1)

    def encode(self, values: np.ndarray, shared: np.ndarray) -> np.ndarray:
        """float32[size] to int32[size * bits / 32]. Raises ValueError for values that are no
        numbers.

        Args:
            shared: the largest of the workers' exponents, of each block.
        """
        return np.zeros(self.size * self.bits // 32, np.int32)  # TODO (tasks 1 and 2)

    def decode(self, sums: np.ndarray, shared: np.ndarray) -> np.ndarray:
        """The sums of what the workers have encoded, as float32[size]."""
        return np.zeros(self.size, np.float32)  # TODO (tasks 1 and 2)
