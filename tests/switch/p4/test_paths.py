"""p4/paths.p4, the choice among equal paths, one packet at a time."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest
from p4engine.backend.build import Compiled
from p4engine.switch.library import Switch
from p4fabric.base.topology import host_ip, host_mac, switch_mac
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from p4engine import compile_program
from testbed import dataplane
from tests.support.experiments import setup_of

EXPERIMENT = """
name: paths
runtime: virtual
topology: {topology}
links: {{bandwidth: 10 Gbit/s, delay: 1 us{each}}}
paths: {paths}
system: ring
values_per_packet: 4
jobs: [{{model: alexnet, workers: 4, iterations: 1, placement: spread}}]
"""
LEAF_SPINE = "{kind: leaf_spine, leaves: 2, spines: 4, hosts: 2}"  # ports 3 to 6 of s1 lead up
FAT_TREE = "{kind: fat_tree, k: 4}"  # s1 is at an edge, s9 above it; their ports 3 and 4 lead up
FLOWS = range(600)


class OneSwitch:
    """A switch of an experiment, and packets of flows to it."""

    def __init__(self, name: str, paths: str, topology: str = LEAF_SPINE, each: str = "") -> None:
        setup = setup_of(EXPERIMENT.format(topology=topology, paths=paths, each=each))
        source, defines, folders = dataplane.program(setup.platform)
        ports = sorted(setup.platform.topology.ports(name))
        compiled = _compiled(source, tuple(defines.items()), folders)
        self.switch = Switch(compiled, ports=ports, seed=1, timestamp_unit_ns=1)
        dataplane.install(setup, name, self.switch)
        self.target = len(setup.platform.topology.hosts)
        self.number, self.now = setup.platform.topology.number(name), 1_000_000_000

    def ports(self, flows: Iterable[int], kind: type = UDP, later_ns: int = 10_000) -> list[int]:
        """The port by which a packet of each flow leaves, one after the other."""
        ip = IP(src=host_ip(1), dst=host_ip(self.target)) / kind(sport=0, dport=7)
        whole = bytes(Ether(src=host_mac(1), dst=switch_mac(self.number)) / ip / Raw(b"anything"))
        found = []
        for flow in flows:
            self.now += later_ns
            frame = whole[:34] + flow.to_bytes(2, "big") + whole[36:]  # the source port
            self.switch.receive(1, frame, self.now)
            found += [port for _, port, _ in self.switch.advance(self.now + 5000)]
        return found


@functools.cache
def _compiled(source: Path, defines: tuple, folders: tuple) -> Compiled:
    return compile_program(source, dict(defines), folders)


def even(counts: Counter, shares: dict) -> bool:
    """True if counts are within four standard deviations of their shares."""
    total = sum(counts.values())
    return set(counts) == set(shares) and all(
        abs(counts[each] - total * share) < 4 * (total * share * (1 - share)) ** 0.5
        for each, share in shares.items()
    )


@pytest.mark.parametrize("kind", [UDP, TCP])
def test_ecmp_keeps_a_flow_on_its_path_and_spreads_flows(kind):
    one = OneSwitch("s1", "{choice: ecmp}")
    first = one.ports(FLOWS, kind)
    assert even(Counter(first), dict.fromkeys((3, 4, 5, 6), 1 / 4))
    assert one.ports(FLOWS, kind) == first


def test_seeds_and_switches_choose_independently_of_each_other():
    """With a CRC of seed and tuple alone, the switch above the edge would take one port for all
    that the edge has sent it."""
    edge, above, other = (
        OneSwitch(name, f"{{seed: {seed}}}", FAT_TREE).ports(FLOWS)
        for name, seed in (("s1", 1), ("s9", 1), ("s1", 2))
    )
    pairs = dict.fromkeys(product((3, 4), repeat=2), 1 / 4)
    assert even(Counter(zip(edge, above, strict=True)), pairs)
    assert even(Counter(zip(edge, other, strict=True)), pairs)


def test_a_flow_changes_its_path_after_a_gap_only():
    one = OneSwitch("s1", "{choice: flowlet, gap: 50 us}")
    assert len(set(one.ports([1] * 100, later_ns=50_000))) == 1
    after = Counter(one.ports([1] * 400, later_ns=50_001))
    assert even(after, dict.fromkeys((3, 4, 5, 6), 1 / 4))


def test_sprayed_packets_of_one_flow_take_all_paths_the_same_way_each_time():
    runs = [OneSwitch("s1", "{choice: spray}").ports([1] * 400) for _ in range(2)]
    assert even(Counter(runs[0]), dict.fromkeys((3, 4, 5, 6), 1 / 4))
    assert runs[0] == runs[1]


def test_paths_have_shares_as_their_rates_beyond_the_next_link_too():
    each = ", each: [{between: [s3, s2], bandwidth: 30 Gbit/s}, {between: [s1, s3], bandwidth: 30"
    each += " Gbit/s}, {between: [s4, s2], bandwidth: 5 Gbit/s}]"
    ports = OneSwitch("s1", "{choice: ecmp, weights: rate}", each=each).ports(FLOWS)
    assert even(Counter(ports), {3: 6 / 11, 4: 1 / 11, 5: 2 / 11, 6: 2 / 11})
