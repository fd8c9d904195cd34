"""Results that the switch of the parameter server sends itself (p4/delivery.p4): rules that neither
a history nor a record shows."""

from __future__ import annotations

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
    total,
    udp_frame,
)
from tests.support.programs import programs, sums
from tests.support.programs import text as program_text
from tests.support.switches import start_switches

ESA = "esa, results_from: switch"
ATP = "atp, release: on_completion, results_from: switch"
WITHOUT_COLLISIONS = f"{ATP}, index: consecutive, gap: 0"
STAR = "{kind: star, hosts: 10}"
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


def total_event(setup, switch, event: str) -> int:
    """How often a switch has counted an event, for all jobs."""
    rows = dataplane.counters(setup.platform, switch)
    return sum(value for _, name, value in rows if name == event)


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
