"""A2TP's machines and p4/a2tp.p4 together, without a network: every value exact, and windows that
move as published."""

from __future__ import annotations

import pytest

from testbed.protocols import a2tp, wire, worker_state
from testbed.schemes import new_machine
from testbed.setup.host_specs import host_specs
from tests.support.experiments import setup_of
from tests.support.fabric import lossy, perfect, run_exact, total
from tests.support.matrix import first_of

TEXT = """
name: test
topology: %(topology)s
system: {name: a2tp, window: 32%(options)s}
memory: {aggregators: %(aggregators)d}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0005%(first)s}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00005, start: 50 us%(second)s}
"""
STAR = {"topology": "{kind: star, hosts: 10}", "first": "", "second": ""}
RACKS = {
    "topology": "{kind: two_level, tors: 2, hosts: 4, servers: 2}",
    "first": ", placement: {workers: [h1, h2, h5, h6], ps: h9}",
    "second": ", placement: {workers: [h3, h4, h7, h8], ps: h10}",
}


def run(schedule, aggregators=32, options="", network=STAR):
    return run_exact(TEXT, schedule, aggregators=aggregators, options=options, **network)


def test_with_enough_memory_nothing_bypasses():
    fabric = run(perfect, aggregators=4096, options=", index: consecutive")
    for server in fabric.servers():
        counted = server.counters()
        assert counted["ps_packets"] == counted["ps_aggregates"] == counted["results"]


def test_scarce_memory_makes_positions_bypass():
    fabric = run(perfect, aggregators=16)
    for worker in fabric.workers():
        indices = worker.machine.protocol.rules.positions.index
        assert 0 < (indices == a2tp.BYPASS).sum() < 32
    assert total(fabric.servers(), "ps_collisions") > 0


def test_all_workers_agree_which_positions_bypass():
    fabric = run(perfect, aggregators=16)
    for job in (0, 1):
        found = [
            tuple(worker.machine.protocol.rules.positions.index)
            for worker in fabric.workers()
            if worker.spec.job.number == job
        ]
        assert len(set(found)) == 1


@pytest.mark.parametrize("network", [STAR, RACKS])
@pytest.mark.parametrize(
    "options", first_of(["", ", window_rule: in_flight", ", rehash: false", ", reminder: false"], 1)
)
def test_faults_on_every_wire(network, options):
    run(lossy(1, loss=0.02, duplicate=0.02, reorder=0.05), 24, options, network)


@pytest.mark.parametrize("exponent", [0, 1000, 30_000, 65_536, 100_000])
def test_the_power_of_integers(exponent):
    for base in (0, 1, 77, 6553, 30_000, 65_535, 65_536):
        exact = (base / a2tp.ONE) ** (exponent / a2tp.ONE) if base else 0
        assert a2tp.power(base, exponent) / a2tp.ONE == pytest.approx(exact, abs=5e-5)


def new_worker():
    setup = setup_of(TEXT % {**STAR, "aggregators": 64, "options": ""})
    return new_machine(host_specs(setup)[0]).protocol


def answered(worker, results: int, flags: int = 0, spent_ns: int = 1000) -> tuple[int, int]:
    """Both windows after so many results."""
    for _ in range(results):
        a2tp.WorkerRules.adapt(worker, flags, False, True, 0, spent_ns)
    unit = worker_state.UNIT
    return worker.state.credit // unit, worker.rules.own.aggregators // unit


def test_windows_change_once_per_window_by_the_published_rules():
    worker = new_worker()
    link = aggregators = 32.0
    alpha, beta = 0.0, 0.0
    for marked, contended in [(1, 0), (1, 1), (0, 1), (0, 1), (0, 1), (0, 0), (1, 1), (0, 0)]:
        flags = wire.ECN * marked + wire.CONTENDED * contended
        size = worker.state.credit // worker_state.UNIT
        used = worker.rules.own.aggregators // worker_state.UNIT
        before = worker.state.credit, worker.rules.own.aggregators
        answered(worker, size - 1, flags)
        assert before == (worker.state.credit, worker.rules.own.aggregators)
        answered(worker, 1, flags)
        alpha = 7 / 8 * alpha + marked / 8
        beta = 7 / 8 * beta + min(contended * size / used, 1) / 8
        link = link * (1 - alpha / 2) if marked else min(link + 1, 32)
        if contended and beta > 0.1:
            aggregators *= 1 - (beta - 0.1) / 1.9  # gamma is 1
        else:
            aggregators += 1
        aggregators = min(aggregators, link)
        unit = worker_state.UNIT
        assert worker.state.credit / unit == pytest.approx(link, abs=0.1)
        assert worker.rules.own.aggregators / unit == pytest.approx(aggregators, abs=0.1)


def test_a_job_that_straggles_gives_back_aggregators_faster():
    prompt, straggling = new_worker(), new_worker()
    answered(prompt, 1), answered(straggling, 1)  # the shortest round trip
    for _ in range(64):
        answered(prompt, 32), answered(straggling, 32, spent_ns=8000)
    assert straggling.rules.own.gamma < 0.5 * prompt.rules.own.gamma
    for _ in range(10):
        for worker in (prompt, straggling):
            answered(worker, worker.state.credit // worker_state.UNIT, wire.CONTENDED)
    assert straggling.rules.own.aggregators < prompt.rules.own.aggregators
