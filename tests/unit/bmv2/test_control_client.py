"""BMv2's control client, with a stand-in for p4utils."""

from __future__ import annotations

import sys
import types

import pytest
from p4engine.control.client import CallError

from testbed.bmv2.control_client import Client


class TException(Exception):
    """Thrift's, for a machine without it."""


class Api:
    """In place of p4utils' API: takes what p4utils takes, prints what it prints."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.registers = {"events": [1, 2, -1, 4]}
        self.sswitch_client = types.SimpleNamespace(get_time_elapsed_us=lambda: 77)

    def table_add(self, table, action, keys, parameters, priority):
        assert all(isinstance(word, str) for word in (*keys, *parameters))
        if table == "nowhere":
            print("Error: Invalid table name (nowhere)")
            return None
        print("Adding entry to exact match table", table)
        self.calls.append(("table_add", table, action, keys, parameters, priority))
        return 5

    def mc_mgrp_create(self, group):
        self.calls.append(("mc_mgrp_create", group))

    def mc_node_create(self, rid, ports):
        self.calls.append(("mc_node_create", rid, ports))
        return 100 + rid

    def mc_node_associate(self, group, node):
        self.calls.append(("mc_node_associate", group, node))

    def mc_node_dissociate(self, group, node):
        self.calls.append(("mc_node_dissociate", group, node))

    def mc_node_destroy(self, node):
        self.calls.append(("mc_node_destroy", node))

    def table_clear(self, table):
        self.calls.append(("table_clear", table))

    def meter_set_rates(self, meter, index, rates):
        self.calls.append(("meter_set_rates", meter, index, rates))

    def meter_array_set_rates(self, meter, rates):
        self.calls.append(("meter_array_set_rates", meter, rates))

    def register_read(self, name):
        return self.registers[name]

    def register_write(self, name, index, value):
        self.calls.append(("register_write", name, index, value))

    def counter_read(self, name, index):
        return 640, 10

    def set_queue_rate(self, rate, port):
        if port == 9:
            raise TException("connection reset")
        self.calls.append(("set_queue_rate", rate, port))


@pytest.fixture
def api(monkeypatch) -> Api:
    thrift = types.SimpleNamespace(TException=TException)
    monkeypatch.setitem(sys.modules, "thrift", types.ModuleType("thrift"))
    monkeypatch.setitem(sys.modules, "thrift.Thrift", thrift)
    return Api()


def test_calls_run_in_order_and_print_nothing(api, capsys):
    client = Client(api, "s1")
    results = client.batch(
        [
            ("table_add", "route", "forward", [("10.0.0.1", 32)], [1, "02:00:00:00:00:01"]),
            ("table_add", "receiver", "address", [1, 4096], ["02:00:00:00:00:01", "10.0.0.1"]),
            ("multicast_group", 1, [(1, 7), (2, 8)]),
            ("register_write", "job_gone", 3, 1),
            ("register_write", "state", (2, 5), 3),
            ("queue_rate", 383, 1),
            ("timestamp",),
        ]
    )
    assert results == [5, 5, None, None, None, None, 77]
    assert api.calls == [
        ("table_add", "route", "forward", ["10.0.0.1/32"], ["1", "02:00:00:00:00:01"], 0),
        ("table_add", "receiver", "address", ["1", "4096"], ["02:00:00:00:00:01", "10.0.0.1"], 0),
        ("mc_mgrp_create", 1),
        ("mc_node_create", 7, [1]),
        ("mc_node_associate", 1, 107),
        ("mc_node_create", 8, [2]),
        ("mc_node_associate", 1, 108),
        ("register_write", "job_gone", 3, 1),
        ("register_write", "state", [2, 5], 3),
        ("set_queue_rate", 383, 1),
    ]
    assert capsys.readouterr().out == ""


def test_setting_a_group_again_replaces_it(api):
    client = Client(api, "s1")
    client.multicast_group(4, [(1, 7)])
    del api.calls[:]
    client.multicast_group(4, [(2, 8)])
    assert api.calls == [
        ("mc_node_dissociate", 4, 107),
        ("mc_node_destroy", 107),
        ("mc_node_create", 8, [2]),
        ("mc_node_associate", 4, 108),
    ]


def test_tables_are_cleared_and_meters_set(api):
    client = Client(api, "s1")
    client.batch(
        [
            ("table_clear", "job"),
            ("meter_set", "capacity", 0, [(0.125, 652.0), (0.125, 652.0)]),
            ("meter_set", "capacity", None, [(0.5, 9), (0.5, 9)]),
        ]
    )
    assert api.calls == [
        ("table_clear", "job"),
        ("meter_set_rates", "capacity", 0, [(0.125, 652), (0.125, 652)]),
        ("meter_array_set_rates", "capacity", [(0.5, 9), (0.5, 9)]),
    ]


def test_registers_are_unsigned_and_read_in_part(api):
    client = Client(api, "s1")
    assert client.register_read("events") == [1, 2, 2**64 - 1, 4]
    assert client.register_read("events", 1, 2) == [2, 2**64 - 1]
    assert client.register_read("events", 4, 0) == []
    with pytest.raises(CallError, match="register events has 4 elements, not 3 .. 4"):
        client.register_read("events", 3, 2)


def test_counters_and_clock(api):
    client = Client(api, "s1")
    assert client.counter_read("seen", 3) == {"packets": 10, "bytes": 640}
    assert client.stats() == {"timestamp": 77}
    told = Client(api, "s1", process_stats=lambda: {"received": 5, "cpu_ns": None})
    assert told.stats() == {"timestamp": 77, "received": 5, "cpu_ns": None}


def test_an_error_that_p4utils_prints_is_raised(api, capsys):
    client = Client(api, "s1")
    with pytest.raises(CallError, match=r"switch s1: table_add\(nowhere, .*Invalid table name"):
        client.table_add("nowhere", "x", [1], [2])
    assert capsys.readouterr().out == ""


def test_a_switch_that_does_not_answer_is_named(api):
    with pytest.raises(CallError, match="switch s1 .simple_switch.: set_queue_rate: connection"):
        Client(api, "s1").queue_rate(1, 9)


def test_no_answer_in_time_is_said_and_ends_the_connection(api):
    """What comes late would be taken for the answer to the next call."""

    def late():
        error = TException("unexpected exception")
        error.inner = TimeoutError("timed out")
        raise error

    closed = []
    api.sswitch_client.get_time_elapsed_us = late
    with pytest.raises(
        CallError, match=r"switch s1 .simple_switch.: timestamp: no answer for 10 s"
    ):
        Client(api, "s1", lambda: closed.append(True)).timestamp()
    assert closed == [True]


def test_an_unsupported_call_is_named(api):
    with pytest.raises(CallError, match="BMv2 has no 'port_shape'"):
        Client(api, "s1").batch([("port_shape", 1, "egress", 0)])
