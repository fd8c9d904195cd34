"""A network file's network: it comes up, its checks tell what holds, nothing is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from p4fabric_testing import L3, L3_TNA

FILE = f"""
network:
  program: {L3}
  hosts:
    h1: {{ip: 10.0.1.1/24, mac: "08:00:00:00:00:01", commands: &gateway
      [ip route add default via 10.0.1.9 dev eth0 onlink,
       ip neigh add 10.0.1.9 lladdr 08:00:00:00:00:99 dev eth0]}}
    h2: {{ip: 10.0.2.2/24, mac: "08:00:00:00:00:02", commands: *gateway}}
  switches:
    s1:
      entries:
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.1.1/32}}, action: forward,
           params: {{port: 2, mac: "08:00:00:00:00:01"}}}}
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.2.0/24}}, action: forward,
           params: {{port: 5, mac: "08:00:00:00:00:99"}}}}
    s2:
      entries:
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.2.2/32}}, action: forward,
           params: {{port: 1, mac: "08:00:00:00:00:02"}}}}
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.1.0/24}}, action: forward,
           params: {{port: 3, mac: "08:00:00:00:00:99"}}}}
  links:
    - {{between: [h1, s1-p2]}}
    - {{between: [s2-p1, h2]}}
    - {{between: [s1-p5, s2-p3], delay: 20 ms, bandwidth: 50 Mbit/s}}
checks:
  - {{ping: all}}
  - {{run: ping -c 2 -i 0.1 10.0.2.2, on: h1, prints: 'min/avg/max/mdev = 4\\d\\.'}}
  - {{start: sleep 1000, on: h2}}
"""


def run(path: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "p4fabric", "run", str(path)],
        capture_output=True,
        text=True,
        cwd=path.parent,
    )


@pytest.mark.parametrize("program", [L3, L3_TNA])
def test_a_network_comes_up_and_its_checks_are_reported(tmp_path, program):
    path = tmp_path / "two.yaml"
    path.write_text(FILE.replace(str(L3), str(program)))
    done = run(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nok ") == 3, done.stdout
    assert "s1-p5" in done.stdout and "FAILED" not in done.stdout


@pytest.mark.slow
def test_checks_that_do_not_hold_are_named(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(FILE.replace("10.0.2.2/32", "10.0.2.7/32") + "  - {ping: [h2, h1], lost: true}")
    done = run(path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "h1 -> h2: no answer" in done.stdout
    assert "ok      ping h2 -> h1 is lost" in done.stdout
    assert "2 of 4 checks do not hold" in done.stderr
