"""A histogram of how late a host did what its schedule asked for.

Buckets are a quarter of an octave wide, so a percentile read from them is at most 19 % too high.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

BUCKETS = 160  # up to 2^40 ns
MAXIMUM = BUCKETS  # place of the largest lag, behind the buckets


def new_lag() -> np.ndarray:
    return np.zeros(BUCKETS + 1, np.int64)


@njit(cache=True)
def record(lag, lag_ns):
    """Count one lag in ns; what was early counts as in time."""
    lag_ns = max(lag_ns, 0)
    if lag_ns > lag[MAXIMUM]:
        lag[MAXIMUM] = lag_ns
    octave = 0
    while lag_ns >> (octave + 1) > 0:
        octave += 1
    quarter = (lag_ns << 2 >> octave) & 3
    bucket = 4 * octave + quarter
    lag[min(bucket, BUCKETS - 1)] += 1


def percentile(lag: np.ndarray, share: float) -> int:
    """Upper edge in ns of the bucket that the given share of all lags stays below; 0 if none."""
    counts = lag[:BUCKETS]
    total = int(counts.sum())
    if total == 0:
        return 0
    bucket = int(np.searchsorted(np.cumsum(counts), share * total))
    octave, quarter = divmod(bucket, 4)
    edge = ((5 + quarter) << octave) >> 2
    return min(edge, int(lag[MAXIMUM]))
