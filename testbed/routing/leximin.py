"""Max-min fairness between choices: compare the smallest rates first, then the next, and so on.

Among the choices with the largest smallest rate, some leave more to workers that can have more, for
example those of another job. In tiny networks all choices are tried. Other small networks are
searched, beginning with the choice of the program in whole counts. In each step one or two workers,
an aggregate, or a worker and an aggregate take another route. Steps that improve the sorted rates
and keep the smallest are taken. The smallest rate is proven to be the largest possible
(congestion.py). For the other rates the search stops at a choice that no single step improves.
Between choices with equal rates, more room for results decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb, inf, prod

from testbed.routing.assemble import Arrangement, Choice
from testbed.routing.congestion import Congestion
from testbed.routing.loop_free_paths import Path
from testbed.routing.planner_options import Options

Counts = list[list[int]]
Onward = dict[tuple[int, str], Path]
Step = tuple[int, int, int]  # class, the route that a worker leaves, the route that it takes

MAX_EXHAUSTIVE = 2000  # with at most so many choices, all are tried
MAX_TRIES = 600  # choices that a search tries
MAX_STEPS_FOR_PAIRS = 60  # with at most so many single steps, pairs of steps are tried, too


def improve(program: Congestion, counts: Counts, onward: Onward, options: Options) -> Choice:
    """The choice of these counts, or one with the same smallest rate that leaves more to others."""
    search = _ChoiceSearch(program, options)
    find = search.best if search.max_choices() <= MAX_EXHAUSTIVE else search.hill_climb
    return search.candidates.legs(*find(counts, onward))


def _shares(count: int, parts: int) -> Iterator[list[int]]:
    """All ways to split `count` workers into `parts` numbers."""
    if parts == 1:
        yield [count]
        return
    for first in range(count, -1, -1):
        for rest in _shares(count - first, parts - 1):
            yield [first, *rest]


class _ChoiceSearch:
    def __init__(self, program: Congestion, options: Options) -> None:
        self.candidates = program.candidates
        self.options = options
        self.max_rates = [
            Fraction(program.max_rate(job, worker) * program.unit_bps)
            for job, made in enumerate(self.candidates.jobs)
            for worker in range(len(made.workers))
            if program.max_rate(job, worker) < float("inf")
        ]

    def max_choices(self) -> int:
        """An upper bound of the number of choices."""
        sizes = ((len(each.workers), len(each.routes)) for each in self.candidates.classes)
        workers = prod(comb(count + routes - 1, count) for count, routes in sizes)
        return workers * prod(len(paths) for paths in self.candidates.onward.values())

    def best(self, counts: Counts, onward: Onward) -> tuple[Counts, Onward]:
        """The best of all choices; the given one if none is better."""
        found, best = (counts, onward), self._worth(counts, onward)
        for choice in self._all():
            if self._at_most(*choice) >= best[0][0] and (worth := self._worth(*choice)) > best:
                found, best = choice, worth
        return found

    def _all(self) -> Iterator[tuple[Counts, Onward]]:
        classes = self.candidates.classes
        for counts in product(*(_shares(len(each.workers), len(each.routes)) for each in classes)):
            used = self._in_order(self._aggregating(counts))
            for paths in product(*(self.candidates.onward[key] for key in used)):
                yield list(counts), dict(zip(used, paths, strict=True))

    def hill_climb(self, counts: Counts, onward: Onward) -> tuple[Counts, Onward]:
        """The best choice that improving steps reach from the given one."""
        best = self._worth(counts, onward)
        least = best[0][0]
        tries = 0
        while best[0] != sorted(self.max_rates) or best[1] < 1:  # nobody could have more
            for other_counts, other_onward in self._neighbours(counts, onward):
                tries += 1
                if tries > MAX_TRIES:
                    return counts, onward
                if self._at_most(other_counts, other_onward) < least:
                    continue
                worth = self._worth(other_counts, other_onward)
                if worth > best:
                    counts, onward, best = other_counts, other_onward, worth
                    break
            else:
                break
        return counts, onward

    def _arrangement(self, counts: Counts, onward: Onward) -> Arrangement:
        legs = self.candidates.legs(counts, onward)
        return Arrangement(self.candidates.network, self.candidates.jobs, legs)

    def _at_most(self, counts: Counts, onward: Onward) -> Fraction:
        """The smallest rate without results."""
        rate = self._arrangement(counts, onward).common_rate()
        return Fraction(0) if rate is None else rate

    def _worth(self, counts: Counts, onward: Onward) -> tuple[list[Fraction], Fraction | float]:
        """The sorted rates, then the room for results by the rate of the job that has least."""
        found = self._arrangement(counts, onward)
        if self.options.counted:
            found = found.with_room()
        room = found.room()
        return sorted(found.rates), inf if room is None else room

    def _neighbours(self, counts: Counts, onward: Onward) -> Iterator[tuple[Counts, Onward]]:
        """Choices that are one step away, then those two steps away. Small changes come first."""
        yield from self._other_onward_paths(counts, onward)
        steps = list(self._steps(counts))
        for step in steps:
            yield from self._after_steps(counts, onward, (step,))
        for step in steps:
            for taken in self._after_steps(counts, onward, (step,)):
                yield from self._other_onward_paths(*taken)
        if len(steps) <= MAX_STEPS_FOR_PAIRS:
            # With replacement: two equal workers may take the same step.
            for pair in combinations_with_replacement(steps, 2):
                yield from self._after_steps(counts, onward, pair)

    def _other_onward_paths(
        self, counts: Counts, onward: Onward
    ) -> Iterator[tuple[Counts, Onward]]:
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

    def _after_steps(
        self, counts: Counts, onward: Onward, steps: tuple[Step, ...]
    ) -> Iterator[tuple[Counts, Onward]]:
        """The choice after some steps, for each path onward of a switch that they open."""
        after = [list(numbers) for numbers in counts]
        for number, leave, take in steps:
            after[number][leave] -= 1
            after[number][take] += 1
        if any(count < 0 for numbers in after for count in numbers):
            return
        used = self._aggregating(after)
        kept = {key: path for key, path in onward.items() if key in used}
        opened = self._in_order(used - kept.keys())
        if not opened:
            yield after, kept
        elif len(opened) == 1:
            for path in self.candidates.onward[opened[0]]:
                yield after, {**kept, opened[0]: path}
        else:
            yield after, kept | {key: self.candidates.onward[key][0] for key in opened}

    def _in_order(self, keys: Collection[tuple[int, str]]) -> list[tuple[int, str]]:
        return [key for key in self.candidates.onward if key in keys]

    def _aggregating(self, counts: Sequence[list[int]]) -> set[tuple[int, str]]:
        """The (job, switch) that aggregate."""
        return {
            (each.job, route.node)
            for each, numbers in zip(self.candidates.classes, counts, strict=True)
            for route, count in zip(each.routes, numbers, strict=True)
            if count and (each.job, route.node) in self.candidates.onward
        }
