"""Congestion marks of p4/egress.p4 on packets of other protocols (those of jobs are recorded)."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from tests.support.switches import OneSwitch

SERVER_PORT = 4


@pytest.mark.parametrize("able", [0, 2])
def test_other_traffic_is_marked_if_it_says_that_it_can_be(able):
    """The first packet is on the link at once, and the others wait for it."""
    other = bytes(
        Ether(src="02:00:00:00:00:99", dst="02:00:00:01:00:01")
        / IP(src="10.0.0.1", dst="10.0.0.4", tos=able)
        / UDP(sport=5, dport=6)
        / (b"x" * 60)
    )
    links = "links: {bandwidth: 1 Gbit/s, ecn_threshold: 3 packets}"
    switch = OneSwitch(keys=links).switch
    switch.queue_rate(1000, SERVER_PORT)
    for _ in range(8):
        switch.receive(1, other, 5_000)
    sent = switch.advance(5_000 + 10**9)
    packets = [Ether(data) for _, _, data in sent]
    assert [port for _, port, _ in sent] == [SERVER_PORT] * 8
    found = [packet[IP].tos for packet in packets]
    assert {*found} == ({2, 3} if able else {0}) and found[0] == able
    assert all(bytes(packet[UDP]) == bytes(Ether(other)[UDP]) for packet in packets)
