"""What GRID's plan puts into switches: the burst of their meters, and signals after collisions."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from testbed.protocols.sizes import fragments_of
from testbed.schemes import set_up
from testbed.setup.plan_entries import max_lead_packets
from tests.support.grid import text_of
from tests.support.random_graphs import graph_text, planned_experiment


def calls(setup, switch):
    found = []
    setup.platform.scheme.tables(setup, switch, found)
    for job in setup.jobs.values():
        setup.platform.scheme.job_tables(setup.platform, switch, job, found)
    return found


@pytest.mark.parametrize("switch", ["s1", "s2", "s3"])
def test_a_meter_allows_for_the_lead_of_the_workers_whose_sums_it_makes(switch):
    """For each worker 4 frames, those that its shares can be ahead, and what it sends at its rate
    while it is late."""
    setup = set_up(load_text(text_of()))
    platform, (job,) = setup.platform, setup.jobs.values()
    frame, burst = platform.longest_frame_bytes, 1
    first = fragments_of(job.trace.sizes, platform.values)
    for group in job.group.routed_plan.groups:
        if group.node == switch:
            late = group.rate_bps * job.timers.burst_ns // 8 // 10**9
            lead = max_lead_packets(first, group.range)
            burst += len(group.workers) * ((4 + lead) * frame + int(late))
    (meter,) = (call for call in calls(setup, switch) if call[0] == "meter_set")
    assert meter == ("meter_set", "capacity", 0, [(9e9 / 8e6, burst)] * 2)
    assert any(group.node == switch for group in job.group.routed_plan.groups) == (burst > 1)


def test_a_burst_of_the_experiment_is_in_packets():
    text = text_of().replace("capacity: 9 Gbit/s", "capacity: 9 Gbit/s, burst: 7 packets")
    setup = set_up(load_text(text))
    (meter,) = (call for call in calls(setup, "s1") if call[0] == "meter_set")
    assert meter[3][0][1] == 7 * setup.platform.longest_frame_bytes + 1


def test_only_workers_are_told_of_collisions(tmp_path):
    """Nobody would hear it of a subtotal, which a switch has sent."""
    path = tmp_path / "network.txt"
    path.write_text(graph_text(13))
    setup = set_up(planned_experiment(path, "two-level", ", collision: drop"))
    job = next(
        job
        for job in setup.jobs.values()
        if any(group.parent for group in job.group.routed_plan.groups)
    )
    groups = job.group.routed_plan.groups
    parents = {group.parent for group in groups} - {0}
    found = []
    for switch in setup.platform.topology.switches:
        setup.platform.scheme.job_tables(setup.platform, switch, job, found)
    told = {call[3][1]: call[4][2] for call in found if call[:2] == ("table_add", "fan_in")}
    of_workers = {
        each.tag for worker in job.group.routed_plan.workers for each in worker.assignments
    }
    subtotals = {group.tag for group in groups if group.parent}
    assert parents and subtotals
    assert all(signal == (tag not in subtotals) for tag, signal in told.items())
    assert of_workers & set(told)
