"""ATP's machines and p4/atp.p4 together, without a network: every value exact, whatever happens."""

from __future__ import annotations

import struct

import pytest

from testbed.protocols import wire
from testbed.protocols.sizes import FRAME_OVERHEAD
from tests.support.experiments import setup_of
from tests.support.fabric import Fabric, lossy, perfect, run_exact, total
from tests.support.matrix import first_of
from tests.support.switches import start_switches

TEXT = """
name: test
topology: {kind: star, hosts: 10}
system: {name: atp, window: 32%(options)s}
memory: {aggregators: %(aggregators)d}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0005}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00005, start: 50 us}
"""

RECORDED = """
name: test
topology: {kind: star, hosts: 5}
system: {name: atp, window: 32%(options)s}
memory: {aggregators: %(aggregators)d}
jobs:
  - {model: smallcnn, workers: 4, iterations: 3}
"""


def run(schedule, aggregators=32, options="", text=TEXT):
    return run_exact(text, schedule, aggregators=aggregators, options=options)


def test_without_faults_nothing_is_sent_twice():
    fabric = run(perfect, aggregators=4096, options=", index: consecutive")
    assert total(fabric.workers(), "retransmissions") == 0
    for server in fabric.servers():
        counted = server.counters()
        assert counted["ps_packets"] == counted["ps_aggregates"] == counted["results"]
        assert counted["rehashes"] == 0


def test_small_memory_is_exact_and_falls_back_to_the_server():
    fabric = run(perfect, aggregators=16)
    assert total(fabric.servers(), "ps_collisions") > 100


@pytest.mark.parametrize("seed", first_of(range(4), 1))
def test_faults_on_every_wire(seed):
    run(lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05), aggregators=24)


@pytest.mark.parametrize(
    "options",
    first_of(
        [
            ", gap: 20, reminder_delay: 300 us, timeout: 5 ms",
            ", window_rule: in_flight, index: consecutive, release: on_completion",
            ", rehash: false",
            ", reminder: false",
            ", release: on_completion",
            ", index: consecutive",
            ", window_rule: in_flight, release: on_completion, results_from: switch",
            ", gap: 0, timeout: 5 ms",
            ", max_age: 20 ms",
            ", window_rule: in_flight",
            ", window_rule: in_flight, gap: 0, timeout: 5 ms",
        ],
        4,
    ),
)
def test_options_stay_exact_under_faults(options):
    run(lossy(7, loss=0.02, duplicate=0.01, reorder=0.02), aggregators=24, options=options)


def test_a_position_that_collides_finds_an_aggregator_of_its_own():
    """With room for all window positions, collisions die out."""
    with_rehash = run(perfect, aggregators=256)
    without = run(perfect, aggregators=256, options=", rehash: false")
    assert total(with_rehash.servers(), "rehashes") > 5
    once, always = (total(f.servers(), "ps_collisions") for f in (with_rehash, without))
    assert 0 < once < always / 3, (once, always)
    servers = {server.spec.job.number: server for server in with_rehash.servers()}
    for worker in with_rehash.workers():
        known = servers[worker.spec.job.number].machine.protocol.rules.positions.index
        assert (worker.machine.protocol.rules.positions.index == known).all()


@pytest.mark.parametrize("seed", first_of(range(4), 1))
def test_a_window_of_fragments_in_flight_under_faults_on_every_wire(seed):
    options = ", window_rule: in_flight"
    run(lossy(seed, loss=0.02, duplicate=0.02, reorder=0.05), aggregators=24, options=options)


@pytest.mark.parametrize("rule", ["positions", "in_flight"])
def test_all_workers_look_for_a_fragment_at_the_same_aggregator(rule):
    """Whichever results a worker has when it sends, and whatever index its position gets."""
    faulty = lossy(3, loss=0.02, duplicate=0.02, reorder=0.05)
    indices: dict[tuple[int, int], set[int]] = {}

    def schedule(now, node, frame):
        head = struct.unpack_from("!BxHHHII", frame, FRAME_OVERHEAD)
        kind, job, fragment, index = head[0] & 15, head[2], head[4], head[5]
        if kind == wire.GRADIENT and node != "s1":
            indices.setdefault((job, fragment), set()).add(index)
        return faulty(now, node, frame)

    fabric = run(schedule, aggregators=64, options=f", window_rule: {rule}")
    assert total(fabric.servers(), "rehashes") > 5
    assert len(indices) > 500
    assert {len(found) for found in indices.values()} == {1}


@pytest.mark.parametrize("rule", ["positions", "in_flight"])
def test_a_missing_result_stops_a_window_of_positions(rule):
    """One fragment's packets are lost for a while: how far do the other workers go?"""
    lost_until = 3_000_000
    sent = []

    def schedule(now, node, frame):
        head = struct.unpack_from("!BxHHHII", frame, FRAME_OVERHEAD)
        kind, job, fragment = head[0] & 15, head[2], head[4]
        if kind != wire.GRADIENT or job != 1 or now >= lost_until:
            return (0,)
        if node == "h6":
            sent.append(fragment)
        return () if node == "h7" and fragment == sent[0] else (0,)

    options = f", window_rule: {rule}, gap: 0, timeout: 1 s, reminder: false"
    fabric = run(schedule, aggregators=4096, options=options)
    place = fabric.hosts["h6"].machine.protocol.rules.positions.place
    furthest = max(int(place[fragment % place.size]) for fragment in sent)
    assert furthest == 31 if rule == "positions" else furthest > 100


def test_a_gap_is_answered_before_the_timeout():
    dropped = []

    def schedule(now, node, frame):
        due = len(dropped) < 3 and now > 30_000 * (len(dropped) + 1)
        if node == "h2" and due:
            dropped.append(now)
            return ()
        return (0,)

    fabric = run(schedule, aggregators=4096, options=", index: consecutive, timeout: 1 s")
    assert len(dropped) == 3
    assert total(fabric.workers(), "gap_resends") >= 3
    assert fabric.now < 1e9


def test_recorded_gradients_are_exact_in_fixed_point():
    fabric = run(lossy(3, loss=0.01), text=RECORDED)
    protocol = fabric.workers()[0].machine.protocol
    assert protocol.recorded.any() and not protocol.floats.over.any()
    assert total(fabric.servers(), "float_results") == 0


@pytest.mark.parametrize("seed", range(2))
def test_values_that_overflow_are_summed_as_floats(seed):
    """At 10^9 steps per unit some values are over, and some sums overflow although none is."""
    options = ", fixed_point_scale: 1000000000"
    fabric = run(lossy(seed, 0.02, 0.02, 0.02), text=RECORDED, options=options)
    protocols = [worker.machine.protocol for worker in fabric.workers()]
    over = sum(int(p.floats.over[:3].any(axis=0).sum()) for p in protocols)
    summed = total(fabric.servers(), "float_results")
    assert over > 0 and 0 < summed < 3 * fabric.servers()[0].spec.job.fragments
    for worker in fabric.workers():
        assert worker.counters()["float_results"] == summed == worker.counters()["saturated"]


def test_a_wrong_float_is_found():
    setup = setup_of(RECORDED % {"aggregators": 64, "options": ", fixed_point_scale: 1000000000"})
    fabric = Fabric(setup, start_switches(setup))
    fabric.workers()[0].machine.protocol.floats.sums[:] *= 1.000001
    with pytest.raises(AssertionError, match="wrong value"):
        fabric.run()
