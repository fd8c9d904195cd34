"""SwitchML with one set per slot, hosts and switches together.

Nothing can be served again, so what arrives twice or late must be harmless, and a lost result must
end the run with a statement instead of a wrong value.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from p4fabric.base.errors import RunError

from testbed.protocols import wire
from testbed.run_parts.program import prepare
from testbed.simulate.simulation import Simulation
from tests.support.experiments import setup_of
from tests.support.fabric import US, run_exact, total
from tests.support.switchml import TEXT, fabric_counters

VIRTUAL = """
name: one-set
runtime: virtual
topology: {kind: star, hosts: 8}
links: {bandwidth: 100 Gbit/s, delay: 1 us, delay_spread: 20 %}
system: {name: switchml, sets: 1}
memory: {aggregators: 48}
timeout: 2 s
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0006,
     placement: {workers: [h1, h2, h5, h6]}}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00006,
     placement: {workers: [h3, h4, h7, h8]}}
"""


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


def test_a_lost_result_ends_the_run_with_a_statement():
    setup = setup_of(VIRTUAL)
    (there, back), *others = setup.platform.directions
    directions = ((there, replace(back, loss=0.01)), *others)  # h1's
    setup = replace(setup, platform=replace(setup.platform, directions=directions))
    with pytest.raises(RunError) as caught:
        Simulation(setup, prepare(setup).compiled).run()
    line = str(caught.value).splitlines()[0]
    assert "has received no result for" in line and "links have lost" in line
    assert "with sets: 1 every packet must arrive" in line and "with sets: 2 it does" in line
