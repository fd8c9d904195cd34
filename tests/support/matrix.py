"""Parameters of which a few are always tried, and the others in the long run (./test --all)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(values: Iterable[Any], count: int) -> list[Any]:
    """Parameters for all values; those behind the first `count` are slow."""
    made = []
    for number, value in enumerate(values):
        parts = value if isinstance(value, tuple) else (value,)
        made.append(pytest.param(*parts, marks=() if number < count else pytest.mark.slow))
    return made
