"""Submissions of jobs to a cluster: their times and kinds.

Many independent users form a Poisson process: gaps between submissions are exponential and
independent. Lengths of jobs in clusters are heavy-tailed: a few long jobs are most of the work.
Times, kinds, lengths and sizes have separate random streams, so that other kinds of jobs do not
change the times.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from testbed.traffic.draws import Stream

GAPS = 0xA221  # what tells the streams from others of the same seed
KINDS = 0xA222
LENGTHS = 0xA223
SIZES = 0xA224


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


def lengths(seed: int, ranges: Sequence[tuple[int, int, float]]) -> list[int]:
    """The number of iterations of each job: drawn from (smallest, largest, tail) of its kind, see
    Stream.pareto."""
    stream = Stream(seed, LENGTHS)
    return [stream.pareto(*each) for each in ranges]


def sizes(seed: int, choices: Sequence[Sequence[int]]) -> list[int]:
    """The number of workers of each job: of the numbers of its kind, each half as likely as the one
    before."""
    stream = Stream(seed, SIZES)
    weights = [[1 << n for n in reversed(range(len(each)))] for each in choices]
    return [each[stream.weighted(weight)] for each, weight in zip(choices, weights, strict=True)]
