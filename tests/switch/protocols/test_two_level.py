"""Jobs that span switches: aggregated in the workers' racks, then at the servers' switch."""

from __future__ import annotations

import pytest

from testbed import dataplane
from tests.support.fabric import lossy, perfect, run_exact

TEXT = """
name: test
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
system: {name: %(system)s, window: 32}
memory: {aggregators: %(aggregators)d}
values_per_packet: 16
jobs:
  - model: resnet18
    workers: 4
    iterations: 2
    scale: 0.0005
    placement: {workers: [h1, h2, h5, h6], ps: h9}
  - model: vgg16
    workers: 4
    iterations: 2
    scale: 0.00005
    placement: {workers: [h3, h4, h7, h8], ps: h10}
"""


def run(system, schedule, aggregators):
    return run_exact(TEXT, schedule, system=system, aggregators=aggregators)


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_each_level_aggregates(system):
    fabric = run(system, perfect, 8192)
    fragments = {s.spec.job.number: s.spec.job.fragments * 2 for s in fabric.servers()}
    for name, switch in fabric.switches.items():
        rows = dataplane.counters(fabric.setup.platform, switch)
        completions = {job: value for job, event, value in rows if event == "completions"}
        for job, count in fragments.items():
            assert 0.98 * count <= completions[job] <= count, (name, job)
    for server in fabric.servers():
        counted = server.counters()
        assert counted["ps_packets"] < 1.1 * counted["results"]


@pytest.mark.parametrize("system", ["esa", "atp"])
@pytest.mark.parametrize("aggregators", [24, 512])
def test_exact_at_one_percent_loss(system, aggregators):
    faults = lossy(5, loss=0.01, duplicate=0.01, reorder=0.01)
    fabric = run(system, faults, aggregators)
    assert sum(worker.counters()["retransmissions"] for worker in fabric.workers()) > 50
