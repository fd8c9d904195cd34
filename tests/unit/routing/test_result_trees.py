"""Trees of results: along shortest paths where there is room, around narrow links elsewhere."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from p4fabric.base.errors import UserError

from testbed.routing.network import Host, Link, Network, PlanJob, Switch
from testbed.routing.planners import PLANNERS, make_plan
from testbed.routing.result_trees import widest_tree
from tests.support.plan_networks import GBIT, both_ways, example, small_networks

CHECKS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def between_switches(plan, job=0):
    return [
        ends for ends in plan.jobs[job].results.links if all(name in plan.switches for name in ends)
    ]


def test_results_of_the_worked_example_take_shortest_paths() -> None:
    for planner in ("none", "nearest", "grid-links"):
        plan = make_plan(*example(), planner)
        assert sorted(between_switches(plan)) == [("S3", "S1"), ("S3", "S2")]
        assert plan.jobs[0].results.room_bps == 3 * GBIT
        assert plan.links["S3", "S1"].results_bps == plan.rate_bps


def test_results_go_around_a_narrow_link() -> None:
    """Over L3 of 1 nobody can have results at more than 1; around S1 there is room for 3."""
    plan = make_plan(*example(l3=1), "grid-links")
    assert plan.rate_bps > GBIT
    assert between_switches(plan) == [("S3", "S1"), ("S1", "S2")]
    assert plan.jobs[0].results.room_bps == 3 * GBIT


def test_a_plan_says_what_results_lack() -> None:
    """The only way to S2 is narrow in the direction of results, and only there."""
    network, jobs = example(l2=None)
    narrow = replace(
        network,
        links=tuple(
            replace(link, capacity_bps=GBIT) if link.ends == ("S3", "S2") else link
            for link in network.links
        ),
    )
    plan = make_plan(narrow, jobs, "grid-links", results="ignored")
    assert plan.rate_bps == Fraction(9, 4) * GBIT  # gradients have what they had
    assert plan.jobs[0].results.room_bps == plan.links["S3", "S2"].results_bps == GBIT
    for planner in PLANNERS:
        counted = make_plan(narrow, jobs, planner)
        assert counted.rate_bps <= GBIT <= counted.jobs[0].results.room_bps


def test_two_jobs_do_not_share_a_way_that_has_no_room_for_both() -> None:
    """Two jobs of one worker each at 6, from s to t and back over links of 9: the second job's
    results go around."""
    links = [("a", "s", 6), ("b", "s", 6), ("p", "t", 6), ("q", "t", 6)]
    ways = [("s", "t", 20), ("s", "u", 20), ("u", "t", 20)]
    network = Network(
        tuple(Switch(name) for name in "stu"),
        tuple(Host(name) for name in "abpq"),
        tuple(
            Link(each.source, each.target, 9)
            if {each.source, each.target} <= set("stu") and each.source > each.target
            else each
            for each in both_ways([*links, *ways])
        ),
    )
    plan = make_plan(network, (PlanJob("one", ("a",), "p"), PlanJob("two", ("b",), "q")), "none")
    assert plan.rate_bps == 6
    assert between_switches(plan, 0) == [("t", "s")]
    assert between_switches(plan, 1) == [("t", "u"), ("u", "s")]


def test_no_way_back() -> None:
    """In a network of one-way links gradients can be planned for; results have no room."""
    network, jobs = example()
    one_way = replace(
        network, links=tuple(each for each in network.links if each.ends != ("PS", "S3"))
    )
    plan = make_plan(one_way, jobs, "grid-links", results="ignored")
    assert plan.jobs[0].results.links == () and plan.jobs[0].results.room_bps == 0
    for planner in PLANNERS:
        with pytest.raises(UserError, match="results have no way from its parameter server PS"):
            make_plan(one_way, jobs, planner)


@settings(max_examples=60, **CHECKS)
@given(small_networks())
def test_no_tree_is_wider(given_network) -> None:
    """Against the simplest way to find out how wide a tree can be: take links away, narrowest
    first, as long as everybody is reached."""
    network, jobs = given_network
    left = {link.ends: Fraction(link.capacity_bps) for link in network.links}
    for job in jobs:
        targets = (*job.workers, *network.aggregating)
        tree = widest_tree(network, job.ps, targets, left)
        widths = [width for width in sorted(set(left.values())) if reaches(left, job.ps, width)]
        best = max(width for width in widths if reaches(left, job.ps, width) >= set(targets))
        assert min(left[ends] for ends in tree) >= best
        assert {target for _, target in tree} >= set(targets)
        assert len({target for _, target in tree}) == len(tree)


def reaches(left, root, width):
    """Everything that can be reached over links at least so wide; hosts do not forward."""
    found, more = {root}, [root]
    while more:
        node = more.pop()
        if node != root and node[0] in "wp":
            continue
        for (source, target), room in left.items():
            if source == node and target not in found and room >= width:
                found.add(target)
                more.append(target)
    return found


@pytest.mark.parametrize("enough", [Fraction(2), Fraction(3)])
def test_a_sufficient_tree_is_not_widened(enough) -> None:
    """The direct way is 3 wide, the way around 9."""
    network, jobs = example(l1=9, l2=9, l3=3)
    left = {link.ends: Fraction(link.capacity_bps, GBIT) for link in network.links}
    assert ("S3", "S2") in widest_tree(network, jobs[0].ps, ("W5",), left, enough)
    left["S1", "W5"] = left["S2", "W5"] = Fraction(9)
    assert ("S3", "S2") not in widest_tree(network, jobs[0].ps, ("W5",), left, enough + 2)
