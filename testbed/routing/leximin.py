"""Max-min fair rates over the choices too: the smallest rate first, then the next, and so on.

Among the choices whose smallest rate is largest, some leave more to the workers that could have
more, those of another job for instance. Small networks are searched for them: from the choice that
the program in whole counts has found, one or two workers, or an aggregate, at a time take another
way, as long as the sorted rates become better and the smallest stays. The smallest rate is proven
to be the largest (congestion.py); for the others this stops at a choice that no such step betters.
The tests compare it with trying all choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from testbed.routing.assemble import Arrangement, Choice
from testbed.routing.congestion import Congestion
from testbed.routing.paths import Path

Counts = list[list[int]]
Onward = dict[tuple[int, str], Path]
Step = tuple[int, int, int]  # of a class: from a way to another

TRIES = 600  # choices that are looked at
PAIRS = 60  # single steps up to which pairs of them are tried


def improve(program: Congestion, counts: Counts, onward: Onward) -> Choice:
    """The choice of these counts, or one with the same smallest rate that leaves more to others."""
    return _Climb(program).from_choice(counts, onward)


class _Climb:
    def __init__(self, program: Congestion) -> None:
        self.candidates = program.candidates
        self.unit_bps = program.unit_bps
        self.most = [
            Fraction(program.most_rate(job, worker) * program.unit_bps)
            for job, made in enumerate(self.candidates.jobs)
            for worker in range(len(made.workers))
            if program.most_rate(job, worker) < float("inf")
        ]
        self.tries = 0

    def from_choice(self, counts: Counts, onward: Onward) -> Choice:
        best, least = self._rates(counts, onward), self._common(counts, onward)
        while best != sorted(self.most):  # nobody could have more
            for other_counts, other_onward in self._near(counts, onward):
                self.tries += 1
                if self.tries > TRIES:
                    return self.candidates.legs(counts, onward)
                if self._common(other_counts, other_onward) < least:
                    continue
                rates = self._rates(other_counts, other_onward)
                if rates > best:
                    counts, onward, best = other_counts, other_onward, rates
                    break
            else:
                break
        return self.candidates.legs(counts, onward)

    def _arrangement(self, counts: Counts, onward: Onward) -> Arrangement:
        legs = self.candidates.legs(counts, onward)
        return Arrangement(self.candidates.network, self.candidates.jobs, legs)

    def _common(self, counts: Counts, onward: Onward) -> Fraction:
        rate = self._arrangement(counts, onward).common_rate()
        return Fraction(0) if rate is None else rate

    def _rates(self, counts: Counts, onward: Onward) -> list[Fraction]:
        return sorted(self._arrangement(counts, onward).fair_rates())

    def _near(self, counts: Counts, onward: Onward) -> Iterator[tuple[Counts, Onward]]:
        """Choices one step away, then two."""
        steps = list(self._steps(counts))
        for step in steps:
            yield from self._taken(counts, onward, (step,))
        for key in onward:
            for path in self.candidates.onward[key]:
                if path != onward[key]:
                    yield counts, {**onward, key: path}
        if len(steps) <= PAIRS:
            for pair in combinations(steps, 2):
                yield from self._taken(counts, onward, pair)

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
        used = {
            (each.job, way.node)
            for each, numbers in zip(self.candidates.classes, after, strict=True)
            for way, count in zip(each.ways, numbers, strict=True)
            if count and (each.job, way.node) in self.candidates.onward
        }
        kept = {key: path for key, path in onward.items() if key in used}
        opened = sorted(used - kept.keys())
        if not opened:
            yield after, kept
        elif len(opened) == 1:
            for path in self.candidates.onward[opened[0]]:
                yield after, {**kept, opened[0]: path}
        else:
            yield after, kept | {key: self.candidates.onward[key][0] for key in opened}
