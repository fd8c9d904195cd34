"""What nodes are made with: commands in their namespaces, and arguments of switches."""

from __future__ import annotations

import os

import pytest

from testbed.errors import UserError
from testbed.network import namespace
from testbed.network.nodes import controller_options, refuse_others


def test_p4runtime_needs_an_address_or_a_port():
    own = ["--p4runtime-netns", f"/proc/{os.getpid()}/ns/net"]
    assert controller_options(None) == []
    assert controller_options(None, 2, 64) == ["--device-id", "2", "--cpu-port", "64"]
    assert controller_options(9559) == ["--p4runtime", "9559", *own, "--device-id", "1"]
    assert controller_options("h:1", 3, 0) == [
        *("--p4runtime", "h:1", *own, "--device-id", "3", "--cpu-port", "0")
    ]


def test_arguments_that_mininet_would_lose_are_refused():
    refuse_others("s1", {"inNamespace": True})
    with pytest.raises(UserError, match="P4Switch s1: json_path belongs to BMv2; instead: "):
        refuse_others("s1", {"json_path": "a.json"})
    with pytest.raises(UserError, match="neither it nor Mininet has an argument colour"):
        refuse_others("s1", {"colour": "red"})


def test_a_network_is_built_namespace_by_namespace(monkeypatch):
    log = []

    class Kernel:
        def __getattr__(self, what):
            return lambda *words, **named: log.append((what, *words, *named.values()))

    monkeypatch.setattr(namespace, "kernel", Kernel())
    monkeypatch.setattr(namespace, "_batch", lambda *words: log.append(words))
    nodes = [
        {"name": "h1", "pid": 5, "interfaces": ["h1-eth1"], "commands": ["addr"], "qdiscs": []},
        {"name": "s1", "pid": 6, "interfaces": ["s1-eth1"], "commands": [], "qdiscs": ["qdisc"]},
    ]
    assert namespace.build({"links": ["link"], "nodes": nodes, "trains": False}, []) == 0
    assert log == [
        ("ip", "links", ["link"]),
        ("enter_network", 5),
        ("switch_offloads_off", ["h1-eth1"], True),
        ("set_interfaces_up", ["lo", "h1-eth1"]),
        ("ip", "h1", ["addr"]),
        ("enter_network", 6),
        ("switch_offloads_off", ["s1-eth1"], True),
        ("set_interfaces_up", ["lo", "s1-eth1"]),
        ("tc", "s1", ["qdisc"]),
        ("enter_network", 5),
        ("wait_running", ["h1-eth1"], 5),
        ("enter_network", 6),
        ("wait_running", ["s1-eth1"], 5),
    ]


def test_a_command_that_fails_is_named():
    namespace._batch("ip", "h1", ["link show lo"])
    with pytest.raises(SystemExit, match="h1.*link show no-such-link"):
        namespace._batch("ip", "h1", ["link show lo", "link show no-such-link"])
