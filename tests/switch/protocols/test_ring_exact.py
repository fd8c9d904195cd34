"""The ring's machines and p4/forward.p4 together, without a network."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from testbed.protocols import sizes, wire
from testbed.setup.host_specs import host_specs
from tests.support.experiments import setup_of
from tests.support.fabric import MS, Fabric, check_values, lossy, perfect, run_exact
from tests.support.matrix import first_of
from tests.support.switches import start_switches

TEXT = """
name: test
topology: {kind: star, hosts: 12}
system: {name: ring, window: %(window)d%(options)s}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: %(workers)d, iterations: 3, scale: 0.0006}
  - {model: vgg16, workers: 3, iterations: 2, scale: 0.00006, start: 50 us}
"""


def run(schedule, options="", workers=4, window=32):
    fabric = run_exact(TEXT, schedule, options=options, workers=workers, window=window)
    check_results(fabric)
    return fabric


def check_results(fabric):
    for worker in fabric.workers():
        s = worker.spec
        assert worker.counters()["results"] == s.job.fragments * s.job.iterations


@pytest.mark.parametrize("workers", first_of([3, 1, 2, 4, 7], 2))
def test_each_fragment_goes_around_twice_but_two_steps(workers):
    fabric = run(perfect, workers=workers)
    for job, size in ((0, workers), (1, 3)):
        members = [worker for worker in fabric.workers() if worker.spec.job.number == job]
        s = members[0].spec
        sent = [worker.counters()["gradient_packets"] for worker in members]
        steps = 2 * (size - 1)
        assert sum(sent) == steps * s.job.fragments * s.job.iterations
        # Every worker has its W-th part of every tensor's fragments, within one fragment each way.
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


@pytest.mark.parametrize("seed", first_of(range(8), 2))
def test_faults_on_every_wire(seed):
    faults = lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05)
    fabric = run(faults, workers=2 + seed % 4)
    assert sum(worker.counters()["retransmissions"] for worker in fabric.workers()) > 0
    assert sum(worker.counters()["duplicate_results"] for worker in fabric.workers()) > 0


@pytest.mark.parametrize("window", first_of([1, 3, 1000], 1))
def test_any_window(window):
    run(lossy(3, loss=0.01, reorder=0.02), window=window)


def test_fifo_and_fixed_timeout():
    run(lossy(4, loss=0.02), options=", order: fifo, timeout: 20 ms")


def test_a_member_that_pauses_delays_but_changes_nothing():
    parts = {"options": "", "workers": 4, "window": 32}
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


def test_an_acknowledgement_of_an_earlier_iteration_confirms_nothing():
    """The acknowledgement of a transmission of iteration 0 comes when the transmission's place
    belongs to one of iteration 2, which is lost."""
    setup = setup_of(TEXT % {"options": "", "workers": 2, "window": 1000})
    first = next(each for each in host_specs(setup) if each.job.number == 0 and each.number == 0)
    fragments = first.job.fragments
    kept: dict[str, bytes] = {}
    sent = {0: [], 2: []}  # sequence numbers of the chosen fragment, by iteration

    def to_first(node, frame):
        return node == "s1" and frame[30:34] == socket.inet_aton(first.address)

    def words(frame):
        return np.frombuffer(frame, np.uint32, offset=sizes.FRAME_OVERHEAD)

    def is_chosen(row, iteration):
        if wire.job(row) != 0 or wire.kind(row) != wire.GRADIENT:
            return False
        kept.setdefault("fragment", wire.fragment(row))
        return wire.fragment(row) == kept["fragment"] + iteration * fragments

    def schedule(now, node, frame):
        row = words(frame)
        if node == first.host:
            for iteration, numbers in sent.items():
                if is_chosen(row, iteration):
                    numbers.append(wire.index(row))
                    lost = iteration == 2 and len(numbers) == 1
                    return () if lost else (0,)
        elif to_first(node, frame) and wire.kind(row) == wire.CONTROL and sent[0]:
            number = (sent[0][0] - wire.index(row)) & 0xFFFFFFFF
            if number < 32 and wire.word(row, wire.HEADER_WORDS) >> number & 1:
                kept["ack"] = frame
                return ()
        return (0,)

    def forge(now, node, frame):
        late = to_first(node, frame) and len(sent[2]) == 1 and "ack" in kept
        return [(0, kept.pop("ack"))] if late else []

    fabric = Fabric(setup, start_switches(setup), schedule, forger=forge)
    fabric.run()
    check_values(fabric)
    assert len(sent[0]) == 1 and len(sent[2]) == 2
