"""Results that the switch of the parameter server sends itself (p4/delivery.p4): every value exact,
whoever's copy is lost."""

from __future__ import annotations

import socket
import struct

import numpy as np
import pytest
from p4fabric.base.errors import UserError

from testbed import dataplane
from testbed.protocols import wire
from testbed.protocols.sizes import FRAME_OVERHEAD
from tests.support.experiments import setup_of
from tests.support.fabric import (
    US,
    Fabric,
    check_values,
    perfect,
    run_exact,
    total,
    udp_frame,
)
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


def within_int32(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Smaller numbers, so that no sum leaves int32, which the server alone would send."""
    return [each >> 3 for each in arrays]


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


@pytest.mark.parametrize("lost", ["worker", "server too"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_worker_that_never_gets_the_switch_s_results_gets_the_servers(system, lost):
    """Where the server has lost a result too, it asks the others, who have it and make their values
    again."""
    setup = setup_of(TEXT % {"system": system, "topology": STAR, "aggregators": 4096})
    fabric = Fabric(setup, start_switches(setup))
    unlucky, number = fabric.workers()[1], fabric.workers()[1].spec.job.number
    (server,) = (host for host in fabric.servers() if host.spec.job.number == number)
    addresses = [unlucky.spec.address]
    addresses += [server.spec.address] if lost == "server too" else []
    fabric.schedule = losing(*addresses)
    fabric.run()
    check_values(fabric)
    fragments = unlucky.counters()["results"]
    assert len(fabric.schedule.lost) > 0.9 * fragments
    if lost == "worker":
        assert total(fabric.servers(), "duplicate_results") > 0.9 * fragments
    else:
        others = [host for host in fabric.workers() if host.spec.job.number == number]
        assert server.counters()["results"] == fragments
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
        if dtype == np.int32:
            arrays = within_int32(arrays)
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
def test_programs_on_several_switches_get_kept_results(system):
    """Lower switches, which know some of the workers only, pass them on as they are."""
    name, _, more = system.partition(",")
    text = program_text(name, options=f",{more}").replace("{kind: star, hosts: 5}", RACKS)
    fabric, jobs = programs(text.replace("workers: 4", "workers: 4, placement: spread"))
    worker, server = fabric.workers()[1], fabric.servers()[0]
    fabric.schedule = losing(worker.spec.address, server.spec.address)
    for seed in range(4):
        arrays = within_int32(draw(seed, 700, np.int32))
        for each in arrays:
            each[:350] = 0
        expected = np.sum(arrays, axis=0, dtype=np.int32)
        for found in sums(jobs, arrays):
            np.testing.assert_array_equal(found, expected)
    assert fabric.schedule.lost and total(fabric.workers(), "answered_asks") > 0
    assert sum(total_event(fabric.setup, each, "outside") for each in fabric.switches.values()) == 0


def test_a_result_of_an_older_round_is_not_sent_again():
    """Its row may be that of a fragment of this round, which has another sum."""
    name, _, more = ESA.partition(",")
    fabric, jobs = programs(program_text(name, options=f",{more}", aggregators=1024))
    worker, server = fabric.workers()[1], fabric.servers()[0]
    for _ in range(840):  # 256 of them are a round
        sums(jobs, [np.ones(1, np.int32)] * 4)
    machine = worker.machine
    latest, fragments = machine.scoreboard.state.iteration, machine.scoreboard.state.fragments
    kept = machine.protocol.kept
    rounds = set(kept.iteration[kept.iteration >= 0].tolist())
    assert latest >= 3 and latest in rounds
    sent = []
    fabric.schedule = lambda now, node, frame: sent.append((node, frame)) or (0,)
    row = np.zeros(wire.HEADER_WORDS + 1, np.uint32)
    for old in (latest - 2, latest - 3):
        for fragment in range(fragments):
            ask = wire.ASK, 255, wire.AGAIN, 0, 0, old * fragments + fragment, 0, wire.SERVER
            wire.write_header(row, *ask)
            frame = udp_frame(server.spec.address, worker.spec.address, row.tobytes())
            fabric._at_host(worker.spec.host, (1, frame))
    assert not [frame for node, frame in sent if node == worker.spec.host]


@pytest.mark.parametrize("system", (ESA, WITHOUT_COLLISIONS))
def test_a_sum_that_another_switch_completes_is_a_result_at_the_server_s(system):
    """All workers are below one leaf, and the server below another one."""
    place = "placement: {workers: [h1, h2, h3, h4], ps: h%d}"
    text = TEXT.replace("placement: spread", place % 6, 1).replace("placement: spread", place % 7)
    text = text.replace("[h1, h2, h3, h4], ps: h7", "[h5, h8, h9, h10], ps: h7")
    fabric = run_exact(text, perfect, system=system, topology=RACKS, aggregators=4096)
    assert total(fabric.servers(), "results") == 0
    counted = [total_event(fabric.setup, fabric.switches[each], "passes") for each in ("s1", "s2")]
    assert max(counted) > 0


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
        ("esa, reminder: false, results_from: switch", "allowed: reminder: true"),
    ],
)
def test_what_would_wait_for_ever_is_refused(system, message):
    with pytest.raises(UserError, match=message):
        setup_of(TEXT % {"system": system, "topology": STAR, "aggregators": 64})
