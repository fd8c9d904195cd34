"""Expected values: files of experiments/expected, their rows, and what may be told of a value.

experiments/expected/README.md describes the rows. `figures.yaml` has those of the published
figures, which `ina reproduce` holds new runs against; the others are for parts of the testbed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml
from p4fabric.base.config.data_files import read_text

from testbed.paths import EXPERIMENTS

FOLDER = EXPERIMENTS / "expected"
FIGURES = FOLDER / "figures.yaml"
Row = Mapping[str, Any]


@cache
def of_figures() -> tuple[dict[str, Row], list[Row]]:
    """The figures that have expected values, by name (`minutes`, `gib`, `kick_the_tires`), and all
    rows."""
    document = yaml.safe_load(read_text(FIGURES))
    return document["figures"], document["rows"]


def bounds_of(row: Row) -> tuple[float, float]:
    """The expected range."""
    expected = row["expected"]
    low, high = expected if isinstance(expected, list) else (expected, expected)
    return float(low), float(high)


def shown(row: Row) -> str:
    """The same as text."""
    low, high = bounds_of(row)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def holds(row: Row, value: float) -> bool:
    """True if a value is expected, within the tolerance."""
    low, high = bounds_of(row)
    return low - row["tolerance"] <= value <= high + row["tolerance"]


def error_of(row: Row, value: float) -> str:
    """Distance of a value from the expected range; 0 % in it."""
    low, high = bounds_of(row)
    nearest = min(max(value, low), high)
    if not nearest:
        return "" if value == nearest else f"{value - nearest:+g}"
    return f"{100 * (value - nearest) / nearest:+.0f} %"
