"""Parameters of which a few are always tried, and the others in the long run (./test --all)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def first_of(values: Iterable[Any], count: int) -> list[Any]:
    """Parameters for all values; those behind the first `count` are slow."""
    made = []
    for number, value in enumerate(values):
        parts = value if isinstance(value, tuple) else (value,)
        made.append(pytest.param(*parts, marks=() if number < count else pytest.mark.slow))
    return made


def pairwise(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations with a value of each factor, in which each two values of two factors are
    together at least once: a part of all combinations, and the same one every time."""
    every = [*itertools.product(*(range(len(factor)) for factor in factors))]

    def pairs(chosen: tuple[int, ...]) -> set[Any]:
        return {*itertools.combinations(enumerate(chosen), 2)}

    missing = set().union(*map(pairs, every))
    found = []
    while missing:
        best = max(every, key=lambda chosen: len(pairs(chosen) & missing))
        missing -= pairs(best)
        found.append(best)
    return [tuple(f[n] for f, n in zip(factors, each, strict=True)) for each in found]
