"""SwitchML with one set per slot: each event that differs, and hosts and switches together.

Nothing can be served again, so what arrives twice or late must be harmless, and a lost result must
end the run with a statement instead of a wrong value.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from p4engine.values.numbers import ControlError
from p4fabric.base.errors import RunError

from testbed.protocols import wire
from testbed.run_parts.program import prepare
from testbed.simulate.simulation import Simulation
from tests.support.experiments import experiment, setup_of
from tests.support.fabric import US, run_exact, total
from tests.support.switchml import SECOND_SET, TEXT, SlotSwitch, fabric_counters
from tests.support.virtual import run_virtual

STAR = "{kind: star, hosts: 8}"
RACKS = "{kind: two_level, tors: 2, hosts: 4, servers: 1}"
ACROSS = ", placement: {workers: [h1, h2, h5, h6]}", ", placement: {workers: [h3, h4, h7, h8]}"
VIRTUAL = """
name: one-set
runtime: virtual
topology: %s
links: {bandwidth: 100 Gbit/s, delay: 1 us, delay_spread: 20 %%}
system: {name: switchml, sets: 1}
memory: {aggregators: 48}
timeout: 2 s
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0006%s}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00006%s}
"""


# ---- the switch, packet by packet ----


def test_a_complete_slot_is_free_and_remembers_its_chunk():
    switch = SlotSwitch(sets=1)
    assert [s.values for s in switch.whole_chunk(0, 0)] == [[111] * 4] * 3
    assert switch.occupancy() == [(0, 0, 0), (1, 0, 0)]
    assert switch.chunk(0, 1, 0, flags=wire.RESEND) == []  # nothing that could be served
    assert switch.occupancy() == [(0, 0, 0), (1, 0, 0)]
    counted = switch.counters(0)
    assert counted["stale_chunks"] == counted["completions"] == counted["allocations"] == 1
    assert "held_ns" not in counted and "re_emissions" not in counted
    # The next chunk of the slot, in the same set.
    assert [s.fragment for s in switch.whole_chunk(0, 2)] == [2] * 3


def test_copies_do_not_enter_their_own_chunk_twice_nor_the_next():
    switch = SlotSwitch(sets=1)
    switch.chunk(0, 0)
    assert switch.chunk(0, 0, flags=wire.RESEND) == []
    switch.chunk(0, 1)
    assert switch.chunk(0, 2)[0].values == [111] * 4
    switch.chunk(0, 0, 2)
    assert switch.chunk(0, 1, 0, flags=wire.RESEND, values=[5] * 4) == []
    switch.chunk(0, 1, 2)
    assert switch.chunk(0, 2, 2)[0].values == [111] * 4
    counted = switch.counters(0)
    assert counted["duplicates"] == counted["stale_chunks"] == 1


def test_the_top_bit_of_an_index_belongs_to_the_slot():
    switch = SlotSwitch(sets=1)
    assert switch.chunk(0, 0, index=SECOND_SET) == []
    assert switch.chunk(0, 0, index=2) == []
    assert switch.counters(0) == {"outside": 2}


def test_there_is_no_second_set():
    switch = SlotSwitch(sets=1)
    assert len(switch.switch.register_read("first_state")) >= 4
    with pytest.raises(ControlError, match="second_state"):
        switch.switch.register_read("second_state")


def test_the_part_of_a_killed_job_is_emptied():
    switch = SlotSwitch(sets=1)
    switch.whole_chunk(0, 0)
    switch.chunk(0, 0, number=1)
    switch.chunk(1, 0)
    assert switch.occupancy() == [(0, 1, 0), (1, 1, 0)]
    switch.setup.platform.scheme.release(
        switch.setup.platform, switch.setup.jobs[0], "s1", switch.switch
    )
    assert switch.occupancy() == [(0, 0, 0), (1, 1, 0)]
    counted = switch.counters(0)
    assert counted["ended_discarded"] == 1 and "ended_open" not in counted


# ---- hosts and switches together ----


def run(schedule, aggregators, options="", **more):
    options = f", sets: 1{options}"
    return run_exact(TEXT, schedule, aggregators=aggregators, options=options, **more)


def test_timers_that_expire_too_early_do_no_harm():
    """Workers wait for less than a round trip, and one of them is a straggler."""

    def schedule(now, node, frame):
        return (200 * US,) if node == "h3" else (0,)

    fabric = run(schedule, 16, ", timeout: 10 us")
    counted = fabric_counters(fabric)
    sent_again = total(fabric.workers(), "retransmissions")
    assert counted["duplicates"] > 100 and counted["stale_chunks"] > 100
    # Each wait is twice as long as the one before, so a chunk is sent again few times.
    assert sent_again < 6 * total(fabric.workers(), "results")


def lose_one(kind):
    """The twentieth packet of a kind that h2 sends or is to get is lost, and no other."""
    seen = []

    def schedule(now, node, frame):
        if frame[42] & 0xF == kind and (node == "h2" or frame[33] == 2):
            seen.append(now)
            if len(seen) == 20:
                return ()
        return (0,)

    return schedule


def test_a_lost_gradient_is_sent_again():
    fabric = run(lose_one(wire.GRADIENT), 16, ", timeout: 2 ms")
    assert total(fabric.workers(), "retransmissions") > 0


def test_a_lost_result_cannot_be_recovered():
    with pytest.raises(AssertionError, match="still not finished.*h2"):
        run(lose_one(wire.RESULT), 16, ", timeout: 2 ms", until_ns=10**9)


# ---- in virtual time ----


def occupied(tables):
    counted: dict[str, int] = {}
    for row in tables["switch_counters"]:
        counted[row["counter"]] = counted.get(row["counter"], 0) + row["value"]
    return counted


@pytest.mark.parametrize("topology", [STAR, RACKS])
def test_runs_are_exact(topology):
    spec = experiment(VIRTUAL % (topology, *ACROSS))
    tables = run_virtual(spec)
    assert all(job["exact"] for job in tables["jobs"])
    assert all(host["retransmissions"] == 0 for host in tables["hosts"])
    counted = occupied(tables)
    assert counted["held_ns"] == counted["held_open_ns"] == counted["ended_open"] == 0
    assert counted["completions"] == counted["ended_completed"] > 0


def test_a_lost_result_ends_the_run_with_a_statement():
    setup = setup_of(VIRTUAL % (STAR, *ACROSS))
    (there, back), *others = setup.platform.directions
    directions = ((there, replace(back, loss=0.01)), *others)  # h1's
    setup = replace(setup, platform=replace(setup.platform, directions=directions))
    with pytest.raises(RunError) as caught:
        Simulation(setup, prepare(setup).compiled).run()
    line = str(caught.value).splitlines()[0]
    assert "has received no result for" in line and "links have lost" in line
    assert "with sets: 1 every packet must arrive" in line and "with sets: 2 it does" in line
