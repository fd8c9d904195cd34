"""Sums of a few bf16 numbers in all orders of arrival.

    python -m labs.lab19_floats.orders 256 1 1

Each sum is shown once, with the steps of an order that has it, and how many orders have it; then
the exact sum, rounded once. A number is decimal, and rounded to bf16, or a code, 0x and four
digits, or `inf` or `nan`.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Sequence
from fractions import Fraction

from labs.lab19_floats.model import INFINITY, NAN, SIGN, added, nearest, shown, total

FEWEST, MOST = 2, 7
CODE = re.compile(r"0x[0-9a-fA-F]{4}")
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?", re.ASCII)
NAMES = {"inf": INFINITY, "-inf": INFINITY | SIGN, "nan": NAN}


def code_of(text: str) -> int:
    """The bf16 next to a number. Raises ValueError."""
    if text in NAMES:
        return NAMES[text]
    if CODE.fullmatch(text):
        return int(text, 16)
    if not DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is no number; write 1.5, -3e10, inf, nan or a code like 0x3f80")
    exact = abs(Fraction(text)) * 2**133
    size, rest = divmod(exact, 1)
    # A rest decides ties of large numbers alone, and there one bit says that there is one.
    size = size | (rest > 0) if size >> 10 else round(exact)
    return nearest(size) | SIGN * text.startswith("-")


def lines(codes: Sequence[int]) -> list[str]:
    """The lines that the command prints."""
    found: dict[int, list[str]] = {}
    for order in itertools.permutations(codes):
        sums = list(itertools.accumulate(order, added))
        steps = [f" + {shown(x)} = {shown(s)}" for x, s in zip(order[1:], sums[1:], strict=True)]
        found.setdefault(sums[-1], []).append(shown(order[0]) + ",".join(steps))
    count = sum(map(len, found.values()))
    made = [f"{count} orders of arrival, sums that differ: {len(found)}"]
    for code, texts in found.items():
        made.append(f"{shown(code)} in {len(texts)} of them: {texts[0]}")
    return [*made, f"exact, rounded once: {shown(total(codes))}"]


def main(words: Sequence[str]) -> int:
    """The command; 2: bad arguments."""
    try:
        codes = [code_of(word) for word in words]
        if not FEWEST <= len(codes) <= MOST:
            raise ValueError(f"give {FEWEST} to {MOST} numbers, and not {len(codes)}")
    except ValueError as error:
        print(f"labs.lab19_floats.orders: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines(codes)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
