"""The feasibility checker: it passes what planners make, and finds each way to spoil a plan."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.routing.assemble import Leg, assemble
from testbed.routing.plan import Range, Results, from_json
from testbed.routing.plan_check import violations
from testbed.routing.planners import PLANNERS, make_plan
from tests.support.plan_networks import example, small_networks

FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(small_networks(), st.sampled_from(sorted(PLANNERS)))
def test_every_plan_passes_also_after_json(given_network, planner) -> None:
    network, jobs = given_network
    plan = make_plan(network, jobs, planner)
    assert violations(network, jobs, plan) == []
    assert violations(network, jobs, from_json(plan.to_json())) == []
    assert plan.bound_bps is None or plan.rate_bps <= plan.bound_bps * (1 + Fraction(1, 10**6))
    assert plan.bottlenecks


def spoil(plan, **of_job):
    return replace(plan, jobs=(replace(plan.jobs[0], **of_job),))


def spoil_worker(plan, number, **change):
    workers = list(plan.jobs[0].workers)
    workers[number] = replace(workers[number], **change)
    return spoil(plan, workers=tuple(workers))


def spoil_assignment(plan, number, **change):
    (assignment,) = plan.jobs[0].workers[number].assignments
    return spoil_worker(plan, number, assignments=(replace(assignment, **change),))


def spoil_group(plan, number, **change):
    groups = list(plan.jobs[0].groups)
    groups[number] = replace(groups[number], **change)
    return spoil(plan, groups=tuple(groups))


def spoil_results(plan, change):
    results = plan.jobs[0].results
    return spoil(plan, results=replace(results, links=change(results.links)))


# To S2 and S1 over links that carry aggregates, the other way around.
DOWN_AND_UP = Results((("PS", "S3"), ("S3", "S2"), ("S1", "S2")), Fraction(10**9))


SPOILT = {
    "no link": lambda plan: spoil_assignment(plan, 4, path=("W5", "S3", "S2")),
    "does not lead": lambda plan: spoil_assignment(plan, 4, path=("W5", "S2", "S3")),
    "loop": lambda plan: spoil_assignment(plan, 4, path=("W5", "S2", "S1", "S2")),
    "does not forward": lambda plan: spoil_assignment(plan, 4, path=("W5", "S2", "W6", "S2")),
    "ranges do not cover": lambda plan: spoil_assignment(
        plan, 0, range=Range(Fraction(0), Fraction(1, 2))
    ),
    "not its share": lambda plan: spoil_worker(plan, 0, rate_bps=Fraction(1)),
    "no group 9": lambda plan: spoil_assignment(plan, 0, group=9),
    "does not go to the PS": lambda plan: spoil_assignment(plan, 0, group=0),
    "who send to it": lambda plan: spoil_group(plan, 0, workers=(0, 1)),
    "two ways": lambda plan: spoil_assignment(plan, 3, tag=plan.jobs[0].groups[0].tag),
    "fastest worker": lambda plan: spoil_group(plan, 0, rate_bps=Fraction(1)),
    "takes no aggregator": lambda plan: spoil_group(plan, 0, slots=0),
    "slowest worker": lambda plan: spoil(plan, rate_bps=Fraction(7)),
    "slowest job": lambda plan: replace(plan, rate_bps=Fraction(7)),
    "above its bound": lambda plan: replace(plan, bound_bps=Fraction(7)),
    "not what the plan says": lambda plan: replace(plan, links={}),
    "not those of": lambda plan: replace(plan, jobs=()),
    "does not continue a tree": lambda plan: spoil_results(plan, lambda links: links[1:]),
    "they do not reach": lambda plan: spoil_results(plan, lambda links: links[:-1]),
    "there is no tree for them": lambda plan: spoil_results(plan, lambda links: ()),
    "no link S2 -> PS": lambda plan: spoil_results(plan, lambda links: (*links, ("S2", "PS"))),
    "its results are not": lambda plan: spoil(plan, results=Results(plan.jobs[0].results.links, 0)),
    "with results": lambda plan: spoil(plan, results=DOWN_AND_UP),
    "does not hold with results": lambda plan: spoil(
        plan, results=replace(plan.jobs[0].results, room_bps=Fraction(10**9))
    ),
    "other hosts": lambda plan: spoil(plan, ps="W1"),
}


@pytest.mark.parametrize("finding", SPOILT)
def test_a_spoilt_plan_is_found(finding) -> None:
    network, jobs = example()
    plan = make_plan(network, jobs, "grid-links")
    found = violations(network, jobs, SPOILT[finding](plan))
    assert any(finding in each for each in found), found


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"l1": 2}, "link S1 -> S3"),
        ({"l2": None}, "no link S1 -> S2"),
        ({"capacities": (8, 9, 9)}, "switch S1"),
        ({"capacities": (9, None, 9)}, "S2 does not aggregate"),
        ({"ps": 8}, "PS"),
    ],
)
def test_a_plan_for_another_network_is_found(change, finding) -> None:
    _, jobs = example()
    plan = make_plan(*example(), "grid-links")
    found = violations(example(**change)[0], jobs, plan)
    assert any(finding in each for each in found), found


def test_too_few_slots_are_found() -> None:
    network, jobs = example()
    plan = make_plan(network, jobs, "grid-links")
    one = replace(network, switches=tuple(replace(each, slots=0) for each in network.switches))
    assert [each for each in violations(one, jobs, plan) if "slots" in each] == [
        f"switch S{i}: 1 slots of 0" for i in (1, 2, 3)
    ]


def test_two_ways_of_a_worker_to_one_node() -> None:
    """Halves of W1's fragments reach S3 over L1 and around the corner; there they meet W7's, which
    all come over one link: two groups, since W1's packets need two tags."""
    network, (job,) = example()
    job = replace(job, workers=("W1", "W7"))
    half, end = Fraction(1, 2), ("S3", "PS")
    choice = [
        [
            (
                Leg(Range(Fraction(0), half), ("W1", "S1", "S3"), end),
                Leg(Range(half, Fraction(1)), ("W1", "S1", "S2", "S3"), end),
            ),
            (Leg(Range(), ("W7", "S3"), end),),
        ]
    ]
    plan = assemble(network, (job,), choice, "by hand", None)
    assert violations(network, (job,), plan) == []
    assert [group.workers for group in plan.jobs[0].groups] == [(0, 1), (0, 1)]
    tags = [each.tag for each in plan.jobs[0].workers[0].assignments]
    assert len(set(tags)) == 2 and plan.rate_bps == 3 * 10**9
    assert plan.links["S1", "S3"].load_bps == plan.links["S1", "S2"].load_bps == 1.5e9
