"""A plan as data: ranges of fragments, and the JSON form there and back."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base.errors import UserError

from testbed.routing.plan import (
    Assignment,
    Group,
    JobPlan,
    LinkLoad,
    Load,
    Plan,
    Range,
    Results,
    SwitchLoad,
    WorkerPlan,
    from_json,
)


def test_a_range_of_the_worked_example() -> None:
    assert Range(Fraction(0), Fraction(12, 13)).fragments(1300) == range(0, 1200)
    assert Range(Fraction(12, 13), Fraction(1)).fragments(1300) == range(1200, 1300)


@given(st.lists(st.fractions(0, 1, max_denominator=99), max_size=4), st.integers(0, 300))
def test_ranges_that_cover_everything_take_each_fragment_once(cuts, count) -> None:
    ends = sorted({Fraction(0), *cuts, Fraction(1)})
    parts = [Range(a, b).fragments(count) for a, b in zip(ends, ends[1:], strict=False)]
    assert [fragment for part in parts for fragment in part] == list(range(count))


def small_plan() -> Plan:
    whole = Range()
    worker = WorkerPlan(
        0, "w", Fraction(10, 4), (Assignment(whole, 1, 1, "s", ("w", "s"), Fraction(10, 4)),)
    )
    group = Group(1, "s", 1, whole, (0,), ("s", "p"), Fraction(10, 4), 40, 2)
    back = Results((("p", "s"), ("s", "w")), Fraction(1, 2))
    return Plan(
        planner="nearest",
        seed=None,
        rate_bps=Fraction(10, 4),
        bound_bps=None,
        jobs=(JobPlan("a", "p", Fraction(10, 4), (worker,), (group,), back),),
        links={
            ("w", "s"): LinkLoad(Fraction(10, 4), None),
            ("s", "p"): LinkLoad(Fraction(3), 3, Fraction(1, 2)),
        },
        switches={"s": SwitchLoad(Fraction(9), 9, 2, None)},
        servers={"p": Load(Fraction(1), 3)},
    )


def test_a_plan_survives_json() -> None:
    plan = small_plan()
    text = json.dumps(plan.to_json())
    assert from_json(json.loads(text)) == plan
    assert plan.bottlenecks == ("link s -> p", "switch s")
    assert plan.jobs[0].groups[0].bitmap == 1


@pytest.mark.parametrize("data", [None, [], {}, {"format": "ina-plan/1"}, {"format": "other"}])
def test_other_json_is_refused(data) -> None:
    with pytest.raises(UserError, match="plan"):
        from_json(data)
