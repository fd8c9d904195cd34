"""Switches of an experiment without a network; one of them with its packets by name."""

from __future__ import annotations

import functools
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from p4engine.backend.build import Compiled
from p4fabric.base.topology import host_ip, host_mac, switch_mac
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from p4engine import compile_program
from testbed import dataplane
from testbed.dissect import Ina
from testbed.protocols import wire
from testbed.setup import Setup
from tests.support.experiments import setup_of
from tests.support.paths import ROOT
from tests.support.wire_tap import Network, TappedSwitch

TWO_JOBS = """
name: test
topology: {kind: star, hosts: 8}
system: {name: %(system)s%(options)s}
%(memory)s
values_per_packet: 4
jobs:
  - {model: alexnet, workers: 3, iterations: 1}
  - {model: alexnet, workers: 3, iterations: 1}
"""


def start_switches(setup: Setup) -> dict[str, TappedSwitch]:
    """A switch for each of an experiment's, with its tables filled. What hosts send is taken for
    made by hand (wire_tap.py)."""
    source, defines, include_dirs = dataplane.program(setup.platform)
    compiled = _compiled(source, tuple(defines.items()), include_dirs)
    topology = setup.platform.topology
    switches, network = {}, Network(setup)
    network.by_hand = True
    for name in topology.switches:
        switches[name] = TappedSwitch(compiled, ports=sorted(topology.ports(name)), seed=1)
        switches[name].tap(network, name)
        dataplane.install(setup, name, switches[name])
    return switches


@functools.lru_cache
def _compiled(source: Path, defines: tuple, include_dirs: tuple) -> Compiled:
    return compile_program(source, dict(defines), include_dirs)


def change_program(
    monkeypatch: pytest.MonkeyPatch, folder: Path, file: str, old: str, new: str
) -> None:
    """Let every switch that starts from now on run a copy of its program in which `old`, which
    p4/`file` has once, is `new`."""
    shutil.copytree(ROOT / "p4", folder / "p4")
    path = folder / "p4" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has changed"
    path.write_text(text.replace(old, new))
    real = dataplane.program

    def program(experiment):
        source, definitions, _ = real(experiment)
        return folder / "p4" / source.name, definitions, (folder / "p4",)

    monkeypatch.setattr(dataplane, "program", program)


# A switch with this change adds a packet that comes twice.
ADDED_TWICE = "meta.event = DUPLICATE;", "meta.event = ADD;"


@dataclass
class Sent:
    """A packet that left the switch."""

    port: int
    packet: Ether

    @property
    def ina(self) -> Ina:
        return self.packet[Ina]

    @property
    def fragment(self) -> int:
        return self.ina.fragment_number

    def __getattr__(self, name: str):
        return getattr(self.packet[Ina], name)


class OneSwitch:
    """A switch with two jobs of three workers: job 0 on ports 1 to 3 with its PS on port 4,
    job 1 on ports 5 to 7 with its PS on port 8. Four values per packet."""

    def __init__(
        self,
        aggregators: int = 8,
        system: str = "esa",
        keys: str = "",
        **options: object,
    ) -> None:
        listed = "".join(f", {key}: {value}" for key, value in options.items())
        memory = f"memory: {{aggregators: {aggregators}}}"
        if system in ("ps", "ring"):
            memory = ""
        text = TWO_JOBS % {"system": system, "memory": memory, "options": listed}
        self.setup = setup_of(f"{text}{keys}\n")
        self.switch = start_switches(self.setup)["s1"]
        self.now = 1_000_000

    def send(self, port: int, to: str = "10.0.0.4", **fields: object) -> list[Sent]:
        """Send one packet in at a port; returns what comes out, by port."""
        self.now += 1000
        frame = bytes(
            Ether(src=host_mac(port), dst=switch_mac(1))
            / IP(src=host_ip(port), dst=to, tos=2, flags="DF", id=0)
            / UDP(sport=wire.PORT, dport=wire.PORT, chksum=0)
            / Ina(**fields)
        )
        self.switch.receive(port, frame, self.now)
        out = [Sent(port, Ether(data)) for _, port, data in self.switch.advance(self.now)]
        return sorted(out, key=lambda sent: sent.port)

    def gradient(
        self, job: int, worker: int, fragment: int = 0, index: int = 0, values=None, **fields
    ) -> list[Sent]:
        """Worker `worker` of job `job` sends its part of a fragment."""
        fields = {"kind": wire.GRADIENT, "priority": 100, "bitmap": 1 << worker, **fields}
        return self.send(
            1 + 4 * job + worker,
            to=host_ip(4 + 4 * job),
            job=job,
            fragment_number=fragment,
            index=index,
            sender=worker,
            values=[10**worker] * 4 if values is None else values,
            **fields,
        )

    def counters(self, job: int) -> dict[str, int]:
        """The switch's counters of a job that are not 0."""
        rows = dataplane.counters(self.setup.platform, self.switch)
        return {name: value for owner, name, value in rows if owner == job and value}

    def occupancy(self) -> list[tuple[int, int, int]]:
        return dataplane.occupancy(self.setup.platform, self.switch)


class Recorder:
    """A switch that only keeps the calls that it gets: `calls` is [(name, *arguments), ...]."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def batch(self, calls: list[tuple]) -> None:
        self.calls += calls


def check_ip_checksum(packet: Ether) -> None:
    """The IPv4 checksum is right; the packet stays as it is."""
    again = packet.copy()
    del again[IP].chksum
    assert Ether(bytes(again))[IP].chksum == packet[IP].chksum


def only(sent: list[Sent]) -> Sent:
    """The one packet that was sent."""
    assert len(sent) == 1, [(s.port, s.ina.summary()) for s in sent]
    return sent[0]
