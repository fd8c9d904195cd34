"""Runs in virtual time whose events are handled in different orders, and all that they leave
behind."""

from __future__ import annotations

import numpy as np
from p4fabric.simulate import loop
from p4fabric.simulate.event_queue import NEVER

from testbed.run_parts.program import prepare
from testbed.simulate import world
from testbed.simulate.parts import Parts
from tests.support.experiments import setup_of


def started(text: str, threads: int = 1) -> Parts:
    """A run at time 0."""
    setup = setup_of(text)
    return Parts(world.build(setup, prepare(setup).compiled), threads)


def in_order(text: str) -> Parts:
    """A run in one piece that handles one event after the other."""
    made = started(text)
    made.nodes.world.state[0].to_switch_ns = 0
    return made


def ended(run: Parts, step_ns: int = NEVER - 1, events: int = 10**9) -> int:
    """Run to the end, in pieces; returns when that was."""
    until_ns = min(step_ns, NEVER - 1)
    while (reason := run.run(until_ns, events)) != loop.FINISHED:
        assert reason in (loop.TIME_REACHED, loop.EVENTS_HANDLED)
        if reason == loop.TIME_REACHED:
            until_ns += step_ns
    return run.now_ns


def go_on_until(run: Parts, end_ns: int) -> None:
    """Let a run that has ended handle all events up to `end_ns`, as one in turns has done."""
    run.nodes.world.state[0].goes_on = 1
    run._run_part(0, end_ns, 10**9)


def everything(run: Parts) -> dict[str, np.ndarray | list]:
    """Counters, times and memory of hosts, links and switches."""
    found: dict[str, np.ndarray | list] = {}
    for number, node in run.nodes.present:
        found[f"counters {number}"] = node.machine.counters.copy()
        row = run.nodes.world.hosts[number]
        names = ("free_ns", "draws", "packets_sent", "packets_received", "bytes_sent", "discarded")
        found[f"host {number}"] = [int(row[name]) for name in names]
        if node.is_worker:
            found[f"ends {number}"] = node.machine.source.end_ns.copy()
    for name, switch in run.nodes.switches.items():
        found[f"links of {name}"] = switch.port_stats()
        for register in switch.compiled.info.registers:
            found[f"{name} {register.name}"] = switch.register_read(register.name)
    return found


def assert_equal(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert np.array_equal(value, other[name]), name
