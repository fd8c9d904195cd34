"""Floating-point numbers that additions find hard, as the bits of float32."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

# Zeros, the smallest and the largest of their kind, infinities, several that are no numbers, and
# numbers around 2^24, whose neighbours are 1 and 2 apart.
SPECIAL = np.array(
    [
        *(0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000),
        *(0x3F800000, 0x3F800001, 0x33800000, 0x4B7FFFFF, 0x4B800000, 0x4B800001),
        *(0x7F7FFFFF, 0x7F7FFFFE, 0x7F000000, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF),
    ],
    np.uint32,
)
SIGN = np.uint32(0x80000000)
KINDS = ("any", "special", "cancels", "near", "small", "large", "half")


def hard_pairs(draw: np.random.Generator, kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two uint32[count], the bits of pairs of float32. cancels: nearly equal, with other signs;
    near: exponents that differ by a few; small, large: at the ends of the range; half: the
    smaller number is around half of the larger one's last place."""

    def words(most: int) -> np.ndarray:
        return draw.integers(0, most, count, dtype=np.uint32)

    a, b = words(2**32 - 1), words(2**32 - 1)
    if kind == "special":
        a = draw.choice(SPECIAL, count) ^ words(2) << np.uint32(31)
        b = draw.choice(SPECIAL, count) ^ words(2) << np.uint32(31)
    elif kind == "cancels":
        b = a ^ SIGN ^ words(8)
    elif kind == "small":
        a, b = a & np.uint32(0x81FFFFFF), b & np.uint32(0x81FFFFFF)
    elif kind == "large":
        a, b = a | np.uint32(0x7F000000), b | np.uint32(0x7E000000)
    elif kind in ("near", "half"):
        exponent = draw.integers(30, 250, count)
        lower = exponent - (24 if kind == "half" else draw.integers(0, 28, count))
        a = a & np.uint32(0x807FFFFF) | (exponent << 23).astype(np.uint32)
        mask = np.uint32(0x80000003 if kind == "half" else 0x807FFFFF)
        b = b & mask | (lower << 23).astype(np.uint32)
    return a, b


def pairs(count: int) -> SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """Pairs of any of these kinds."""
    return st.builds(
        lambda seed, kind: hard_pairs(np.random.default_rng(seed), kind, count),
        st.integers(0, 2**32),
        st.sampled_from(KINDS),
    )
