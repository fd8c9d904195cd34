"""The random packets reach everything that a program does; this needs no BMv2."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections import Counter

import pytest

from testbed import dataplane
from testbed.dataplane.read import POOL_EVENTS, SWITCHML
from testbed.p4engine import compile_program
from testbed.p4engine.library import Switch
from tests.bmv2 import simple_switch
from tests.bmv2.cases import CASES, address_of_port, calls_of, surroundings
from tests.bmv2.compare import events_of, outputs
from tests.bmv2.entries import encoded, full_name
from tests.bmv2.packets import sequence

NEEDS_COMPILER = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler (cc or gcc)"
)
# ATP evicts nothing and has no priorities.
ATP_HAS_NOT = {"preemptions", "preemptions_held", "downgrades"}
EVENTS = {
    "esa": set(POOL_EVENTS),
    "atp": set(POOL_EVENTS) - ATP_HAS_NOT,
    "switchml": set(SWITCHML.events),
}


@NEEDS_COMPILER
@pytest.mark.parametrize("program", EVENTS)
def test_every_event_of_a_program_occurs(program):
    seen: Counter[int] = Counter()
    for number, case in enumerate(CASES[program]):
        experiment = case.experiment(4)
        around = surroundings(case, experiment)
        compiled = compile_program(*dataplane.program(experiment))
        with contextlib.closing(Switch(compiled, ports=around.ports, seed=1)) as switch:
            switch.batch(calls_of(case, experiment))
            outputs(switch, list(sequence(around, 1500, number)))
            seen.update(events_of(switch))
    names = SWITCHML.events if program == "switchml" else POOL_EVENTS
    assert {names[event - 1] for event in seen if event} == EVENTS[program]


@pytest.mark.parametrize("case", [case for cases in CASES.values() for case in cases])
def test_every_port_has_a_destination_behind_it(case):
    experiment = case.experiment(4)
    ports = experiment.topology_object().ports(case.switch)
    assert set(address_of_port(calls_of(case, experiment))) == set(ports)


def test_a_sequence_is_its_seeds():
    case = CASES["esa"][0]
    around = surroundings(case, case.experiment(4))
    first = list(sequence(around, 50, 1))
    assert first == list(sequence(around, 50, 1))
    assert first != list(sequence(around, 50, 2))


def test_values_are_encoded_as_bmv2_wants_them():
    assert encoded(0x1FF, 9) == b"\x01\xff"
    assert encoded("02:00:00:00:00:07", 48) == bytes((2, 0, 0, 0, 0, 7))
    assert encoded("10.0.0.3", 32) == bytes((10, 0, 0, 3))


def test_a_name_must_mean_one_thing():
    names = ["A.route", "A.job_route", "A.route.x"]
    assert full_name("route", names) == "A.route"
    with pytest.raises(ValueError):
        full_name("node", names)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    reason = simple_switch.why_not()
    assert "missing p4c-bm2-ss, simple_switch, Python module thrift" in reason
