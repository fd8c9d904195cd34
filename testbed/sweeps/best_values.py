"""The search for the best of some combinations of values, of which each costs a run to try.

A key with few values is tried with all of them. Of the key with the most values, if they are more
than FEW, some are left out by golden section, once for each combination of the others, which may
move the best. At the end the neighbours of the best have been tried, so that it is at least the
best around. Completion time over window falls and then rises again, or stays as it is, where all
values are as good: then the smallest counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

FEW = 6
SHARE = (3 - math.sqrt(5)) / 2  # of an interval, to the first of its two inner places
Place = tuple[int, ...]  # of a combination: the number of each key's value
Measure = Callable[[Sequence[Place]], Iterable[float]]  # costs; infinite where a run has failed


def search(counts: Sequence[int], measure: Measure) -> dict[Place, float]:
    """The costs of the combinations that were tried. `counts`: how many values each key has;
    `measure` is called with places, which it may try side by side."""
    known: dict[Place, float] = {}

    def ask(places: Iterable[Place]) -> None:
        new = [place for place in dict.fromkeys(places) if place not in known]
        known.update(zip(new, measure(new) if new else (), strict=True))

    longest = max(range(len(counts)), key=lambda key: counts[key])
    if counts[longest] <= FEW:
        ask(itertools.product(*map(range, counts)))
        return known
    ranges = [range(1) if key == longest else range(count) for key, count in enumerate(counts)]
    lines = [*itertools.product(*ranges)]

    def at(line: Place, number: int) -> Place:
        return (*line[:longest], number, *line[longest + 1 :])

    ends = dict.fromkeys(lines, (0, counts[longest] - 1))
    while open_lines := [line for line, (low, high) in ends.items() if high - low > 2]:
        inner = {line: _inner(*ends[line]) for line in open_lines}
        ask(at(line, each) for line, pair in inner.items() for each in pair)
        for line, (left, right) in inner.items():
            low, high = ends[line]
            costs = known[at(line, left)], known[at(line, right)]
            if math.isinf(min(costs)):  # nothing says where runs succeed
                ask(at(line, each) for each in range(low, high + 1))
                ends[line] = (left, left)
            else:
                ends[line] = (low, right) if costs[0] <= costs[1] else (left, high)
    ask(at(line, each) for line, (low, high) in ends.items() for each in range(low, high + 1))
    while True:
        before = len(known)
        ask(_neighbours(best(known), counts))
        if len(known) == before:
            return known


def _inner(low: int, high: int) -> tuple[int, int]:
    left = low + max(1, round(SHARE * (high - low)))
    return left, max(left + 1, high - (left - low))


def _neighbours(place: Place, counts: Sequence[int]) -> Iterable[Place]:
    for key, count in enumerate(counts):
        for number in (place[key] - 1, place[key] + 1):
            if 0 <= number < count:
                yield (*place[:key], number, *place[key + 1 :])


def best(known: dict[Place, float]) -> Place:
    """The place with the lowest cost; of equal ones the one with the smallest values."""
    return min(known, key=lambda place: (known[place], place))
