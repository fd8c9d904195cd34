"""What nodes are made with: commands in their namespaces, and arguments of switches."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from p4fabric.base.errors import RunError, UserError
from p4fabric.emulate import namespace, nodes
from p4fabric.emulate.nodes import controller_options, refuse_others


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


class Shell:
    """Stands for Mininet's own nodes."""

    def __init__(self, name, **params):
        self.name, self.params = name, params


def test_a_switch_passes_its_options_on(monkeypatch):
    monkeypatch.setattr(nodes.PreparedNode, "__init__", Shell.__init__)
    plain = nodes.P4Switch("s1", program="a.p4")
    assert plain.arguments == () and plain.params["inNamespace"]
    assert plain.controlIntf is None, "Mininet looks at it"
    made = nodes.P4Switch("s1", arguments=("--trace",), cpu_port=7, priority_queues=4)
    assert made.arguments == (
        *("--trace", "--device-id", "1", "--cpu-port", "7", "--priority-queues", "4"),
    )


def test_a_run_starts_its_switches_itself():
    launched = []
    made = SimpleNamespace(launch=launched.append, namespace=5)
    nodes.P4Switch.start(made)
    assert launched == [made]


@pytest.mark.parametrize("refused", [None, "h1-eth0"])
def test_both_ends_of_links_carry_packets_as_on_a_wire(tmp_path, monkeypatch, refused):
    """In their own namespaces; an interface without a link has one end."""
    said = tmp_path / "said"

    def off(names):
        with said.open("a") as file:
            file.write(f"{entered[-1]} {names[0]}\n")
        if names == [refused]:
            raise OSError("not supported")

    entered = []
    monkeypatch.setattr(nodes.kernel, "enter_network", entered.append)
    monkeypatch.setattr(nodes.kernel, "switch_offloads_off", off)
    switch, host = SimpleNamespace(pid=5), SimpleNamespace(pid=6)
    ends = [
        SimpleNamespace(name="s1-eth1", node=switch),
        SimpleNamespace(name="h1-eth0", node=host),
        SimpleNamespace(name="s1-eth2", node=switch, link=None),
    ]
    ends[0].link = SimpleNamespace(intf1=ends[0], intf2=ends[1])
    made = SimpleNamespace(intfList=lambda: [ends[0], ends[2]])
    if refused:
        with pytest.raises(RunError, match="cannot switch off the offloads of h1-eth0"):
            nodes.P4Switch._prepare_links(made)
    else:
        nodes.P4Switch._prepare_links(made)
    lines = ["5 s1-eth1", "6 h1-eth0", "5 s1-eth2"]
    assert said.read_text().splitlines() == lines[: 2 if refused else 3]
