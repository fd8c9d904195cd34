"""p4app.json of p4-utils becomes a network file, addresses and ports as p4-utils gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from p4fabric.cli import main
from p4fabric.netfile.install_entries import dry_run
from p4fabric.netfile.load_network import load_network
from p4fabric.netfile.p4_utils import _latency
from p4fabric.netfile.virtual_plan import flows_of
from p4fabric_testing.topology_files import app


def imported(folder: Path, **topology):
    output = folder / "out.yaml"
    assert main(["import", str(app(folder, **topology)), "-o", str(output)]) == 0
    return load_network(output)


def neighbours(plan, host: str) -> dict[str, str]:
    """The MAC address of each neighbour that a host knows."""
    words = [line.split() for line in plan.net.hosts[host].commands]
    return {each[3]: each[5] for each in words if each[:3] == ["ip", "neigh", "replace"]}


def test_hosts_of_a_switch_share_a_subnet(tmp_path, capsys):
    plan = imported(tmp_path)
    said = capsys.readouterr().out
    assert "not taken over: pcap_dump" in said and "enable_log" not in said
    dry_run(plan)
    hosts, switches = plan.net.hosts, plan.net.switches
    assert {name: host.ip for name, host in hosts.items()} == {
        "h1": "10.0.1.1/24",
        "h2": "10.0.1.2/24",
        "h7": "10.0.2.7/24",
    }
    assert hosts["h1"].mac == "00:00:0a:00:01:01"
    assert hosts["h1"].commands[0] == "ip route add default via 10.0.1.254"
    # The gateway is the switch's port; the other host is in the same subnet, h7 is not.
    assert neighbours(plan, "h1") == {
        "10.0.1.254": "00:01:0a:00:01:01",
        "10.0.1.2": "00:00:0a:00:01:02",
    }
    assert neighbours(plan, "h7") == {"10.0.2.254": "00:01:0a:00:02:07"}
    assert hosts["h2"].commands[-1] == "ip link"
    # Ports in the order of links.
    assert plan.ports == ((None, 1), (2, 1), (3, None), (None, 2))
    assert [(link.delay_ns, link.bandwidth_bps) for link in plan.net.links] == [
        (0, 10_000_000),
        (5_000_000, 500_000),
        (0, 10_000_000),
        (0, 10_000_000),
    ]
    assert plan.net.links[1].queue_packets == 50
    assert switches["s1"].commands == ("table_set_default stations MyIngress.drop",)


def test_one_subnet_for_all(tmp_path):
    plan = imported(tmp_path, assignment_strategy="l2")
    assert {host.ip for host in plan.net.hosts.values()} == {
        "10.0.0.1/16",
        "10.0.0.2/16",
        "10.0.0.7/16",
    }
    assert set(neighbours(plan, "h7")) == {"10.0.0.1", "10.0.0.2"}
    assert not any("route" in line for line in plan.net.hosts["h1"].commands)


def test_entries_for_arp_can_be_left_out(tmp_path):
    plan = imported(tmp_path, assignment_strategy="l2", auto_arp_tables="false")
    assert plan.net.hosts["h1"].commands == ()


def test_a_subnet_for_each_host(tmp_path):
    plan = imported(tmp_path, assignment_strategy="l3")
    assert {host.ip for host in plan.net.hosts.values()} == {
        "10.1.1.2/24",
        "10.1.2.2/24",
        "10.2.7.2/24",
    }
    assert set(neighbours(plan, "h7")) == {"10.2.7.1"}


def test_addresses_of_the_file(tmp_path):
    own = {"ip": "192.168.1.9/24", "gw": "192.168.1.1", "mac": "02:00:00:00:00:09"}
    hosts = {"h1": own, "h2": {"ip": "192.168.2.9/24"}, "h7": {"ip": "192.168.3.9/24"}}
    plan = imported(tmp_path, assignment_strategy="manual", hosts=hosts)
    assert (plan.net.hosts["h1"].ip, plan.net.hosts["h1"].mac) == (own["ip"], own["mac"])
    assert "ip route add default via 192.168.1.1" in plan.net.hosts["h1"].commands


LONG = [*range(300)]
CUT = "[0, 1, 2, 3, 4, 5, ...]"


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda d: d.update(exec_scripts=[{"cmd": "x"}]), "'exec_scripts' cannot be imported"),
        (lambda d: d.update(scripts=[]), "'scripts' cannot be imported"),
        (lambda d: d.update(switch_node={"module_name": "mine"}), "Python code of its own"),
        (lambda d: d.update(cpu_port=True), "'cpu_port' cannot be imported"),
        (lambda d: d.pop("p4_src"), "give --program"),
        (lambda d: d.update(p4_src=3), "found 3 as the P4 program"),
        (lambda d: d.update(p4_src="none.p4"), "there is no file none.p4"),
        (lambda d: d["topology"].update(assignment_strategy="l4"), "allowed: l2, mixed, l3"),
        (lambda d: d["topology"].update(default=[]), "there is no 'default'"),
        (lambda d: d["topology"]["default"].update(jitter=1), "'jitter' cannot be imported"),
        (lambda d: d["topology"]["links"].append(["h1", "s2"]), "has two links"),
        (lambda d: d["topology"]["links"].append(["h1", "h2"]), "one end of a link is a switch"),
        (lambda d: d["topology"]["links"].append(["h9", "s2"]), "there is no node h9"),
        (lambda d: d["topology"]["links"].append(["s1", "s2", 5]), "is not a link"),
        (lambda d: d["topology"]["links"].append(["s1", "s2", {"bw": "x"}]), "bw 'x' is no number"),
        (lambda d: d["topology"]["links"].append(["s1", "s2", {"delay": "x"}]), "'x' is no delay"),
        (lambda d: d["topology"]["links"].append(["s1", "s2", {"loss": 10**400}]), "is too large"),
        (lambda d: d["topology"]["links"].pop(), "host h7 has no link"),
        (lambda d: d["topology"]["hosts"].update(h1={"auto": True}), "host h1: 'auto' cannot"),
        (lambda d: d["topology"]["hosts"].update(h1=None), "host h1: found None"),
        (lambda d: d["topology"]["switches"].update(s2=[]), "switch s2: found []"),
        (lambda d: d["topology"]["switches"]["s1"].update(cpu_port=True), "'cpu_port' cannot"),
        (lambda d: d["topology"].pop("hosts"), "there is no 'hosts'"),
        (
            lambda d: d["topology"]["links"].append(["s1", "s2", {"bw": LONG}]),
            f"bw {CUT} is no number",
        ),
        (lambda d: d["topology"]["switches"].update(s2=LONG), f"switch s2: found {CUT}"),
        (
            lambda d: d["topology"].update(assignment_strategy=LONG),
            f"assignment_strategy {CUT}; allowed: l2, mixed, l3",
        ),
        (lambda d: d.update(p4_src=LONG), f"found {CUT} as the P4 program"),
        (
            lambda d: d["topology"]["switches"]["s1"].update(p4_src=LONG),
            f"found {CUT} as a P4 program",
        ),
    ],
)
def test_what_cannot_be_imported_is_named(tmp_path, capsys, change, said):
    path = app(tmp_path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    assert main(["import", str(path), "-o", str(tmp_path / "out.yaml")]) == 2
    error = capsys.readouterr().err
    assert said in error and "p4app.json" in error
    assert not (tmp_path / "out.yaml").exists()


def test_files_that_cannot_be_read_or_written_are_named(tmp_path, capsys):
    path = app(tmp_path)
    given = json.loads(path.read_text())

    def message(output="made.yaml", **changes):
        changed = {"topology": given["topology"] | changes}
        path.write_text(json.dumps(given | changed))
        assert main(["import", str(path), "-o", str(tmp_path / output)]) == 2
        return capsys.readouterr().err

    assert "make it first" in message("no/such/made.yaml")
    (tmp_path / "there.yaml").touch()
    assert "is there already" in message("there.yaml")
    (tmp_path / "commands.txt").write_bytes(b"table_add \xff")
    found = message(switches={"s1": {"cli_input": "commands.txt"}, "s2": {}})
    assert "commands.txt can't be read: not UTF-8" in found
    found = message(switches={"s1": {"cli_input": "x" * 300}, "s2": {}})
    assert "there is no file xxx" in found
    path.write_text("[" * 5000)
    assert main(["import", str(path)]) == 2
    assert "can't be read" in capsys.readouterr().err
    assert not (tmp_path / "made.yaml").exists()


def test_latencies_are_read_as_mininet_reads_them():
    assert [_latency(each) for each in (5, 0.5, "0", "0ms", "20ms", "7", "1s")] == [
        "5 ms",
        "0.5 ms",
        "0 ms",
        "0 ms",
        "20 ms",
        "7 us",
        "1 s",
    ]


def test_for_virtual_time_a_flow_takes_the_place_of_the_ping(tmp_path, capsys):
    output = tmp_path / "out.yaml"
    path = app(tmp_path, hosts={"h1": {}, "h2": {"commands": ["ip link"]}, "h7": {}})
    assert main(["import", str(path), "-o", str(output), "--virtual"]) == 0
    assert "not taken over: h2: ip link" in capsys.readouterr().out
    plan = load_network(output)
    assert plan.file.runtime == "virtual" and not plan.checks
    flows = {flow.name: flow.mac for flow in flows_of(plan.file)}
    assert flows["all-h1-h2"] == "00:00:0a:00:01:02"
    assert flows["all-h1-h7"] == "00:01:0a:00:01:01"  # the gateway's
