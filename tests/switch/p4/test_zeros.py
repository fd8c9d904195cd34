"""Results of groups of more workers than a record has, without values for those who need none
(docs/wire.md)."""

from __future__ import annotations

import pytest
from p4fabric.base.topology import host_ip, host_mac
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dissect import Ina
from testbed.protocols import wire
from tests.support.experiments import setup_of
from tests.support.switches import start_switches

MANY = """
name: test
topology: %s
system: esa
memory: {aggregators: 16}
values_per_packet: 4
jobs:
  - {name: many, command: "true", workers: %d}
"""


@pytest.mark.parametrize(
    "network, workers",
    [("{kind: star, hosts: 301}", 300), ("{kind: two_level, tors: 2, hosts: 257}", 514)],
)
def test_copies_have_values_for_those_behind_their_ports_who_need_them(network, workers):
    """Numbers of workers need more than the 8 bits of an exponent. Of those above 255 only one is
    in the first rack."""
    setup = setup_of(MANY % (network, workers))
    topology, group = setup.platform.topology, setup.jobs[0].group
    name = topology.switch_of(group.servers[0])
    switch, behind = start_switches(setup)[name], {}
    for port, (there, _, _) in topology.ports(name).items():
        hosts = [host for host in group.workers if there in (host, topology.switch_of(host))]
        if hosts:
            behind[port] = {group.workers.index(host) for host in hosts}
    server = topology.number(group.servers[0])
    wide = type("Wide", (Ina,), {"bitmap_width": setup.platform.bitmap_bits})
    begin = Ether(src=host_mac(server)) / IP(src=host_ip(server), dst="10.255.0.1")
    begin /= UDP(sport=wire.PORT, dport=wire.PORT, chksum=0)
    for number in range(8):
        worker, flag = (
            (0, 255, 256, workers - 1)[number >> 1],
            (wire.FOR_ONE, wire.FROM_ONE)[number & 1],
        )
        fields = {"exponent": worker >> 8, "next_exponent": worker & 0xFF, "flags": flag}
        result = {
            "kind": wire.RESULT,
            "sender": 0x4000,
            "fragment_number": number,
            "values": [7] * 4,
        }
        head = wide(bitmap=(1 << workers) - 1, **result, **fields)
        switch.receive(topology.port_to(name, group.servers[0]), bytes(begin / head), number)
        out = switch.advance((number + 1) * 10**9)
        longest = max(len(frame) for _, _, frame in out)
        needed = {
            port: bool(those & {worker} if flag == wire.FOR_ONE else those - {worker})
            for port, those in behind.items()
        }
        assert {port: len(frame) == longest for _, port, frame in out} == needed
