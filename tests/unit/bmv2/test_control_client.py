"""BMv2's control client, command line, compiler and processor time, without BMv2."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest
from p4engine.control.client import CallError

from testbed.bmv2 import compiler
from testbed.bmv2 import simple_switch as process
from testbed.bmv2.connection import p4utils_api
from testbed.bmv2.control_client import Client
from testbed.errors import UserError
from testbed.linux.processes import cpu_ns, thread_cpu_ns


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


def test_calls_are_carried_out_in_order_and_say_nothing(api, capsys):
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


def test_a_group_that_is_set_again_is_replaced(api):
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


def test_what_p4utils_prints_of_an_error_is_an_error(api, capsys):
    client = Client(api, "s1")
    with pytest.raises(CallError, match=r"switch s1: table_add\(nowhere, .*Invalid table name"):
        client.table_add("nowhere", "x", [1], [2])
    assert capsys.readouterr().out == ""


def test_a_switch_that_does_not_answer_is_named(api):
    with pytest.raises(CallError, match="switch s1 .simple_switch.: set_queue_rate: connection"):
        Client(api, "s1").queue_rate(1, 9)


def test_a_call_that_bmv2_has_not_is_named(api):
    with pytest.raises(CallError, match="BMv2 has no 'port_shape'"):
        Client(api, "s1").batch([("port_shape", 1, "egress", 0)])


# ---- command line ----


@pytest.mark.parametrize("nanomsg", [True, False])
def test_the_command_line(monkeypatch, nanomsg):
    monkeypatch.setattr(process, "has_option", lambda option: nanomsg)
    words = process.command(
        Path("esa.json"), {2: "s1-eth2", 1: "s1-eth1"}, notifications=Path("/run/x/s1.ipc")
    )
    assert words[:5] == ["simple_switch", "--thrift-port", "9090", "--log-level", "off"]
    assert ("ipc:///run/x/s1.ipc" in words) == nanomsg
    assert words[-5:] == ["-i", "1@s1-eth1", "-i", "2@s1-eth2", "esa.json"]


def test_a_tool_that_is_missing_has_no_version(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert process.version("simple_switch") is None
    tool = tmp_path / "simple_switch"
    tool.write_text("#!/bin/sh\necho some words\necho 1.15.5\necho\n")
    tool.chmod(0o755)
    assert process.version("simple_switch") == "1.15.5"


def test_p4utils_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "p4utils", None)
    with pytest.raises(UserError, match="p4utils, which .* cannot be imported .*doctor"):
        p4utils_api(list, Path("esa.json"))


# ---- p4c ----

FAKE = """#!/bin/sh
# p4c, for a test: writes JSON and counts its calls, or complains as p4c does.
echo "$@" >> "$(dirname "$0")/calls"
for word in "$@"; do last=$word; done
if grep -q mistake "$last"; then
  echo "w.p4(1): [--Wwarn=unused] warning: x: unused" >&2
  echo "  bit<8> x;" >&2
  echo "w.p4(2): [--Werror=type-error] error: y: no such thing" >&2
  echo "  y = 1;" >&2
  exit 1
fi
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then out=$2; fi
  shift
done
case $out in *.json) ;; *) out=$out/$(basename "$last" .p4).json;; esac
echo '{}' > "$out"
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a fake p4c under a name; returns the arguments of its calls so far."""
    tools, cache = tmp_path / "bin", tmp_path / "cache"
    tools.mkdir()
    cache.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr(compiler, "cache_folder", lambda name: cache)

    def install(name: str):
        (tools / name).write_text(FAKE)
        (tools / name).chmod(0o755)
        calls = tools / "calls"
        return lambda: calls.read_text().splitlines() if calls.exists() else []

    return install


@pytest.mark.parametrize("name", ["p4c-bm2-ss", "p4c"])
def test_both_names_of_p4c_make_the_json_once(installed, tmp_path, name):
    calls = installed(name)
    source = tmp_path / "own.p4"
    source.write_text("const bit<8> A = VALUES;\n")
    made = compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path])
    assert made.read_text() == "{}\n"
    assert compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path]) == made
    (call,) = calls()
    assert f"-DVALUES=4 -I{tmp_path} {source}" in call
    assert ("--target bmv2 --arch v1model" in call) == (name == "p4c")
    assert compiler.compile_for_bmv2(source, {"VALUES": 8}, [tmp_path]) != made
    source.write_text("\nconst bit<8> A = VALUES;\n")  # p4c writes lines into the JSON
    assert compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path]) != made
    assert len(calls()) == 3


def test_p4c_s_errors_are_shown_and_its_warnings_not(installed, tmp_path):
    installed("p4c-bm2-ss")
    source = tmp_path / "own.p4"
    source.write_text("mistake\n")
    with pytest.raises(UserError) as caught:
        compiler.compile_for_bmv2(source, {}, [])
    lines = str(caught.value).splitlines()
    assert lines[0].endswith(f"/p4c-bm2-ss refuses {source}:")
    assert lines[1:] == ["w.p4(2): [--Werror=type-error] error: y: no such thing", "  y = 1;"]
    assert not list((tmp_path / "cache").iterdir())


def test_a_machine_without_p4c_is_told_so(installed):
    with pytest.raises(UserError, match="neither p4c-bm2-ss nor p4c .* `ina doctor` says how"):
        compiler.P4c.find()


# ---- processor time by thread ----


def test_the_threads_of_a_process_share_its_processor_time():
    code = (
        "import threading, time\n"
        "def work():\n"
        "    end = time.thread_time() + 0.3\n"
        "    while time.thread_time() < end: pass\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "while True:\n"
        "    time.sleep(0.05)\n"
        "    if not thread.is_alive() or thread.native_id is None: break\n"
        "    if open(f'/proc/self/task/{thread.native_id}/stat').read().split()[13] >= '2':\n"
        "        print(flush=True)\n"
        "        break\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        threads = thread_cpu_ns(child.pid)
        whole = cpu_ns(child.pid)
        assert len(threads) == 2
        assert 0 < max(threads.values()) <= whole
        child.stdin.close()
    assert thread_cpu_ns(child.pid) == {}
