"""Why packets have left for a PS, from a run's table of departures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any


def causes_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, Counter]:
    """By job, the packets that left the switches of its PSs, by cause."""
    found: defaultdict[int, Counter] = defaultdict(Counter)
    for row in rows:
        found[row["job"]][row["cause"]] += row["packets"] if row["at_ps"] else 0
    return found
