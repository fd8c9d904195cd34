"""A parameter server holds the results of some windows: who has lost an older one gets it anew."""

from __future__ import annotations

import pytest

from testbed.protocols import server_store
from tests.support.fabric import lossy, perfect, run_exact, total
from tests.support.matrix import first_of

TEXT = """
name: test
topology: {kind: star, hosts: 10}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s, window: 8}
%(memory)s
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 3, scale: 0.0006}
  - {model: vgg16, workers: 3, iterations: 3, scale: 0.00006, start: 50 us}
"""
SYSTEMS = ["esa", "ps", "atp", "grid", "esa, window_rule: positions", "ps, servers: 2"]
FAULTS = {"loss": 0.05, "duplicate": 0.02, "reorder": 0.05}


@pytest.fixture
def few(monkeypatch):
    """Less than a window of results is kept."""
    monkeypatch.setattr(server_store, "KEPT_WINDOWS", 0)
    monkeypatch.setattr(server_store, "KEPT_ROWS", 3)


def run(system, schedule, text=TEXT):
    memory = "memory: {aggregators: 24}" if not system.startswith("ps") else ""
    hosts = text.replace("hosts: 10", "hosts: 12")
    return run_exact(hosts, schedule, system=system, memory=memory)


def stores(fabric):
    """The servers' stores, and the rows of their jobs."""
    for host in fabric.servers():
        protocol = host.machine.protocol
        store = getattr(protocol, "adder", protocol)
        yield store, host.spec.job.fragments * host.spec.job.iterations


@pytest.mark.parametrize("seed", first_of(range(6), 1))
@pytest.mark.parametrize("system", SYSTEMS)
def test_results_that_are_no_longer_kept_are_made_anew(few, system, seed):
    fabric = run(system, lossy(seed, **FAULTS))
    servers = 2 if "servers: 2" in system else 1
    found = list(stores(fabric))
    assert (
        sum(int(store.state.done) for store, _ in found) > sum(rows for _, rows in found) / servers
    )
    assert total(fabric.workers(), "answered_asks") > 0


@pytest.mark.parametrize("system", SYSTEMS[:4])
def test_a_server_holds_some_windows(few, system):
    for store, rows in stores(run(system, perfect)):
        assert 3 < store.state.slots < rows / 8
