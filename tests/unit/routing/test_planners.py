"""Plans against each other, against their bounds, and for large networks."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4fabric.base.errors import UserError

from testbed.experiment import load
from testbed.routing.network import Host, Network, PlanJob, Switch
from testbed.routing.plan_check import violations
from testbed.routing.planners import PLANNERS, Planner, make_plan, whole
from testbed.sweeps.planner_scenarios import SCENARIOS, Scenario, draw
from tests.support.plan_networks import both_ways, example, small_networks

ALL = ("none", "nearest", "nearest-anywhere", "grid", "grid-links", "two-level")
CHECKS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.slow
@settings(max_examples=8, **CHECKS)
@given(small_networks())
def test_order_of_planners(given_network) -> None:
    """A planner with more freedom does no worse, and nothing exceeds its bound."""
    network, jobs = given_network
    plans = {name: make_plan(network, jobs, name) for name in ALL}
    rate = {name: plan.rate_bps for name, plan in plans.items()}
    assert rate["none"] <= rate["grid-links"]
    assert rate["grid"] <= rate["grid-links"]
    assert rate["grid-links"] <= rate["two-level"]
    assert rate["two-level"] <= plans["two-level"].bound_bps
    assert rate["grid-links"] <= plans["grid-links"].bound_bps * (1 + Fraction(1, 10**6))


@settings(max_examples=12, **CHECKS)
@given(small_networks(), st.sampled_from(ALL))
def test_rates_are_max_min_fair(given_network, planner) -> None:
    """Every worker uses something full where nobody whose rate counts has more than it: raising it
    would take from one that has no more."""
    network, jobs = given_network
    plan = make_plan(network, jobs, planner)
    full = {("link", *ends) for ends, load in plan.links.items() if load.full}
    full |= {("switch", name) for name, load in plan.switches.items() if load.full}
    full |= {("PS", name) for name, load in plan.servers.items() if load.full}
    full |= {
        ("link", *ends)
        for ends, load in plan.links.items()
        if load.load_bps + load.results_bps == load.capacity_bps
    }
    # For each resource the sets of (job, worker) of which the fastest counts.
    sets: dict[tuple, list[list[tuple[str, int]]]] = {}

    def use(path, last, who):
        for ends in zip(path, path[1:], strict=False):
            sets.setdefault(("link", *ends), []).append(who)
        sets.setdefault(last, []).append(who)

    rates = {}
    for job in plan.jobs:
        for worker in job.workers:
            me = (job.name, worker.number)
            rates[me] = worker.rate_bps
            for each in worker.assignments:
                use(each.path, ("switch" if each.group else "PS", each.node), [me])
        for group in job.groups:
            use(group.path, ("PS", job.ps), [(job.name, worker) for worker in group.workers])
    # Results come at the rate of a job's slowest worker.
    back = {
        (job.name, worker.number): {("link", *ends) for ends in job.results.links}
        for job in plan.jobs
        for worker in job.workers
        if worker.rate_bps == job.rate_bps
    }
    for me, rate in rates.items():
        assert any(
            resource in full
            and any(me in who and rate == max(rates[other] for other in who) for who in whos)
            for resource, whos in sets.items()
        ) or full & back.get(me, set()), me


LITTLE = Scenario("little", "", "leaf_spine", {"leaves": 5, "spines": 3, "hosts": 4})


@pytest.mark.parametrize(
    ("scenario", "workers"),
    [
        (LITTLE, 12),
        pytest.param(SCENARIOS["leaf-spine"], 60, marks=pytest.mark.slow),
        pytest.param(SCENARIOS["fat-tree"], 60, marks=pytest.mark.slow),
    ],
)
def test_plans_for_data_centre_networks(scenario, workers, monkeypatch) -> None:
    monkeypatch.setattr(whole, "SMALL", 0)  # by search
    network, jobs = draw(scenario, workers, seed=3)
    plans = {name: make_plan(network, jobs, name) for name in ("none", "nearest", "grid-links")}
    for plan in plans.values():
        assert violations(network, jobs, plan) == []
    assert plans["grid-links"].rate_bps > 2 * plans["nearest"].rate_bps
    assert plans["nearest"].rate_bps >= plans["none"].rate_bps


def test_a_worker_goes_out_of_its_way_to_an_aggregating_switch() -> None:
    """Two racks and the PS's below a spine that aggregates for neither; beside the first rack is a
    switch that does. Its workers are one stream there, and those of the other rack too."""
    links = [("w1", "a"), ("w2", "a"), ("w3", "b"), ("w4", "b"), ("ps", "c")]
    links += [("a", "s"), ("b", "s"), ("c", "s"), ("a", "x")]
    network = Network(
        switches=tuple(Switch(name, name == "x") for name in "abcsx"),
        hosts=tuple(Host(name) for name in ("w1", "w2", "w3", "w4", "ps")),
        links=both_ways((one, other, 12) for one, other in links),
    )
    jobs = (PlanJob("job", ("w1", "w2", "w3", "w4"), "ps"),)
    straight, anywhere = (
        make_plan(network, jobs, name) for name in ("nearest", "nearest-anywhere")
    )
    assert straight.rate_bps == 3 and not straight.jobs[0].groups  # four streams on the PS's link
    (group,) = anywhere.jobs[0].groups
    assert group.node == "x" and len(group.workers) == 4
    # Four gradients and the result share the link from a to x.
    assert anywhere.rate_bps == Fraction(12, 5)


def test_what_aggregates_nowhere_goes_straight() -> None:
    network, jobs = draw(LITTLE, 4, seed=1, programmable=0)
    plans = [make_plan(network, jobs, name) for name in ("nearest", "nearest-anywhere")]
    assert plans[0].rate_bps == plans[1].rate_bps and not plans[1].jobs[0].groups


def test_a_planner_with_other_arguments_is_one_clear_error(monkeypatch) -> None:
    entry = Planner("old", "old", "#000000", "x", lambda network, jobs, seed, paths: None)
    monkeypatch.setitem(PLANNERS, "old", entry)
    with pytest.raises(UserError, match="the planner old cannot be called with network, jobs and"):
        make_plan(*example(), "old")


def test_equal_seeds_give_equal_plans() -> None:
    network, jobs = draw(LITTLE, workers=10, seed=1)
    first, again = (make_plan(network, jobs, "grid", seed=5) for _ in range(2))
    assert first == again and 5 <= first.seed < 25


def test_a_planner_that_is_gone_names_others(tmp_path) -> None:
    with pytest.raises(UserError, match="'striped'.*it is gone; nearest splits fragments"):
        make_plan(*example(), "striped")
    path = tmp_path / "grid.yaml"
    path.write_text("name: g\nsystem: {name: grid, planner: striped}\n")
    with pytest.raises(UserError, match="'striped'.*it is gone; nearest splits fragments"):
        load(path)
