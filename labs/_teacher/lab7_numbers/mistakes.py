"""Typical mistakes in lab 7."""

from __future__ import annotations

from labs._teacher import Mistake

MISTAKES = [
    Mistake(
        "truncates",
        "cuts the fraction off instead of rounding",
        (
            (
                "np.rint(values.astype(np.float64) * scale)",
                "np.trunc(values.astype(np.float64) * scale)",
            ),
        ),
        frozenset({"rounding", "inverse", "block_sums"}),
    ),
    Mistake(
        "wraps instead of saturating",
        "a large gradient changes its sign",
        (
            (
                "np.clip(scaled, SMALLEST, LARGEST).astype(np.int32)",
                "scaled.clip(-1e18, 1e18).astype(np.int64).astype(np.int32)",
            ),
        ),
        frozenset({"saturation"}),
    ),
    Mistake(
        "overflow of positive numbers only",
        "does not look at negative sums",
        (("wrapped != exact", "exact > LARGEST"),),
        frozenset({"overflow"}),
    ),
    Mistake(
        "workers forgotten",
        "scales each worker's values to the whole range, so that their sum overflows",
        (("LARGEST / workers)", "LARGEST / 1)"),),
        frozenset({"block_sums", "training"}),
    ),
    Mistake(
        "exponent off by one",
        "covers a power of two with the next one",
        (("np.where(mantissa == 0.5, exponent - 1, exponent)", "exponent"),),
        frozenset({"exponents"}),
    ),
    Mistake(
        "smallest exponent",
        "the workers agree on the smallest exponent, and the larger values saturate",
        (("np.max(np.stack", "np.min(np.stack"),),
        frozenset({"block_sums"}),
    ),
    Mistake(
        "scale with a margin",
        "gives a bit away to be safe",
        (("    return float(scale)", "    return float(scale) / 2"),),
        frozenset({"scales"}),
    ),
]
