"""Through which ports the packets of a job come."""

from __future__ import annotations

import pytest

from testbed.derived.job_ports import ports_of_job
from testbed.derived.plan_entries import plan_of
from testbed.derived.rerouting import Rerouting
from testbed.experiment import load_text
from testbed.experiment.link_faults import link_changes
from tests.support.link_faults import text

FAILS = "{at: 1 ms, fault: link_down, between: [s1, s3], for: 10 ms}"


def named(experiment, number: int) -> dict[str, set[str]]:
    """The neighbours from which a job's packets come, by switch."""
    topology = experiment.topology_object()
    return {
        switch: {
            topology.ports(switch)[port][0] for port in ports if port in topology.ports(switch)
        }
        for switch, ports in ports_of_job(experiment, number).items()
    }


@pytest.mark.parametrize("system", ["esa", "atp", "ps"])
def test_a_job_comes_through_its_hosts_ports_and_over_the_links_that_it_uses(system):
    experiment = load_text(text(system))
    assert named(experiment, 0) == {
        "s1": {"h1", "h2", "s3"},
        "s2": {"h5", "h6", "h7", "s3"},
        "s3": {"s1", "s2"},
    }
    assert named(experiment, 1) == {
        "s1": {"h3", "h4", "s3"},
        "s2": {"h8", "s3"},
        "s3": {"s1", "s2"},
    }


def test_a_job_in_one_rack_comes_over_no_link_of_switches():
    near = text("switchml").replace("[h1, h2, h5, h6]", "[h1, h2, h3, h4]")
    near = near.replace("[h3, h8]", "[h5, h6]")
    experiment = load_text(near)
    assert named(experiment, 0) == {"s1": {"h1", "h2", "h3", "h4"}}
    assert named(experiment, 1) == {"s2": {"h5", "h6"}}


@pytest.mark.parametrize("system", ["grid", "grid-two-level", "grid-atp"])
def test_the_ways_of_a_plan_are_among_them(system):
    experiment = load_text(text(system))
    found = named(experiment, 0)
    for worker in plan_of(experiment).jobs[0].workers:
        for each in worker.assignments:
            for here, there in zip(each.path, each.path[1:], strict=False):
                assert there not in found or here in found[there]


@pytest.mark.parametrize("system", ["esa", "switchml", "grid", "ring"])
def test_other_links_come_in_addition_when_routes_change(system):
    experiment = load_text(text(system, FAILS))
    before = ports_of_job(experiment, 0)
    rerouting = Rerouting(experiment)
    down, up = link_changes(experiment)
    rerouting.change(down)
    view = rerouting.reroute().view
    after = ports_of_job(view, 0)
    assert all(before[switch] <= after[switch] for switch in before)
    assert {"s1", "s2"} <= named(view, 0)["s4"]
    rerouting.change(up)
    again = ports_of_job(rerouting.reroute().view, 0)
    assert all(after[switch] <= again[switch] for switch in after)
