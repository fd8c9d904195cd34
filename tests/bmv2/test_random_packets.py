"""The random packets reach everything that a program does; this needs no BMv2."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections import Counter

import pytest
from p4engine.backend.c_build import find_c_compiler
from p4engine.switch.library import Switch

from p4engine import compile_program
from testbed import dataplane
from testbed.dataplane.read_registers import occupancy_of_slots
from testbed.schemes import pool, switchml
from tests.support.bmv2 import simple_switch
from tests.support.bmv2.cases import CASES, address_of_port, calls_of, surroundings
from tests.support.bmv2.compare import events_of, outputs
from tests.support.bmv2.packets import sequence

NEEDS_COMPILER = pytest.mark.skipif(
    not find_c_compiler(), reason="no C compiler (cc, gcc or clang)"
)
# ATP evicts nothing and has no priorities.
ATP_HAS_NOT = {"preemptions", "preemptions_held", "downgrades"}
EVENTS = {
    "esa": set(pool.STATISTICS.events),
    "atp": set(pool.STATISTICS.events) - ATP_HAS_NOT,
    "switchml": set(switchml.TWO_SETS.events),
}


@NEEDS_COMPILER
@pytest.mark.parametrize("program", EVENTS)
def test_every_event_of_a_program_occurs(program):
    seen: Counter[int] = Counter()
    for number, case in enumerate(CASES[program]):
        setup = case.setup(4)
        around = surroundings(case, setup)
        compiled = compile_program(*dataplane.program(setup.platform))
        with contextlib.closing(Switch(compiled, ports=around.ports, seed=1)) as switch:
            switch.batch(calls_of(case, setup))
            outputs(switch, list(sequence(around, 1500, number)))
            seen.update(events_of(switch))
    names = switchml.TWO_SETS.events if program == "switchml" else pool.STATISTICS.events
    assert {names[event - 1] for event in seen if event} == EVENTS[program]


@pytest.mark.parametrize("case", [case for cases in CASES.values() for case in cases])
def test_every_port_has_a_destination_behind_it(case):
    setup = case.setup(4)
    ports = setup.platform.topology.ports(case.switch)
    assert set(address_of_port(calls_of(case, setup))) == set(ports)


def test_a_sequence_is_its_seeds():
    case = CASES["esa"][0]
    around = surroundings(case, case.setup(4))
    first = list(sequence(around, 50, 1))
    assert first == list(sequence(around, 50, 1))
    assert first != list(sequence(around, 50, 2))


@NEEDS_COMPILER
@pytest.mark.parametrize("case", [cases[0] for cases in CASES.values() if cases[0].has_events()])
def test_aggregators_in_use_are_the_same_by_counts_and_by_looking(case):
    """BMv2's are looked at one by one, the embedded switch's follow from its counts."""
    setup = case.setup(4)
    around = surroundings(case, setup)
    compiled = compile_program(*dataplane.program(setup.platform))
    used = set()
    with contextlib.closing(Switch(compiled, ports=around.ports, seed=1)) as switch:
        switch.batch(calls_of(case, setup))
        packets = list(sequence(around, 600, 3))
        for begin in range(0, len(packets), 60):
            outputs(switch, packets[begin : begin + 60])
            counted = dataplane.occupancy(setup.platform, switch)
            assert occupancy_of_slots(setup.platform, switch) == counted
            used |= {(filling > 0, held > 0) for _, filling, held in counted}
    assert (True, False) in used


def test_missing_tools_are_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    reason = simple_switch.why_not()
    assert "missing p4c-bm2-ss or p4c, simple_switch, Python module thrift" in reason
