"""ESA's machines and p4/esa.p4 together, without a network: every value exact, whatever happens."""

from __future__ import annotations

import pytest

from tests.support.fabric import lossy, perfect, run_exact
from tests.support.matrix import first_of

TEXT = """
name: test
topology: {kind: star, hosts: 10}
system: {name: esa, window: 32%(options)s}
memory: {aggregators: %(aggregators)d}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0006}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00006, start: 50 us}
"""


def run(schedule, aggregators=32, options="", text=TEXT):
    return run_exact(text, schedule, aggregators=aggregators, options=options)


def test_without_faults_nothing_is_sent_twice():
    fabric = run(perfect, aggregators=4096)
    for worker in fabric.workers():
        assert worker.counters()["retransmissions"] == 0
    for server in fabric.servers():
        counted = server.counters()
        assert counted["ps_packets"] == counted["ps_aggregates"] == counted["results"]


def test_small_memory_is_exact_and_preempts():
    fabric = run(perfect, aggregators=16)
    servers = [server.counters() for server in fabric.servers()]
    assert sum(c["ps_partials"] for c in servers) > 20
    assert sum(c["ps_collisions"] for c in servers) > 20


@pytest.mark.parametrize("seed", first_of(range(6), 1))
def test_faults_on_every_wire(seed):
    run(lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05), aggregators=24)


@pytest.mark.parametrize("order", ["front", "fifo"])
@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_a_window_of_positions_under_faults_on_every_wire(seed, order):
    options = f", window_rule: positions, order: {order}"
    run(lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05), aggregators=24, options=options)


@pytest.mark.parametrize("window", first_of([1, 3, 9], 1))
def test_a_small_window_of_positions_does_not_deadlock(window):
    text = TEXT.replace("window: 32", f"window: {window}").replace("0.0006", "0.0004")
    options = ", window_rule: positions"
    run(lossy(5, loss=0.01, reorder=0.05), aggregators=24, options=options, text=text)


@pytest.mark.slow
@pytest.mark.parametrize("seed, aggregators", [(100 + n, 4 * 10 ** (n % 3)) for n in range(15)])
def test_many_schedules_and_pool_sizes(seed, aggregators):
    run(lossy(seed, loss=0.03, duplicate=0.05, reorder=0.1), aggregators=aggregators)


@pytest.mark.parametrize(
    "options",
    first_of(
        [
            ", order: fifo, reminder_delay: 300 us, timeout: 3 ms",
            ", priority: random, index: hash",
            ", reminder: false",
            ", window_rule: positions, priority: constant, downgrading: false, release: on_result",
            ", release: on_result",
            ", downgrading: false",
            ", preempt: always, results_from: switch",
            ", preempt: always",
            ", preempt: coin",
            ", max_age: 20 ms",
            ", window_rule: positions",
            ", window_rule: positions, order: fifo",
        ],
        4,
    ),
)
def test_options_stay_exact_under_faults(options):
    run(lossy(7, loss=0.02, duplicate=0.01, reorder=0.02), aggregators=24, options=options)


def test_recorded_gradients_are_exact():
    text = """
name: test
topology: {kind: star, hosts: 5}
system: {name: esa, window: 32%(options)s}
memory: {aggregators: %(aggregators)d}
jobs:
  - {model: smallcnn, workers: 4, iterations: 3}
"""
    fabric = run(lossy(3, loss=0.01), text=text)
    recorded = fabric.workers()[0].machine.protocol.recorded
    assert recorded.any() and recorded.shape[0] >= 3
