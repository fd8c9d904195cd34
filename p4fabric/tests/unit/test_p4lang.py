"""topology.json of the P4 tutorials becomes a network file, with what its runtime files say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from p4fabric.cli import main
from p4fabric.netfile.install_entries import dry_run
from p4fabric.netfile.load_network import load_network
from p4fabric_testing.topology_files import exercise


def imported(folder: Path, *options: str, **changes):
    output = folder / "out.yaml"
    path = exercise(folder, **changes)
    assert main(["import", str(path), "-o", str(output), *options]) == 0
    return load_network(output)


def test_hosts_links_and_entries_are_taken_over(tmp_path):
    plan = imported(tmp_path)
    dry_run(plan)
    net = plan.net
    assert plan.programs["s1"].name == "pair.p4" and plan.file.runtime == "mininet"
    assert net.hosts["h1"].commands[1] == "ethtool -K eth0 tx off"
    assert net.hosts["h2"].mac == "08:00:00:00:00:02"
    assert plan.ports == ((None, 1), (2, 1), (None, 2))
    assert (net.links[1].delay_ns, net.links[1].bandwidth_bps) == (5_000_000, 500_000)
    first, rule, default = net.switches["s1"].entries
    assert first.match == {"hdr.ethernet.destination": "08:00:00:00:00:02"}
    assert first.params == {"port": 2} and not first.default
    assert rule.match == {"hdr.ethernet.type": "1 -> 5", "hdr.ethernet.source": "1 &&& 3"}
    assert (rule.priority, default.default) == (9, True)
    [group], [session] = net.switches["s1"].multicast, net.switches["s1"].clones
    assert [(each.port, each.instance) for each in group.replicas] == [(1, 1), (2, 0)]
    assert (session.session, session.replicas[0].port) == (3, 2)
    assert plan.checks[0].ping == "all"


def test_for_virtual_time_shells_are_left_out_and_flows_come(tmp_path, capsys):
    plan = imported(tmp_path, "--virtual")
    assert "not taken over: h1: ethtool -K eth0 tx off" in capsys.readouterr().out
    assert plan.file.runtime == "virtual" and not plan.checks
    assert plan.net.hosts["h1"].commands == ("route add default gw 10.0.1.9 dev eth0",)
    assert plan.file.flows[0].sources == ("all",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bmv2_json": None}, "which P4 program s1 runs is not said: give --program"),
        ({"bmv2_json": "build/other.json"}, "there is no file other.p4"),
        ({"tables": []}, "'tables' cannot be imported"),
        ({"table_entries": [{"table": "stations"}]}, "there is no 'action_name'"),
        ({"table_entries": [{"table": "nope", "action_name": "x", "match": {"a": 1}}]}, "nope"),
        ({"table_entries": [{"table": "stations", "action_name": "x", "match": {"a": 1}}]},
         "stations has no key 'a'; it has hdr.ethernet.destination"),
        ({"table_entries": [{"table": "rules", "action_name": "drop",
                             "match": {"hdr.ethernet.type": 5}}]},
         "rules, hdr.ethernet.type: 5 is no list of two, as a match of kind range has"),
        ({"multicast_group_entries": [{"multicast_group_id": 1, "replicas": [{"port": 1}]}]},
         "replicas have an 'egress_port'"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_an_error_with_its_place(tmp_path, capsys, changes, words):
    output = tmp_path / "out.yaml"
    path = exercise(tmp_path, **changes)
    assert main(["import", str(path), "-o", str(output)]) == 2
    assert words in capsys.readouterr().err
    assert not output.exists()


def test_other_json_is_not_a_topology(tmp_path, capsys):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"hosts": {}}))
    assert main(["import", str(path)]) == 2
    assert "a topology.json of the P4 tutorials has hosts, switches" in capsys.readouterr().err
