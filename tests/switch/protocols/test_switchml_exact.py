"""SwitchML's workers and p4/switchml.p4 together, without a network: every value exact."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from testbed.errors import UserError
from testbed.experiment import load_text
from testbed.protocols import block_float, wire
from testbed.schemes import set_up
from tests.support.experiments import experiment, setup_of
from tests.support.fabric import MS, Fabric, lossy, perfect, run_setup
from tests.support.matrix import first_of
from tests.support.paths import ROOT
from tests.support.switches import start_switches
from tests.support.switchml import TEXT, fabric_counters, late_copies

FLOATS = """
name: test
topology: {kind: star, hosts: 4}
system: {name: switchml%(options)s}
memory: {aggregators: %(aggregators)d}
jobs:
  - {model: smallcnn, workers: 4, iterations: 3}
"""
TWO_LEVELS = """
name: test
topology: {class: "two.py:TwoLevels"}
system: {name: switchml%(options)s}
memory: {aggregators: %(aggregators)d}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 5, iterations: 2, scale: 0.0006}
"""
TREE = """
from testbed.topology import Topology

class TwoLevels(Topology):
    def __init__(self):
        super().__init__()
        switches = [self.add_switch(f"s{n}") or f"s{n}" for n in (1, 2, 3)]
        for n in range(1, 6):
            self.add_host(f"h{n}")
            self.add_link(f"h{n}", "s2" if n < 5 else "s3")
        self.add_link("s1", "s2")
        self.add_link("s1", "s3")
"""


def run(schedule, aggregators=64, options="", text=TEXT, load=setup_of, program=None):
    parts = {"aggregators": aggregators, "options": options}
    return run_setup(load(text % parts), schedule, program)


def test_without_faults_nothing_is_sent_twice():
    fabric = run(perfect)
    for worker in fabric.workers():
        counted = worker.counters()
        assert counted["retransmissions"] == counted["duplicate_results"] == 0
        assert counted["gradient_packets"] == counted["results"]
        assert worker.spec.options.window == 16  # 64 aggregators: 32 slots, half for each job


def test_a_window_smaller_than_the_part_leaves_the_rest_unused():
    fabric = run(perfect, options=", window: 3")
    assert {worker.spec.options.window for worker in fabric.workers()} == {3}


@pytest.mark.parametrize("aggregators", [4, 10, 64])
@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_faults_on_every_wire(seed, aggregators):
    faults = lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05)
    fabric = run(faults, aggregators, ", timeout: 2 ms" if aggregators < 64 else "")
    assert sum(worker.counters()["retransmissions"] for worker in fabric.workers()) > 10


def test_held_up_copies_are_late_and_harmless():
    fabric = run(late_copies(1), aggregators=4)
    rows = fabric_counters(fabric)
    assert rows["stale_chunks"] > 10


def test_the_check_of_the_chunk_is_what_makes_late_copies_harmless(tmp_path):
    """Taken out of a copy of the program, the sums are wrong under the same schedule."""
    folder = tmp_path / "p4"
    shutil.copytree(ROOT / "p4", folder)
    source = folder / "switchml.p4"
    check = "if (own.state != EMPTY) {"
    text = source.read_text()
    assert text.count(check) == 1
    source.write_text(text.replace(check, "if (own.state > 100) {"))
    with pytest.raises(AssertionError, match="wrong value"):
        run(late_copies(1), aggregators=4, program=source)


@pytest.mark.parametrize("aggregators", [8, 4096])
def test_recorded_gradients_are_exact_in_block_floating_point(aggregators):
    fabric = run(lossy(3, loss=0.01, reorder=0.02), aggregators, ", timeout: 2 ms", FLOATS)
    for worker in fabric.workers():
        protocol = worker.machine.protocol
        assert protocol.recorded.any() and len(set(protocol.exponent.tolist())) > 3
        assert worker.counters()["saturated"] == 0
    # What a result means, in floats: within the stated bound of the sum of the floats.
    blocks = [w.machine.protocol.recorded.astype(np.float64) for w in fabric.workers()]
    floats = sum(blocks)[2].reshape(-1, 64)
    sums = fabric.workers()[0].machine.protocol.sums[2].reshape(-1, 64)
    for fragment, exponent in enumerate(fabric.workers()[0].machine.protocol.exponent):
        received = sums[fragment] / block_float.scale_of(int(exponent), 4)
        bound = block_float.error_bound(int(exponent), 4)
        assert np.abs(received - floats[fragment]).max() <= bound * (1 + 1e-9)


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_two_levels_of_switches(seed, tmp_path):
    (tmp_path / "two.py").write_text(TREE)

    def folder(text):
        return set_up(load_text(text, folder=tmp_path))

    faults = lossy(seed, loss=0.03, duplicate=0.02, reorder=0.05)
    fabric = run(faults, 16, ", timeout: 2 ms", TWO_LEVELS, folder)
    assert fabric.workers()[0].spec.peers == ("10.255.0.1",)
    counted = fabric_counters(fabric)
    assert counted["re_emissions"] > 10 and counted["results_passed"] > 100


def test_two_levels_serve_a_result_again_to_the_asking_worker_alone(tmp_path):
    (tmp_path / "two.py").write_text(TREE)
    setup = set_up(load_text(TWO_LEVELS % {"aggregators": 16, "options": ""}, folder=tmp_path))
    lost = []
    served = []

    def schedule(now, node, frame):
        kind = frame[42] & 0xF
        if node == "s2" and kind == wire.RESULT and frame[33] == 3 and len(lost) < 5:
            lost.append(frame)
            return ()
        if node == "s2" and kind == wire.RESULT_ONE:
            served.append(frame[33])
        return (0,)

    fabric = Fabric(setup, start_switches(setup), schedule)
    fabric.run()
    assert len(lost) == 5 and served == [3] * 5
    assert fabric.now < 60_000 * MS


def test_more_jobs_than_the_memory_has_slots_for_is_refused():
    with pytest.raises(UserError, match="2 jobs need at least 4"):
        experiment(TEXT % {"aggregators": 3, "options": ""})


def test_front_order_is_refused_with_the_reason():
    with pytest.raises(UserError, match="in the same order"):
        experiment(TEXT % {"aggregators": 64, "options": ", order: front"})
