"""Plans in which switches add the sums of other switches."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from testbed.routing.plan import Plan, from_json
from testbed.routing.plan_check import violations
from testbed.routing.planners import make_plan
from testbed.setup.plan_entries import (
    aggregating_switches,
    groups_by_tag,
    next_nodes_by_tag,
    server_stripes,
)
from testbed.setup.plan_input import of_file
from tests.support.known_optima import INPUTS

LEAVES = ("s1", "s2", "s3")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(network, jobs, plan) of three leaves below a switch that adds their sums."""
    path = tmp_path_factory.mktemp("graph") / "network.txt"
    path.write_text(INPUTS["leaves below a switch that adds"][0])
    network, jobs = of_file(path)
    return network, jobs, make_plan(network, jobs, "two-level")


def test_a_switch_adds_the_sums_of_others(made):
    _, _, plan = made
    (job,) = plan.jobs
    (total,) = (group for group in job.groups if not group.parent)
    below = [group for group in job.groups if group.parent]
    assert [group.node for group in below] == list(LEAVES)
    assert {group.parent for group in below} == {total.number}
    assert (total.node, total.path, total.workers) == ("s0", ("s0", "ps"), tuple(range(9)))
    assert [group.path for group in below] == [(leaf, "s0") for leaf in LEAVES]
    assert plan.switches["s0"].load_bps == 9 * 10**9  # three sums, not nine gradients
    assert plan.servers["ps"].load_bps == 3 * 10**9
    assert set(job.results.links) >= {("s0", leaf) for leaf in LEAVES}


def test_switches_and_server_know_the_sums_of_sums(made):
    _, _, plan = made
    (job,) = plan.jobs
    (total,) = (group for group in job.groups if not group.parent)
    below = {group.tag: group for group in job.groups if group.parent}
    assert dict(groups_by_tag(job, "s0")) == dict.fromkeys(below, total)
    onwards = next_nodes_by_tag(job)
    for tag, group in below.items():
        assert onwards[group.node, tag] == "s0"
        assert onwards["s0", tag] == "ps"  # a part of a sum is not added there
    assert server_stripes(job, 100, aggregating_switches(job)).reached == ((1, 1, 1, 1),)


def test_a_plan_on_two_levels_survives_json(made):
    network, jobs, plan = made
    again = from_json(plan.to_json())
    assert [group.parent for group in again.jobs[0].groups] == [
        group.parent for group in plan.jobs[0].groups
    ]
    assert violations(network, jobs, again) == []


def spoiled(plan: Plan, node: str, **change: object) -> Plan:
    groups = [
        replace(each, **change) if each.node == node else each for each in plan.jobs[0].groups
    ]
    return replace(plan, jobs=(replace(plan.jobs[0], groups=tuple(groups)),))


@pytest.mark.parametrize(
    ("node", "change", "expected"),
    [
        ("s1", {"parent": 99}, "its aggregate joins no group that sends to the PS"),
        ("s1", {"parent": 0, "path": ("s1", "s0", "ps")}, "its workers are not those who send"),
        ("s1", {"path": ("s1", "s0", "ps")}, "does not lead from s1 to s0"),
        ("s1", {"path": ("s1", "s2", "s0")}, "there is no link s1 -> s2"),
        ("s0", {"workers": tuple(range(8))}, "its workers are not those who send"),
        ("s0", {"rate_bps": Fraction(10**9)}, "its rate is not that of its fastest worker"),
    ],
)
def test_the_checker_finds_what_is_wrong(made, node, change, expected):
    network, jobs, plan = made
    assert any(
        expected in each for each in violations(network, jobs, spoiled(plan, node, **change))
    )


def test_a_capacity_that_sums_exceed_keeps_them_apart(made):
    """With C = 6 at s0, three sums of 2 fit, or two of 3 that leave the third leaf's to the PS: no.
    So the rate is 2."""
    network, jobs, _ = made
    switches = tuple(
        replace(each, aggregation_bps=6 * 10**9) if each.name == "s0" else each
        for each in network.switches
    )
    narrow = replace(network, switches=switches)
    assert make_plan(narrow, jobs, "two-level").rate_bps == 2 * 10**9
