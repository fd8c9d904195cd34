"""The search among values of which each costs a run."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from testbed.sweeps import trials
from testbed.sweeps.best_values import FEW, best, search


@st.composite
def valleys(draw):
    """(values of a key, costs by the value of the other one): costs fall, may stay, and rise."""
    count = draw(st.integers(1, 24))
    lines = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))
    floors = [draw(st.integers(0, 5)) for _ in lines]
    ends = [min(count - 1, low + draw(st.integers(0, 8))) for low in lines]

    def cost(place):
        number, line = place
        if not lines[line] - 8 <= number:
            return math.inf  # such values fail
        beyond = max(lines[line] - number, number - ends[line], 0)
        return 10.0 * floors[line] + beyond

    return count, len(lines), cost


@given(valleys())
def test_the_best_is_found_and_nothing_is_tried_twice(valley):
    count, others, cost = valley
    asked = []

    def measure(places):
        asked.extend(places)
        return [cost(place) for place in places]

    known = search((count, others), measure)
    every = {(a, b): cost((a, b)) for a in range(count) for b in range(others)}
    assert known[best(known)] == min(every.values())
    assert len(asked) == len({*asked}) == len(known) and known.items() <= every.items()
    if max(count, others) <= FEW:
        assert known == every
    elif count > 2 * FEW and math.inf not in known.values():
        assert len(known) < 0.8 * len(every)


@given(st.lists(st.integers(1000, 1030), min_size=1, max_size=FEW))
def test_of_values_that_are_alike_the_smallest_is_taken(costs):
    """Of the cheapest ones, which more seeds have tried, within half a percent of the best."""
    made = object.__new__(trials._Trials)
    made._seeds, made._values, made.trials = [1, 2, 3], {"window": [*range(len(costs))]}, []
    made._run = lambda asked: [costs[place[0]] for place, _ in asked]
    cheapest = sorted(range(len(costs)), key=lambda each: costs[each])[: trials.MOST_CLOSE]
    alike = [each for each in cheapest if costs[each] <= 1.005 * min(costs)]
    assert made.best() == {"window": min(alike)}
