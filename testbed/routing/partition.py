"""Which part of every switch's memory belongs to which job, for systems that divide it once.

The jobs get equal parts, in their order, for the whole run. A system that needs two aggregators for
a slot divides slots.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A job's part of a pool: slots base .. base + slots - 1."""

    base: int
    slots: int


def part_of(slots: int, jobs: int, job: int) -> Part:
    """The part of job `job` (from 0) of `jobs`; what cannot be divided equally stays unused."""
    each = slots // jobs
    return Part(job * each, each)
