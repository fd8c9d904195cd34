"""Through which ports the packets of a job come."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.rerouting import Rerouting
from testbed.setup.routes import planned_topologies
from tests.support.link_faults import text

FAILS = "{at: 1 ms, fault: link_down, between: [s1, s3], for: 10 ms}"


def named(setup, number: int) -> dict[str, set[str]]:
    """The neighbours from which a job's packets come, by switch."""
    topology = setup.platform.topology
    return {
        switch: {
            topology.ports(switch)[port][0] for port in ports if port in topology.ports(switch)
        }
        for switch, ports in setup.jobs[number].group.ports.items()
    }


@pytest.mark.parametrize("system", ["esa", "atp", "ps"])
def test_a_job_comes_through_its_hosts_ports_and_over_the_links_that_it_uses(system):
    setup = set_up(load_text(text(system)))
    assert named(setup, 0) == {
        "s1": {"h1", "h2", "s3"},
        "s2": {"h5", "h6", "h7", "s3"},
        "s3": {"s1", "s2"},
    }
    assert named(setup, 1) == {
        "s1": {"h3", "h4", "s3"},
        "s2": {"h8", "s3"},
        "s3": {"s1", "s2"},
    }


def test_a_job_in_one_rack_comes_over_no_link_of_switches():
    near = text("switchml").replace("[h1, h2, h5, h6]", "[h1, h2, h3, h4]")
    near = near.replace("[h3, h8]", "[h5, h6]")
    setup = set_up(load_text(near))
    assert named(setup, 0) == {"s1": {"h1", "h2", "h3", "h4"}}
    assert named(setup, 1) == {"s2": {"h5", "h6"}}


@pytest.mark.parametrize("system", ["grid", "grid-two-level", "grid-atp"])
def test_the_ways_of_a_plan_are_among_them(system):
    setup = set_up(load_text(text(system)))
    found = named(setup, 0)
    for worker in setup.jobs[0].group.plan.workers:
        for each in worker.assignments:
            for here, there in zip(each.path, each.path[1:], strict=False):
                assert there not in found or here in found[there]
    switches = [
        (parent, child)
        for parent, child in setup.jobs[0].group.plan.results.links
        if child in found
    ]
    assert switches and all(parent in found[child] for parent, child in switches)


@pytest.mark.parametrize("system", ["esa", "switchml", "grid", "ring"])
def test_other_links_come_in_addition_when_routes_change(system):
    setup = set_up(load_text(text(system, FAILS)))
    before = setup.jobs[0].group.ports
    rerouting = Rerouting(setup)
    down, up = setup.link_changes
    rerouting.change(down)
    changed = rerouting.reroute().setup
    after = changed.jobs[0].group.ports
    assert all(before[switch] <= after[switch] for switch in before)
    assert {"s1", "s2"} <= named(changed, 0)["s4"]
    rerouting.change(up)
    again = rerouting.reroute().setup.jobs[0].group.ports
    assert all(after[switch] <= again[switch] for switch in after)


def test_routes_are_computed_for_each_network_that_failures_leave_behind():
    faults = [
        f"{{at: {at} ms, fault: link_down, between: {ends}, for: {lasts} ms, failover: 1 ms}}"
        for at, ends, lasts in ((1, "[s1, s3]", 10), (5, "[s2, s4]", 30), (20, "[s1, s3]", 10))
    ]
    setup = set_up(load_text(text("esa", *faults)))
    topology = setup.platform.topology
    first, second = (
        next(link for neighbour, link, _ in topology.ports(a).values() if neighbour == b)
        for a, b in (("s1", "s3"), ("s2", "s4"))
    )
    found = [each.failed for each in planned_topologies(topology, setup.link_changes)]
    assert found == [set(), {first}, {first, second}, {second}]
