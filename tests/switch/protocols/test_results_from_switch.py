"""Results that the switch of the parameter server sends itself (p4/delivery.p4): every value exact,
whoever's copy is lost."""

from __future__ import annotations

import socket
import struct

import numpy as np
import pytest

from testbed import dataplane
from testbed.errors import UserError
from testbed.protocols import wire
from testbed.protocols.sizes import FRAME_OVERHEAD
from tests.support.experiments import setup_of
from tests.support.fabric import US, Fabric, check_values, lossy, perfect, run_exact, total
from tests.support.matrix import first_of
from tests.support.programs import draw, programs, sums
from tests.support.programs import text as program_text
from tests.support.switches import start_switches

ESA = "esa, results_from: switch"
ATP = "atp, release: on_completion, results_from: switch"
SYSTEMS = (ESA, ATP)
WITHOUT_COLLISIONS = f"{ATP}, index: consecutive, gap: 0"
STAR = "{kind: star, hosts: 10}"
RACKS = "{kind: leaf_spine, leaves: 2, spines: 1, hosts: 5}"
TEXT = """
name: test
topology: %(topology)s
system: {name: %(system)s, window: 32}
memory: {aggregators: %(aggregators)d}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0006, placement: spread}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00006, start: 50 us, placement: spread}
"""
EMPTY = 0


def run(system, schedule=perfect, topology=STAR, aggregators=4096):
    return run_exact(TEXT, schedule, system=system, topology=topology, aggregators=aggregators)


def result_for(frame: bytes) -> tuple[int, int, str] | None:
    """(job, fragment, address of the receiver) of a result that a switch has made."""
    head = struct.unpack_from("!BxHHHIIIH", frame, FRAME_OVERHEAD)
    if head[0] & 15 not in (wire.RESULT, wire.RESULT_ZEROS) or head[7] == wire.SERVER:
        return None
    return head[2], head[4], socket.inet_ntoa(frame[30:34])


def total_event(setup, switch, event: str) -> int:
    """How often a switch has counted an event, for all jobs."""
    rows = dataplane.counters(setup.platform, switch)
    return sum(value for _, name, value in rows if name == event)


def losing(*addresses: str):
    """A schedule that loses the copies of results from a switch that these hosts should get."""
    lost = set()

    def schedule(now, node, frame):
        found = result_for(frame)
        if found is None or found[2] not in addresses:
            return (0,)
        lost.add(found)
        return ()

    schedule.lost = lost
    return schedule


@pytest.mark.parametrize("topology", [STAR, RACKS])
@pytest.mark.parametrize("system", (ESA, WITHOUT_COLLISIONS))
def test_without_faults_the_server_sends_nothing(system, topology):
    fabric = run(system, topology=topology)
    for worker in fabric.workers():
        counted = worker.counters()
        assert counted["retransmissions"] == 0
        assert counted["results"] == counted["gradient_packets"]
    for server in fabric.servers():
        counted = server.counters()
        assert counted["results"] == counted["reminders"] == counted["asks"] == 0
        assert counted["ps_packets"] == counted["ps_aggregates"] > 0


@pytest.mark.parametrize("topology", [STAR, RACKS])
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", first_of(range(6), 1))
def test_faults_on_every_wire(seed, system, topology):
    faulty = lossy(seed, loss=0.03, duplicate=0.03, reorder=0.05)
    fabric = run(system, faulty, topology, aggregators=24)
    assert total(fabric.servers(), "results") > 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_worker_that_never_gets_the_switch_s_results_gets_the_servers(system):
    setup = setup_of(TEXT % {"system": system, "topology": STAR, "aggregators": 4096})
    fabric = Fabric(setup, start_switches(setup))
    unlucky = fabric.workers()[1]
    fabric.schedule = losing(unlucky.spec.address)
    fabric.run()
    check_values(fabric)
    counted = unlucky.counters()
    assert len(fabric.schedule.lost) > 0.9 * counted["results"]
    assert total(fabric.servers(), "duplicate_results") > 0.9 * counted["results"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_result_that_the_server_has_lost_too_is_made_again(system):
    """The server asks the others, who have the result and make their values again."""
    setup = setup_of(TEXT % {"system": system, "topology": STAR, "aggregators": 4096})
    fabric = Fabric(setup, start_switches(setup))
    unlucky = fabric.workers()[1]
    server = next(h for h in fabric.servers() if h.spec.job.number == unlucky.spec.job.number)
    fabric.schedule = losing(unlucky.spec.address, server.spec.address)
    fabric.run()
    check_values(fabric)
    fragments = unlucky.counters()["results"]
    assert server.counters()["results"] == fragments
    others = [h for h in fabric.workers() if h.spec.job.number == unlucky.spec.job.number]
    assert total(others, "answered_asks") >= fragments


@pytest.mark.parametrize("options", ["", ", zeros: sent"])
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_what_a_program_gave_comes_back_as_the_kept_result(system, options, dtype):
    """A program's values cannot be made again: its program has them back, and changes them."""
    name, _, more = system.partition(",")
    fabric, jobs = programs(program_text(name, options=f",{more}{options}"))
    worker, server = fabric.workers()[1], fabric.servers()[0]
    fabric.schedule = losing(worker.spec.address, server.spec.address)
    for seed, size in enumerate((1, 700, 16, 5000)):
        arrays = draw(seed, size, dtype)
        expected = np.sum(arrays, axis=0, dtype=dtype)
        found = sums(jobs, arrays)
        for rank, each in enumerate(found):
            if dtype == np.int32:
                np.testing.assert_array_equal(each, expected)
            np.testing.assert_array_equal(each, found[0], err_msg=f"rank {rank}")
        for each in found:
            each[:] = -1  # a program's arrays are its own again
    assert fabric.schedule.lost
    assert total(fabric.workers(), "answered_asks") > 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_programs_under_faults_on_every_wire(system):
    name, _, more = system.partition(",")
    faulty = lossy(4, loss=0.05, duplicate=0.02, reorder=0.02)
    _, jobs = programs(program_text(name, options=f",{more}", aggregators=8), faulty)
    for seed, size in enumerate((1, 1, 1, 3000, 1, 17)):
        arrays = draw(seed, size, np.int32)
        expected = np.sum(arrays, axis=0, dtype=np.int32)
        for found in sums(jobs, arrays):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("system", (ESA, WITHOUT_COLLISIONS))
def test_a_late_copy_claims_no_aggregator(system):
    """No result comes from the server that would free it."""

    def doubled(now, node, frame):
        kind = frame[FRAME_OVERHEAD] & 15
        return (0, 3 * US) if node != "s1" and kind == wire.GRADIENT else (0,)

    setup = setup_of(TEXT % {"system": system, "topology": STAR, "aggregators": 4096})
    fabric = Fabric(setup, start_switches(setup), doubled)
    fabric.run()
    check_values(fabric)
    while fabric._events and fabric._events[0][0] <= fabric.now + 1000 * US:
        fabric.step()
    switch = fabric.switches["s1"]
    assert not np.asarray(switch.register_read("slot_state", 0, 4096)).any()
    assert total_event(setup, switch, "duplicates") == total(fabric.workers(), "gradient_packets")


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("atp, results_from: switch", "found results_from: switch with release: on_result"),
        ("esa, release: on_result, results_from: switch", "allowed: release: on_completion"),
        ("a2tp, results_from: switch", "results_from: found 'switch'; allowed: server"),
    ],
)
def test_an_aggregator_that_a_result_would_free_is_refused(system, message):
    with pytest.raises(UserError, match=message):
        setup_of(TEXT % {"system": system, "topology": STAR, "aggregators": 64})
