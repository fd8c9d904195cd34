"""Max-min fair rates over the choices too: the smallest rate first, then the next, and so on.

Among the choices whose smallest rate is largest, some leave more to the workers that could have
more, those of another job for instance. In tiny networks all choices are looked at. Other small
ones are searched: from the choice that the program in whole counts has found, one or two workers,
an aggregate, or a worker and an aggregate at a time take another way, as long as the sorted rates
become better and the smallest stays. The smallest rate is proven to be the largest (congestion.py);
for the others the search stops at a choice that no such step betters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb, prod

from testbed.routing.assemble import Arrangement, Choice
from testbed.routing.congestion import Congestion
from testbed.routing.paths import Path

Counts = list[list[int]]
Onward = dict[tuple[int, str], Path]
Step = tuple[int, int, int]  # of a class: from a way to another

ALL = 2000  # choices up to which all are looked at
TRIES = 600  # choices that are looked at otherwise
PAIRS = 60  # single steps up to which pairs of them are tried


def improve(program: Congestion, counts: Counts, onward: Onward) -> Choice:
    """The choice of these counts, or one with the same smallest rate that leaves more to others."""
    among = _Choices(program)
    reach = among.best if among.most_there_are() <= ALL else among.climb
    return among.candidates.legs(*reach(counts, onward))


def _shares(count: int, ways: int) -> Iterator[list[int]]:
    """All ways to share out `count` workers."""
    if ways == 1:
        yield [count]
        return
    for first in range(count, -1, -1):
        for rest in _shares(count - first, ways - 1):
            yield [first, *rest]


class _Choices:
    def __init__(self, program: Congestion) -> None:
        self.candidates = program.candidates
        self.most = [
            Fraction(program.most_rate(job, worker) * program.unit_bps)
            for job, made in enumerate(self.candidates.jobs)
            for worker in range(len(made.workers))
            if program.most_rate(job, worker) < float("inf")
        ]

    def most_there_are(self) -> int:
        """No fewer than the choices that there are."""
        sizes = ((len(each.workers), len(each.ways)) for each in self.candidates.classes)
        workers = prod(comb(count + ways - 1, count) for count, ways in sizes)
        return workers * prod(len(paths) for paths in self.candidates.onward.values())

    def best(self, counts: Counts, onward: Onward) -> tuple[Counts, Onward]:
        """The best of all; this one, if none is better."""
        found, best = (counts, onward), (self._common(counts, onward), self._rates(counts, onward))
        for choice in self._all():
            common = self._common(*choice)
            if common >= best[0] and (common, rates := self._rates(*choice)) > best:
                found, best = choice, (common, rates)
        return found

    def _all(self) -> Iterator[tuple[Counts, Onward]]:
        classes = self.candidates.classes
        for counts in product(*(_shares(len(each.workers), len(each.ways)) for each in classes)):
            used = sorted(self._used(counts))
            for paths in product(*(self.candidates.onward[key] for key in used)):
                yield list(counts), dict(zip(used, paths, strict=True))

    def climb(self, counts: Counts, onward: Onward) -> tuple[Counts, Onward]:
        """What can be reached from a choice, step by step."""
        best, least = self._rates(counts, onward), self._common(counts, onward)
        tries = 0
        while best != sorted(self.most):  # nobody could have more
            for other_counts, other_onward in self._near(counts, onward):
                tries += 1
                if tries > TRIES:
                    return counts, onward
                if self._common(other_counts, other_onward) < least:
                    continue
                rates = self._rates(other_counts, other_onward)
                if rates > best:
                    counts, onward, best = other_counts, other_onward, rates
                    break
            else:
                break
        return counts, onward

    def _arrangement(self, counts: Counts, onward: Onward) -> Arrangement:
        legs = self.candidates.legs(counts, onward)
        return Arrangement(self.candidates.network, self.candidates.jobs, legs)

    def _common(self, counts: Counts, onward: Onward) -> Fraction:
        rate = self._arrangement(counts, onward).common_rate()
        return Fraction(0) if rate is None else rate

    def _rates(self, counts: Counts, onward: Onward) -> list[Fraction]:
        return sorted(self._arrangement(counts, onward).fair_rates())

    def _near(self, counts: Counts, onward: Onward) -> Iterator[tuple[Counts, Onward]]:
        """Choices one step away, those that change least first, then two."""
        yield from self._onward_elsewhere(counts, onward)
        steps = list(self._steps(counts))
        for step in steps:
            yield from self._taken(counts, onward, (step,))
        for step in steps:
            for taken in self._taken(counts, onward, (step,)):
                yield from self._onward_elsewhere(*taken)
        if len(steps) <= PAIRS:
            for pair in combinations_with_replacement(steps, 2):  # alike workers take one step
                yield from self._taken(counts, onward, pair)

    def _onward_elsewhere(self, counts: Counts, onward: Onward) -> Iterator[tuple[Counts, Onward]]:
        """The choices in which one aggregate takes another path onward."""
        for key in onward:
            for path in self.candidates.onward[key]:
                if path != onward[key]:
                    yield counts, {**onward, key: path}

    def _steps(self, counts: Counts) -> Iterator[Step]:
        for number, numbers in enumerate(counts):
            for leave, count in enumerate(numbers):
                if count:
                    yield from (
                        (number, leave, take) for take in range(len(numbers)) if take != leave
                    )

    def _taken(
        self, counts: Counts, onward: Onward, steps: tuple[Step, ...]
    ) -> Iterator[tuple[Counts, Onward]]:
        """The choice after some steps, for each path onward of a switch that they open."""
        after = [list(numbers) for numbers in counts]
        for number, leave, take in steps:
            after[number][leave] -= 1
            after[number][take] += 1
        if any(count < 0 for numbers in after for count in numbers):
            return
        used = self._used(after)
        kept = {key: path for key, path in onward.items() if key in used}
        opened = sorted(used - kept.keys())
        if not opened:
            yield after, kept
        elif len(opened) == 1:
            for path in self.candidates.onward[opened[0]]:
                yield after, {**kept, opened[0]: path}
        else:
            yield after, kept | {key: self.candidates.onward[key][0] for key in opened}

    def _used(self, counts: Sequence[list[int]]) -> set[tuple[int, str]]:
        """The (job, switch) that aggregate."""
        return {
            (each.job, way.node)
            for each, numbers in zip(self.candidates.classes, counts, strict=True)
            for way, count in zip(each.ways, numbers, strict=True)
            if count and (each.job, way.node) in self.candidates.onward
        }
