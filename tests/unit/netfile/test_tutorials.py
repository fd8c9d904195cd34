"""Topologies of the P4 tutorials become network files."""

from __future__ import annotations

import json

import pytest

from testbed.cli.main import main
from testbed.netfile.import_parts import latency
from testbed.netfile.install_entries import dry_run
from testbed.netfile.load_network import load_network
from tests.support.topology_files import exercise


def test_a_topology_of_the_tutorials_becomes_a_network_file(tmp_path, capsys):
    output = tmp_path / "made.yaml"
    assert main(["import", str(exercise(tmp_path)), "-o", str(output)]) == 0
    plan = load_network(output)
    dry_run(plan)
    assert {path.name for path in plan.programs.values()} == {"mine.p4"}
    s1, s2 = plan.net.switches["s1"], plan.net.switches["s2"]
    assert [entry.match for entry in s1.entries] == [
        {},
        {"hdr.ethernet.destination": "08:00:00:00:00:00/40", "standard.ingress_port": 4},
        {
            "hdr.ethernet.source": "256 &&& 65280",
            "hdr.ethernet.type": "8 -> 9",
            "meta.known": 1,
        },
    ]
    assert s1.entries[0].default and s1.entries[2].priority == 3
    assert [(r.port, r.instance) for r in s1.multicast[0].replicas] == [(1, 1), (2, 0)]
    assert (s1.clones[0].session, s1.clones[0].replicas[0].instance) == (9, 1)
    assert [clone.packet_length_bytes for clone in s1.clones] == [128, 0]
    assert (s2.p4runtime, s2.device_id, s2.cpu_port) == (50052, 1, 510)
    assert (s1.priority_queues, s2.priority_queues) == (1, 8)
    assert plan.net.hosts["h1"].commands == ("ip link",)
    assert plan.ports == ((None, 2), (1, 3), (None, 1))
    assert [(link.delay_ns, link.bandwidth_bps) for link in plan.net.links] == [
        (0, None),
        (5_000_000, 500_000),
        (2_000_000, None),
    ]
    assert main(["import", str(tmp_path / "topo" / "topology.json"), "-o", str(output)]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda t: t["switches"]["s1"].update(debugger=True), "'debugger' cannot"),
        (
            lambda t: t["switches"]["s1"].update(priority_queues=[]),
            "priority_queues [] is no number",
        ),
        (lambda t: t["switches"]["s1"].update(runtime_json="none.json"), "no file none.json"),
        (lambda t: t["links"].append(["h1"]), "is not a link"),
        (lambda t: t.pop("hosts"), "there is no 'hosts'"),
        (lambda t: t.update(controllers={}), "'controllers' cannot be imported"),
        (lambda t: t["hosts"]["h1"].update(cpu=0.5), "host h1: 'cpu' cannot be imported"),
        (lambda t: t["hosts"]["h1"].pop("ip"), "host h1: there is no 'ip'"),
        (lambda t: t["switches"].update(s2=None), "switch s2: found None; allowed: an object"),
        (lambda t: t["switches"]["s2"].update(cpu_port="up"), "cpu_port 'up' is no number"),
        (
            lambda t: t["switches"]["s2"].update(priority_queues=float("inf")),
            "priority_queues inf is no number",
        ),
        (
            lambda t: t["links"].append(["s1-p7", "s2-p7", [*range(300)]]),
            "[0, 1, 2, 3, 4, 5, ...] is no latency",
        ),
        (lambda t: t["links"].append(["s1-p7", "s2-p7", "soon"]), "'soon' is no latency"),
        (lambda t: t["links"].append(["h9", "s1-p7"]), "there is no host or switch h9"),
    ],
)
def test_what_of_a_topology_cannot_be_imported_is_named(tmp_path, capsys, change, said):
    path = exercise(tmp_path)
    refused(tmp_path, capsys, path, change, said, path)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda r: r.update(meter_entries=[]), "'meter_entries' cannot be imported"),
        (lambda r: r["table_entries"][0].update(idle_timeout=5), "'idle_timeout' cannot"),
        (lambda r: r["table_entries"][0].pop("table"), "there is no 'table'"),
        (lambda r: r["table_entries"][1].update(match=[1]), "there is no 'match'"),
        (lambda r: r["table_entries"].append(7), "found 7; allowed: an object with table"),
        (lambda r: r["multicast_group_entries"][0].pop("replicas"), "there is no 'replicas'"),
        (
            lambda r: r["clone_session_entries"][0].update(packet_length_bytes="9"),
            "packet_length_bytes",
        ),
        (
            lambda r: r["clone_session_entries"][0].update(class_of_service=1),
            "'class_of_service' cannot be imported",
        ),
    ],
)
def test_what_of_a_runtime_file_cannot_be_imported_is_named(tmp_path, capsys, change, said):
    path = exercise(tmp_path)
    refused(tmp_path, capsys, path.with_name("s1-runtime.json"), change, said, path)


def refused(tmp_path, capsys, file, change, said, topology):
    """Change a JSON file of an exercise, and see its import refused."""
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    assert main(["import", str(topology), "-o", str(tmp_path / "made.yaml")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "made.yaml").exists()


def test_files_that_cannot_be_read_or_written_are_named(tmp_path, capsys):
    path = exercise(tmp_path)
    topology = json.loads(path.read_text())

    def message(output="made.yaml", **changes):
        path.write_text(json.dumps(topology | changes))
        assert main(["import", str(path), "-o", str(tmp_path / output)]) == 2
        return capsys.readouterr().err

    assert "make it first" in message("no/such/made.yaml")
    switch = {"runtime_json": "topo/s1-runtime.json"}
    (tmp_path / "commands.txt").write_bytes(b"table_add \xff")
    found = message(switches={"s1": switch | {"cli_input": "commands.txt"}, "s2": {}})
    assert "commands.txt can't be read: not UTF-8" in found
    found = message(switches={"s1": {"runtime_json": "x" * 300}, "s2": {}})
    assert "there is no file xxx" in found
    path.write_text("[" * 5000)
    assert main(["import", str(path)]) == 2
    assert "can't be read" in capsys.readouterr().err
    assert not (tmp_path / "made.yaml").exists()


def test_latencies_are_read_as_mininet_reads_them():
    assert [latency(each) for each in (5, 0.5, "0", "0ms", "20ms", "7", "1s")] == [
        "5 ms",
        "0.5 ms",
        "0 ms",
        "0 ms",
        "20 ms",
        "7 us",
        "1 s",
    ]
