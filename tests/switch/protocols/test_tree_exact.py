"""Hosts of static trees and p4/tree.p4 together, without a network: every value exact."""

from __future__ import annotations

import shutil

import pytest

from tests.support.experiments import setup_of
from tests.support.fabric import lossy, perfect, run_setup
from tests.support.matrix import first_of
from tests.support.paths import DATA, ROOT
from tests.support.switchml import fabric_counters, late_copies

TINY = DATA / "tiny.csv"
TEXT = """
name: test
topology: %(topology)s
system: {name: tree, timeout: 2 ms%(options)s}
memory: {aggregators: %(aggregators)d}
values_per_packet: 4
jobs:
  - {model: %(model)s, workers: %(workers)d, iterations: 3, placement: {workers: [%(first)s]}}
  - {model: %(model)s, workers: %(workers)d, iterations: 3, placement: {workers: [%(second)s]}}
"""
STAR = ("{kind: star, hosts: 6}", "h1, h2, h3", "h4, h5, h6")
LEAF_SPINE = ("{kind: leaf_spine, leaves: 3, spines: 2, hosts: 2}", "h1, h3, h5", "h2, h4, h6")
FAT_TREE = ("{kind: fat_tree, k: 4}", "h1, h4, h7, h16", "h2, h3, h9, h11")
NETWORKS = {"star": STAR, "leaf_spine": LEAF_SPINE, "fat_tree": FAT_TREE}


def run(schedule, network=LEAF_SPINE, options=", mode: quotas", aggregators=16, **more):
    topology, first, second = network
    workers = first.count("h")
    parts = {"topology": topology, "workers": workers, "first": first, "second": second}
    text = TEXT % {**parts, "options": options, "aggregators": aggregators, "model": TINY}
    return run_setup(setup_of(text), schedule, **more)


def test_without_faults_nothing_is_sent_twice_and_all_trees_carry_a_part():
    fabric = run(perfect)
    for worker in fabric.workers():
        counted = worker.counters()
        assert counted["retransmissions"] == counted["duplicate_results"] == 0
        assert counted["gradient_packets"] == counted["results"]
        assert worker.machine.protocol.trees.number.tolist() == [0, 1]
        assert worker.spec.options.window == 4  # 8 slots of a leaf for four trees, two of each job
        assert worker.spec.peers[:2] == ("10.255.0.4", "10.255.0.5")
    completed = fabric_counters(fabric)["completions"]
    assert completed == 2 * 3 * 9 * (3 + 1)  # jobs, iterations, fragments, switches of a tree


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_faults_on_every_wire(seed, network):
    faults = lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05)
    for options in (", mode: quotas", ", jobs_per_switch: 2", ""):
        fabric = run(faults, NETWORKS[network], options, aggregators=32)
        assert sum(worker.counters()["retransmissions"] for worker in fabric.workers()) > 5


def test_held_up_copies_are_late_and_harmless():
    fabric = run(late_copies(1), STAR, ", mode: quotas", aggregators=4)
    assert fabric_counters(fabric)["stale_chunks"] > 10


def test_packets_of_a_tree_use_its_slots_alone(tmp_path):
    """With tables that do not ask for the tree, two trees would meet in one place."""
    folder = tmp_path / "p4"
    shutil.copytree(ROOT / "p4", folder)
    source = folder / "switchml.p4"
    text = source.read_text()
    assert text.count("meta.pair = base + (hdr.ina.index") == 1
    source.write_text(text.replace("meta.pair = base + (", "meta.pair = 0 * base + ("))
    with pytest.raises(AssertionError):
        run(perfect, program=folder / "tree.p4")


def test_a_job_without_a_tree_is_carried_by_hosts():
    fabric = run(lossy(1, loss=0.02), STAR, ", fallback: halving_doubling")
    systems = [worker.spec.job.system for worker in fabric.workers()]
    assert systems == ["tree"] * 3 + ["halving_doubling"] * 3


@pytest.mark.parametrize("aggregators", [16, 256])
def test_recorded_gradients_are_exact_in_block_floating_point(aggregators):
    text = """
name: test
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts: 2}
system: {name: tree, mode: quotas, timeout: 2 ms}
memory: {aggregators: %d}
jobs:
  - {model: smallcnn, workers: 4, iterations: 2}
"""
    fabric = run_setup(setup_of(text % aggregators), lossy(3, loss=0.01, reorder=0.02))
    for worker in fabric.workers():
        assert worker.machine.protocol.recorded.any()
        assert worker.counters()["saturated"] == 0
