"""Topologies of others with all that belongs to them: one of the P4 tutorials, one of p4-utils."""

from __future__ import annotations

import json
from pathlib import Path

from p4engine_testing import DATA


def exercise(folder: Path) -> Path:
    """A topology with its runtime files, as the P4 tutorials lay them out."""
    (folder / "topo").mkdir()
    (folder / "mine.p4").write_text((DATA / "p4runtime.p4").read_text())
    topology = {
        "hosts": {
            "h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:01", "commands": ["ip link"]},
            "h2": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:02"},
        },
        "switches": {
            "s1": {"runtime_json": "topo/s1-runtime.json"},
            "s2": {"cpu_port": "510", "priority_queues": 8},
        },
        "links": [["h1", "s1-p2"], ["s1-p1", "s2-p3", 5, 0.5], ["h2", "s2-p1", "2ms"]],
    }
    runtime = {
        "target": "bmv2",
        "p4info": "build/mine.p4info.txt",
        "bmv2_json": "build/mine.json",
        "table_entries": [
            {
                "table": "MyIngress.stations",
                "default_action": True,
                "action_name": "MyIngress.drop",
                "action_params": {},
            },
            {
                "table": "MyIngress.prefixes",
                "match": {
                    "hdr.ethernet.destination": ["08:00:00:00:00:00", 40],
                    "standard.ingress_port": 4,
                },
                "action_name": "MyIngress.send",
                "action_params": {"port": 3},
            },
            {
                "table": "MyIngress.rules",
                "match": {
                    "hdr.ethernet.source": [256, 65280],
                    "hdr.ethernet.type": [8, 9],
                    "meta.known": 1,
                },
                "priority": 3,
                "action_name": "MyIngress.drop",
                "action_params": {},
            },
        ],
        "multicast_group_entries": [
            {
                "multicast_group_id": 2,
                "replicas": [
                    {"egress_port": 1, "instance": 1},
                    {"egress_port": 2, "instance": 0},
                ],
            }
        ],
        "clone_session_entries": [
            {
                "clone_session_id": 9,
                "replicas": [{"egress_port": 2, "instance": 1}],
                "packet_length_bytes": 128,
            },
            {"clone_session_id": 10, "replicas": [{"egress_port": 2}]},
        ],
    }
    (folder / "topo" / "s1-runtime.json").write_text(json.dumps(runtime))
    (folder / "topo" / "topology.json").write_text(json.dumps(topology))
    return folder / "topo" / "topology.json"


def app(folder: Path, **topology) -> Path:
    """A p4app.json with two switches and three hosts."""
    (folder / "p4src").mkdir()
    (folder / "p4src" / "mine.p4").write_text((DATA / "p4runtime.p4").read_text())
    (folder / "s1-commands.txt").write_text(
        "# what s1 does\n\ntable_set_default stations MyIngress.drop\n"
    )
    data = {
        "p4_src": "p4src/mine.p4",
        "cli": True,
        "pcap_dump": True,
        "enable_log": False,
        "topology": {
            "assignment_strategy": "mixed",
            "default": {"bw": 10},
            "links": [
                ["h1", "s1"],
                ["s1", "s2", {"delay": 5, "bw": 0.5, "loss": 1, "max_queue_size": 50}],
                ["s1", "h2"],
                ["h7", "s2"],
            ],
            "hosts": {"h1": {}, "h2": {"commands": ["ip link"]}, "h7": {}},
            "switches": {"s1": {"cli_input": "s1-commands.txt"}, "s2": {}},
            **topology,
        },
    }
    path = folder / "p4app.json"
    path.write_text(json.dumps(data))
    return path
