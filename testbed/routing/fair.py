"""Max-min fair rates of workers whose paths are given (progressive filling).

The rates of all workers grow together. When a resource is full, the rates of its users stop and the
others go on. The result is max-min fair, within a job and between jobs: no worker's rate can grow
unless that of another worker with no more shrinks.

Aggregation adds one thing: workers that share an aggregate load a resource with the rate of the
fastest of them, not with the sum. The rates grow together, so the fastest workers are those that
still grow. Each step is therefore linear, and exact in fractions. A job's results come at the rate
of its slowest worker. Their load stops to grow as soon as one of the job's workers has stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Term:
    """A part of a resource's load: `share` times the largest rate of `workers` (indices). With
    `slowest`: the smallest rate, as for a job's results."""

    workers: tuple[int, ...]
    share: Fraction
    slowest: bool = False

    def load(self, rates: Sequence[Fraction]) -> Fraction:
        of = min if self.slowest else max
        return self.share * of(rates[worker] for worker in self.workers)

    def grows(self, growing: Sequence[bool]) -> bool:
        """True if it grows while the rates of those workers grow."""
        return (all if self.slowest else any)(growing[worker] for worker in self.workers)


Resource = tuple[str | int, ...]
"""Something with a capacity: its kind and its name."""
Uses = Mapping[Resource, Sequence[Term]]


def loads(uses: Uses, rates: Sequence[Fraction]) -> dict[Resource, Fraction]:
    """The load of each resource at these rates."""
    return {
        resource: sum((term.load(rates) for term in terms), Fraction(0))
        for resource, terms in uses.items()
    }


def common_rate(uses: Uses, capacities: Mapping[Resource, int]) -> Fraction | None:
    """The largest rate that all workers can have at the same time, which is the smallest of the
    fair rates; None: nothing limits it."""
    rates = []
    for resource, capacity in capacities.items():
        weight = sum((term.share for term in uses.get(resource, ())), Fraction(0))
        if weight:
            rates.append(capacity / weight)
    return min(rates, default=None)


def fair_rates(
    uses: Uses, capacities: Mapping[Resource, int], workers: int
) -> list[Fraction] | None:
    """The max-min fair rates of `workers` workers.

    capacities: of the resources that are limited. Returns None if nothing limits some worker."""
    rates = [Fraction(0)] * workers
    growing = [True] * workers
    left = workers
    limited = {resource: list(uses[resource]) for resource in capacities if resource in uses}
    spent = dict.fromkeys(limited, Fraction(0))  # by terms that do not grow any more
    while left:
        level, full = None, []
        for resource, terms in limited.items():
            weight = sum((term.share for term in terms), Fraction(0))
            if not weight:
                continue
            at = (capacities[resource] - spent[resource]) / weight
            if level is None or at < level:
                level, full = at, [resource]
            elif at == level:
                full.append(resource)
        if level is None:
            return None
        # A job's results stop growing with any of its workers, so first those that must stop.
        for slowest in (False, True):
            stopped = {
                worker
                for resource in full
                for term in limited[resource]
                if term.slowest == slowest
                for worker in term.workers
                if growing[worker]
            }
            if stopped:
                break
        for worker in stopped:
            rates[worker], growing[worker] = level, False
        left -= len(stopped)
        for resource, terms in limited.items():
            still = []
            for term in terms:
                if stopped.isdisjoint(term.workers) or term.grows(growing):
                    still.append(term)
                elif term.slowest:  # its other workers may still grow
                    spent[resource] += term.share * level
                else:
                    spent[resource] += term.load(rates)
            limited[resource] = still
    return rates
