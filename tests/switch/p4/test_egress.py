"""Changes by p4/egress.p4 to packets that leave: congestion marks, addresses and checksums."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dissect import Ina
from testbed.protocols import wire
from tests.support.switches import OneSwitch, Sent

SERVER_PORT = 4
MARKED = 3  # packets in a queue


def gradient(checksum: int = 0) -> bytes:
    """A gradient to the server of job 0, past the aggregators."""
    return bytes(
        Ether(src="02:00:00:00:00:99", dst="02:00:00:01:00:01")
        / IP(src="10.0.0.1", dst="10.0.0.4")
        / UDP(sport=wire.PORT, dport=wire.PORT, chksum=checksum)
        / Ina(kind=wire.GRADIENT, flags=wire.COLLISION, bitmap=1, values=[1] * 4)
    )


def queued(links: str, count: int, frame: bytes) -> list[Sent]:
    """Packets that leave towards the server, after `count` packets that came at the same time.

    The first is on the link at once, so the second finds no packet in the queue, either."""
    switch = OneSwitch(keys=f"links: {{bandwidth: 1 Gbit/s{links}}}").switch
    switch.queue_rate(1000, SERVER_PORT)
    for _ in range(count):
        switch.receive(1, frame, 5_000)
    out = switch.advance(5_000 + 10**9)
    assert {port for _, port, _ in out} == {SERVER_PORT}
    return [Sent(port, Ether(data)) for _, port, data in out]


def marks(sent: list[Sent]) -> list[bool]:
    for each in sent:
        marked = bool(each.flags & wire.ECN)
        assert each.packet[IP].tos & 3 == (3 if marked else 0)
        assert each.flags | wire.ECN == wire.COLLISION | wire.ECN  # earlier flags stay
    return [bool(each.flags & wire.ECN) for each in sent]


def test_a_packet_that_finds_a_long_queue_is_marked():
    sent = queued(f", ecn_threshold: {MARKED} packets", 8, gradient())
    assert marks(sent) == [False] * (1 + MARKED) + [True] * (7 - MARKED)


def test_without_a_threshold_nothing_is_marked():
    assert marks(queued(", ecn_threshold: none", 8, gradient())) == [False] * 8


@pytest.mark.parametrize("able", [0, 2])
def test_other_traffic_is_marked_if_it_says_that_it_can_be(able):
    other = bytes(
        Ether(src="02:00:00:00:00:99", dst="02:00:00:01:00:01")
        / IP(src="10.0.0.1", dst="10.0.0.4", tos=able)
        / UDP(sport=5, dport=6)
        / (b"x" * 60)
    )
    sent = queued(f", ecn_threshold: {MARKED} packets", 8, other)
    assert len(sent) == 8
    found = [each.packet[IP].tos for each in sent]
    assert {*found} == ({2, 3} if able else {0}) and found[0] == able
    assert all(bytes(each.packet[UDP]) == bytes(Ether(other)[UDP]) for each in sent)


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_a_checksum_of_the_senders_is_taken_out(system):
    """Packets are changed on their way, so what the sender has computed would be wrong."""
    switch = OneSwitch(system=system)
    switch.switch.receive(1, gradient(checksum=0x1234), 5_000)
    out = [Ether(data) for _, _, data in switch.switch.advance(5_000)]
    assert [packet[UDP].chksum for packet in out] == [0]
