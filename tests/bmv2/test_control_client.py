"""The control client on a real simple_switch, without a network: what is written is read back."""

from __future__ import annotations

import contextlib

import pytest
from p4engine.control.client import CallError
from p4engine.switch.library import Switch

from p4engine import compile_program
from testbed import dataplane
from testbed.bmv2.compiler import compile_for_bmv2
from testbed.bmv2.dry_run import dry_run_client
from tests.support.bmv2.cases import CASES, calls_of, surroundings
from tests.support.bmv2.compare import outputs
from tests.support.bmv2.simple_switch import MARK, SimpleSwitch, why_not
from tests.support.paths import DATA

pytestmark = [pytest.mark.bmv2, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

CASE = CASES["esa"][0]


@pytest.fixture
def switch(tmp_path):
    setup = CASE.setup(4)
    ports = surroundings(CASE, setup).ports
    json = compile_for_bmv2(*dataplane.program(setup.platform))
    with SimpleSwitch(json, ports, calls_of(CASE, setup), tmp_path) as running:
        yield running


def test_registers_are_written_and_read(switch):
    client = switch.client
    client.register_write("slot_job", (2, 5), 7)
    client.register_write("slot_job", 3, 8)
    assert client.register_read("slot_job", 1, 5) == [0, 7, 8, 7, 0]


@pytest.mark.parametrize("width", [64, 128, 256])
def test_wide_bitmaps_are_numbers(width):
    """p4utils looks for addresses where a value has an address's width."""
    source, definitions, include_dirs = dataplane.program(CASE.setup(4).platform)
    json = compile_for_bmv2(source, {**definitions, "BITMAP_WIDTH": width}, include_dirs)
    client = dry_run_client(json, "s1")
    client.table_add("job", "aggregate", [0], [(1 << width) - 1, 0, 1, 4, 9])
    with pytest.raises(CallError, match="too large"):
        client.table_add("job", "aggregate", [1], [1 << width, 0, 1, 4, 9])


def test_time_goes_on(switch):
    before = switch.client.timestamp()
    assert switch.client.stats()["timestamp"] > before


def test_counters_and_meters_are_the_embedded_switch_s(tmp_path):
    """By the third packet the meter's burst is used up, and its rate is next to nothing."""
    source = DATA / "colors.p4"
    packets = [(1, bytes(100)), (1, bytes(100)), (1, bytes(84) + MARK)]
    tight = [("meter_set", "limit", 1, [(1e-9, 150), (1e-9, 250)])]
    colors = [("counter_read", "colors", color) for color in range(4)]
    with SimpleSwitch(compile_for_bmv2(source, {}, ()), [1], tight, tmp_path) as switch:
        assert switch.run(packets) == {1: [data for _, data in packets]}
        theirs = switch.client.batch(colors)
    with contextlib.closing(Switch(compile_program(source), ports=[1])) as switch:
        switch.batch(tight)
        outputs(switch, packets)
        assert switch.batch(colors) == theirs
    assert theirs == [{"packets": 1, "bytes": 100}] * 3 + [{"packets": 0, "bytes": 0}]


def test_a_refused_call_is_an_error(switch):
    client = switch.client
    with pytest.raises(CallError, match=r"table_add.*route"):
        client.table_add("route", "forward", [("10.0.0.1", 33)], [1, "02:00:00:00:00:01"])
    with pytest.raises(CallError, match="register_write.*INVALID_INDEX"):
        client.register_write("slot_job", 10**6, 1)
    with pytest.raises(CallError, match="Invalid register name"):
        client.register_read("nothing")


def test_a_switch_that_is_gone_does_not_answer(switch):
    switch.process.kill()
    switch.process.wait()
    with pytest.raises(CallError, match="switch under test .simple_switch.: timestamp"):
        switch.client.timestamp()
