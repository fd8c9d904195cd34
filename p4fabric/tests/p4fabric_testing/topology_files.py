"""A network file with something in each of its sections, and a p4app.json of p4-utils with all that
belongs to it."""

from __future__ import annotations

import json
from pathlib import Path

from p4engine_testing import DATA

PROGRAM = DATA / "p4runtime.p4"

NETWORK = f"""
network:
  program: {PROGRAM}
  hosts:
    h1: {{ip: 10.0.1.1/24}}
    h2: {{ip: 10.0.1.2/24, mac: "08:00:00:00:00:02", commands: [ip link]}}
  switches:
    s1:
      entries:
        - {{table: stations, match: {{hdr.ethernet.destination: "08:00:00:00:00:02"}},
           action: send, params: {{port: 2}}}}
        - {{table: rules, match: {{hdr.ethernet.type: 1 -> 5, hdr.ethernet.source: 1 &&& 3}},
           action: drop, priority: 9}}
        - {{table: stations, default: true, action: multicast, params: {{group: 4}}}}
      multicast: [{{group: 4, replicas: [{{port: 1}}, {{port: 2, instance: 7}}]}}]
      clones:
        - {{session: 3, replicas: [{{port: 2}}], packet_length_bytes: 20}}
        - {{session: 4, replicas: [{{port: 2}}, {{port: 1, instance: 5}}], packet_length_bytes: 30}}
        - {{session: 5, replicas: [{{port: 2}}]}}
      commands: [register_write words 3 77]
    s2: {{}}
  links:
    - {{between: [h1, s1-p3]}}
    - {{between: [s2, h2], delay: 3 ms}}
    - {{between: [s2, s1-p1], bandwidth: 5 Mbit/s}}
checks:
  - {{ping: [h1, h2]}}
  - {{run: "true", on: h1}}
"""


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


def exercise(folder: Path, **changes) -> Path:
    """A topology.json with two switches and two hosts in the form of the P4 tutorials, with runtime
    files in the folder above. changes: of the first switch's runtime file."""
    (folder / "lab").mkdir()
    (folder / "pair.p4").write_text(PROGRAM.read_text())
    runtime = {
        "target": "bmv2",
        "p4info": "build/pair.p4.p4info.txt",
        "bmv2_json": "build/pair.json",
        "table_entries": [
            {
                "table": "MyIngress.stations",
                "match": {"hdr.ethernet.destination": "08:00:00:00:00:02"},
                "action_name": "MyIngress.send",
                "action_params": {"port": 2},
            },
            {
                "table": "MyIngress.rules",
                "match": {"hdr.ethernet.type": [1, 5], "hdr.ethernet.source": [1, 3]},
                "action_name": "MyIngress.drop",
                "action_params": {},
                "priority": 9,
            },
            {
                "table": "MyIngress.stations",
                "default_action": True,
                "action_name": "MyIngress.drop",
                "action_params": {},
            },
        ],
        "multicast_group_entries": [
            {
                "multicast_group_id": 4,
                "replicas": [
                    {"egress_port": 1, "instance": 1},
                    {"egress_port": 2, "instance": 0},
                ],
            }
        ],
        "clone_session_entries": [{"clone_session_id": 3, "replicas": [{"egress_port": 2}]}],
    }
    (folder / "s1-runtime.json").write_text(json.dumps({**runtime, **changes}))
    (folder / "s2-runtime.json").write_text(json.dumps({"bmv2_json": "build/pair.json"}))
    data = {
        "hosts": {
            "h1": {
                "ip": "10.0.1.1/24",
                "mac": "08:00:00:00:00:01",
                "commands": ["route add default gw 10.0.1.9 dev eth0", "ethtool -K eth0 tx off"],
            },
            "h2": {"ip": "10.0.1.2/24", "mac": "08:00:00:00:00:02"},
        },
        "switches": {
            "s1": {"runtime_json": "s1-runtime.json"},
            "s2": {"runtime_json": "s2-runtime.json"},
        },
        "links": [["h1", "s1-p1"], ["s1-p2", "s2-p1", "5ms", 0.5], ["h2", "s2-p2", 0]],
    }
    path = folder / "lab" / "topology.json"
    path.write_text(json.dumps(data))
    return path
