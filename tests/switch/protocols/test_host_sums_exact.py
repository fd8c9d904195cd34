"""Workers that add up without servers, and p4/forward.p4, without a network."""

from __future__ import annotations

import pytest

from tests.support.experiments import setup_of
from tests.support.fabric import MS, Fabric, check_values, lossy, perfect, run_exact
from tests.support.matrix import first_of
from tests.support.switches import start_switches

TEXT = """
name: test
topology: {kind: star, hosts: 12}
system: {name: %(system)s, window: %(window)d%(options)s}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: %(workers)d, iterations: 3, scale: 0.0006}
  - {model: vgg16, workers: 3, iterations: 2, scale: 0.00006, start: 50 us}
"""


SYSTEMS = ("ring", "halving_doubling", "double_tree", "hierarchical", "colocated_ps")


def run(schedule, options="", workers=4, window=32, system="ring"):
    parts = {"options": options, "workers": workers, "window": window, "system": system}
    fabric = run_exact(TEXT, schedule, **parts)
    check_results(fabric)
    return fabric


def check_results(fabric):
    for worker in fabric.workers():
        s = worker.spec
        assert worker.counters()["results"] == s.job.fragments * s.job.iterations


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("workers", first_of([3, 1, 2, 4, 7], 2))
def test_each_fragment_goes_to_everyone_and_back(workers, system):
    fabric = run(perfect, workers=workers, system=system)
    for job, size in ((0, workers), (1, 3)):
        members = [worker for worker in fabric.workers() if worker.spec.job.number == job]
        s = members[0].spec
        sent = [worker.counters()["gradient_packets"] for worker in members]
        steps = 2 * (size - 1)
        assert sum(sent) == steps * s.job.fragments * s.job.iterations
        # Every worker has its W-th part of every tensor's fragments, within one fragment each way.
        if system == "ring":
            assert max(sent) - min(sent) <= 2 * s.job.iterations
        assert sum(worker.counters()["retransmissions"] for worker in members) == 0


@pytest.mark.parametrize(
    "schedule, share",
    [(perfect, 0.25), (lossy(2, loss=0.02, duplicate=0.02, reorder=0.05), 0.75)],
    ids=["perfect", "lossy"],
)
def test_a_member_holds_the_sums_that_are_under_way(schedule, share):
    """Not those of whole iterations: of a large model that would be its gradients over again. After
    losses some wait for their turn."""
    fabric = run(schedule, window=16)
    for worker in fabric.workers():
        state = worker.machine.protocol.state
        assert state.free == state.held, "all have been let go"
        assert 0 < state.held < share * worker.spec.job.fragments


def test_acknowledgements_are_few():
    fabric = run(perfect, window=64)
    data = sum(worker.counters()["gradient_packets"] for worker in fabric.workers())
    # Each frame is on two wires.
    assert fabric.frames / 2 - data < data / 4


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", first_of(range(8), 2))
def test_faults_on_every_wire(seed, system):
    faults = lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05)
    fabric = run(faults, workers=2 + seed % 4, system=system)
    assert sum(worker.counters()["retransmissions"] for worker in fabric.workers()) > 0
    assert sum(worker.counters()["duplicate_results"] for worker in fabric.workers()) > 0


@pytest.mark.parametrize("window", first_of([1, 3, 1000], 1))
def test_any_window(window):
    run(lossy(3, loss=0.01, reorder=0.02), window=window)


def test_fifo_and_fixed_timeout():
    run(lossy(4, loss=0.02), options=", order: fifo, timeout: 20 ms")


def test_a_member_that_pauses_delays_but_changes_nothing():
    parts = {"options": "", "workers": 4, "window": 32, "system": "double_tree"}
    setup = setup_of(TEXT % parts)
    fabric = Fabric(setup, start_switches(setup), lossy(5, duplicate=0.02))
    fabric.hosts["h2"].paused_until = 700 * MS
    fabric.run()
    assert fabric.now > 700 * MS
    check_values(fabric)
    check_results(fabric)


def test_recorded_gradients_are_exact():
    text = """
name: test
topology: {kind: star, hosts: 4}
system: ring
jobs:
  - {model: smallcnn, workers: 4, iterations: 3}
"""
    fabric = run_exact(text, lossy(3, loss=0.01))
    assert fabric.workers()[0].machine.protocol.worker.recorded.any()
