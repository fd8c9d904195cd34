"""Submissions of jobs to a cluster: their times and kinds.

Many independent users form a Poisson process: gaps between submissions are exponential and
independent. Times and kinds have separate random streams, so that other kinds of jobs do not change
the times.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from testbed.traffic.draws import Stream

GAPS = 0xA221  # what tells the streams from others of the same seed
KINDS = 0xA222


def poisson(seed: int, jobs: int, interval_ns: int) -> list[int]:
    """When `jobs` jobs are submitted, in ns: the first at 0, then with exponential gaps of
    `interval_ns` on average."""
    stream = Stream(seed, GAPS)
    gaps = (stream.exponential(interval_ns) for _ in range(jobs - 1))
    return list(itertools.accumulate(gaps, initial=0))


def kinds(seed: int, jobs: int, weights: Sequence[int]) -> list[int]:
    """Of which kind each job is: places in `weights`."""
    stream = Stream(seed, KINDS)
    return [stream.weighted(weights) for _ in range(jobs)]
