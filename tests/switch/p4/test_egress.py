"""Congestion marks of p4/egress.p4 on packets of other protocols (those of jobs are recorded)."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from tests.support.switches import OneSwitch

SERVER_PORT = 4


RAMP = ", ecn_max_threshold: 5 packets, ecn_max_probability: 100 %"


@pytest.mark.parametrize(
    ("able", "ramp", "never", "always"), [(0, "", 8, 8), (2, "", 4, 4), (2, RAMP, 5, 6)]
)
def test_other_traffic_is_marked_if_it_says_that_it_can_be(able, ramp, never, always):
    """The first packet is on the link at once, and the others wait for it. On a ramp from 3 to 5
    packets, the packet that finds 3 has probability 0."""
    other = bytes(
        Ether(src="02:00:00:00:00:99", dst="02:00:00:01:00:01")
        / IP(src="10.0.0.1", dst="10.0.0.4", tos=able)
        / UDP(sport=5, dport=6)
        / (b"x" * 60)
    )
    links = f"bandwidth: 1 Gbit/s, ecn_threshold: 3 packets{ramp}"
    switch = OneSwitch(keys=f"links: {{{links}}}").switch
    switch.queue_rate(1000, SERVER_PORT)
    for _ in range(8):
        switch.receive(1, other, 5_000)
    sent = switch.advance(5_000 + 10**9)
    packets = [Ether(data) for _, _, data in sent]
    assert [port for _, port, _ in sent] == [SERVER_PORT] * 8
    found = [packet[IP].tos for packet in packets]
    assert {*found[:never]} == {able} and {*found[always:]} <= {3}
    assert all(bytes(packet[UDP]) == bytes(Ether(other)[UDP]) for packet in packets)
