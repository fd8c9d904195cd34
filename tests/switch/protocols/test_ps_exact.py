"""The plain parameter server's machines and p4/forward.p4 together, without a network."""

from __future__ import annotations

import pytest

from testbed.protocols import sizes, wire
from tests.support.experiments import setup_of
from tests.support.fabric import MS, Fabric, lossy, perfect, run_exact
from tests.support.matrix import first_of
from tests.support.switches import start_switches

TEXT = """
name: test
topology: {kind: star, hosts: 14}
%(links)s
system: {name: ps, window: 32%(options)s}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0004}
  - {model: vgg16, workers: 3, iterations: 2, scale: 0.00008, start: 50 us}
"""


def run(schedule, options="", links=""):
    return run_exact(TEXT, schedule, until_ns=900_000 * MS, options=options, links=links)


def test_every_fragment_goes_once_to_the_server_and_back():
    fabric = run(perfect)
    for server in fabric.servers():
        s, counted = server.spec, server.counters()
        fragments = s.job.fragments * s.job.iterations
        assert counted["ps_packets"] == fragments * s.job.workers
        assert counted["results"] == fragments
        assert counted["reminders"] == counted["asks"] == counted["duplicate_results"] == 0
    for worker in fabric.workers():
        counted = worker.counters()
        assert counted["retransmissions"] == counted["duplicate_results"] == 0


@pytest.mark.parametrize("servers", [2, 3])
def test_fragments_are_spread_over_servers(servers):
    options = f", servers: {servers}"
    fabric = run(perfect, options)
    seen = {}
    for server in fabric.servers():
        s = server.spec
        share = len(range(s.number, s.job.fragments, servers)) * s.job.iterations
        assert server.counters()["results"] == share
        seen.setdefault(s.job.number, []).append(s.number)
    assert seen == {0: list(range(servers)), 1: list(range(servers))}


@pytest.mark.parametrize("seed", first_of(range(6), 2))
def test_faults_on_every_wire(seed):
    options = ", servers: 2" if seed % 2 else ""
    fabric = run(lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05), options)
    assert sum(worker.counters()["retransmissions"] for worker in fabric.workers()) > 0


def test_a_late_start_and_fifo_order():
    run(lossy(9, loss=0.01), ", order: fifo, timeout: 3 ms")


def test_results_leave_a_server_at_its_links_rate():
    """The server's own queue holds them back: 4 results per fragment, one every 131.2 us."""
    leaving = []

    def watch(now, node, frame):
        if node == fabric_server and wire_kind(frame) == wire.RESULT:
            leaving.append(now)
        return (0,)

    setup = setup_of(TEXT % {"options": "", "links": "links: {bandwidth: 10 Mbit/s}"})
    fabric = Fabric(setup, start_switches(setup), watch)
    fabric_server = fabric.servers()[0].spec.host
    fabric.run(200_000 * MS)
    packet_ns = 8 * sizes.frame_bytes(16, 32) * 100
    burst = fabric.servers()[0].spec.job.burst_ns
    for first, last in zip(leaving, leaving[100:], strict=False):
        assert last - first >= 100 * packet_ns - burst - packet_ns


def wire_kind(frame: bytes) -> int:
    return frame[sizes.FRAME_OVERHEAD] & 0xF
