"""Typical mistakes in lab 15."""

from __future__ import annotations

from labs._teacher import Mistake

_LEARNING = frozenset({"sixteen", "eight"})
MISTAKES = [
    Mistake(
        "workers forgotten",
        "uses all bits for each worker, so that sums overflow into the next field",
        (("(2 ** (bits - 1) - 1) // workers", "2 ** (bits - 1) - 1"),),
        frozenset({"exact", "packed", "feedback", "equal", "outlier", *_LEARNING}),
    ),
    Mistake(
        "no borrow",
        "a negative field takes one from the field above, which is not given back",
        (("(left - fields[:, k]) >> self.bits", "left >> self.bits"),),
        frozenset({"packed", "feedback", "outlier"}),
    ),
    Mistake(
        "one exponent for all",
        "takes the largest exponent of the gradient for all of its blocks",
        (
            (
                "        return np.clip(exponent, NO_VALUE, 127).astype(np.int8)",
                "        exponent = np.full_like(exponent, exponent.max())\n"
                "        return np.clip(exponent, NO_VALUE, 127).astype(np.int8)",
            ),
        ),
        frozenset({"exact", "packed", "feedback", "outlier"}),
    ),
    Mistake(
        "exponents of large numbers alone",
        "gradients are mostly below 1, and their exponents negative",
        (("np.clip(exponent, NO_VALUE, 127)", "np.clip(exponent, 0, 127)"),),
        frozenset({"exact", "packed", "feedback", "equal", "outlier"}),
    ),
    Mistake(
        "fields without a sign",
        "reads a field as a number from 0 on",
        (("((left + half) % (2 * half)) - half", "left % (2 * half)"),),
        frozenset({"exact", "packed", "feedback", "equal", "outlier", *_LEARNING}),
    ),
    Mistake(
        "no number becomes 0",
        "trains on as if nothing were wrong",
        (
            (
                "        if not np.isfinite(values).all():\n"
                '            raise ValueError("a gradient has values that are no numbers")\n'
                "        return values",
                "        values = np.nan_to_num(values, posinf=0, neginf=0)\n        return values",
            ),
        ),
        frozenset({"refused"}),
    ),
]
