"""Rows of a file of expected values: whether a value is expected, and writing what was measured."""

from __future__ import annotations

import re


def bounds_of(row: dict) -> tuple[float, float]:
    """The expected range."""
    expected = row["expected"]
    low, high = expected if isinstance(expected, list) else (expected, expected)
    return float(low), float(high)


def shown(row: dict) -> str:
    """The same as text."""
    low, high = bounds_of(row)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def holds(row: dict, value: float) -> bool:
    """True if a value is expected, within the tolerance."""
    low, high = bounds_of(row)
    return low - row["tolerance"] <= value <= high + row["tolerance"]


def error_of(row: dict, value: float) -> str:
    """Distance of a value from the expected range; 0 % in it."""
    low, high = bounds_of(row)
    nearest = min(max(value, low), high)
    if not nearest:
        return "" if value == nearest else f"{value - nearest:+g}"
    return f"{100 * (value - nearest) / nearest:+.0f} %"


def with_measured(text: str, name: str, *values: float) -> str:
    """The file's text with the measured value of a row, or several in a list."""
    listed = ", ".join(f"{value:.4g}" for value in values)
    listed = f"[{listed}]" if len(values) > 1 else listed
    pattern = rf"(\{{name: {name}, .*measured: )[^}}]*\}}"
    changed, count = re.subn(pattern, rf"\g<1>{listed}}}", text)
    assert count == 1, name
    return changed
