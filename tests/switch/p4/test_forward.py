"""p4/forward.p4, the switch of systems that aggregate at the hosts, one packet at a time."""

from __future__ import annotations

import pytest
from p4engine.switch.library import Switch
from scapy.layers.inet import ICMP, IP, UDP, IPOption_Router_Alert, IPOption_RR
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from testbed import dataplane
from testbed.dissect import Ina
from testbed.protocols import wire
from tests.support.switches import OneSwitch, check_ip_checksum, only

SWITCH_MAC, SWITCH_IP = "02:00:00:01:00:01", "10.255.0.1"


@pytest.fixture(params=["ps", "ring"])
def switch(request):
    """With a port 0, to which v1model sends what nobody has sent anywhere."""
    one = OneSwitch(system=request.param)
    one.switch = Switch(one.switch.compiled, ports=range(9), seed=1)
    dataplane.install(one.setup, "s1", one.switch)
    return one


def through(one: OneSwitch, frame: Packet, port: int = 1) -> list[tuple[int, Packet]]:
    """Packets that the switch sends for one frame, by port."""
    one.now += 1000
    one.switch.receive(port, bytes(frame), one.now)
    return [(out, Ether(data)) for _, out, data in one.switch.advance(one.now)]


def frame(payload: Packet, to: str = "10.0.0.6", **fields) -> Packet:
    ether = Ether(src="02:00:00:00:00:01", dst=SWITCH_MAC)
    return ether / IP(src="10.0.0.1", dst=to, **fields) / payload


def other(**fields) -> Packet:
    """A packet of another protocol."""
    return frame(UDP(sport=5, dport=6) / Raw(b"something"), **fields)


def test_a_packet_goes_to_its_address_with_the_addresses_of_the_next_link(switch):
    ((port, packet),) = through(switch, other(ttl=9, tos=1))
    assert port == 6
    assert (packet.src, packet.dst) == (SWITCH_MAC, "02:00:00:00:00:06")
    assert (packet[IP].src, packet[IP].dst, packet[IP].tos) == ("10.0.0.1", "10.0.0.6", 1)
    assert packet[IP].ttl == 8
    assert bytes(packet[UDP]) == bytes(Ether(bytes(other(ttl=9, tos=1)))[UDP])
    check_ip_checksum(packet)


def test_a_gradient_keeps_what_it_says(switch):
    sent = only(switch.gradient(0, 1, fragment=5, index=3, values=[1, -2, 3, -4]))
    assert (sent.port, sent.job, sent.fragment, sent.index, sent.sender) == (4, 0, 5, 3, 1)
    assert sent.values == [1, -2, 3, -4] and sent.bitmap == 0b010 and sent.flags == 0
    assert (sent.packet.src, sent.packet.dst) == (SWITCH_MAC, "02:00:00:00:00:04")


OPTIONS = [IPOption_Router_Alert(), IPOption_RR(length=11, pointer=4)]


@pytest.mark.parametrize("number, system", [(0, "esa"), (1, "switchml")])
def test_a_packet_with_options_has_a_checksum_that_is_right(number, system):
    option = OPTIONS[number]
    one = OneSwitch(system=system)
    checksums = set()
    for place in range(300):  # so that some checksums overflow
        packet = frame(ICMP() / Raw(b"ping"), options=[option], id=(place * 219) & 0xFFFF, ttl=9)
        ((port, sent),) = through(one, packet)
        assert (port, sent[IP].ttl, sent[IP].ihl > 5) == (6, 8, True)
        check_ip_checksum(sent)
        checksums.add(Ether(bytes(packet))[IP].chksum > 0xFEFF)
    assert checksums == {True, False}


@pytest.mark.parametrize("ttl, arrives", [(0, False), (1, False), (2, True)])
def test_a_packet_at_the_end_of_its_way_is_dropped(switch, ttl, arrives):
    assert len(through(switch, other(ttl=ttl))) == int(arrives)


def test_what_has_no_route_or_no_address_is_dropped(switch):
    assert through(switch, other(to="192.0.2.1")) == []
    assert through(switch, Ether(dst=SWITCH_MAC) / ARP(pdst="10.0.0.6")) == []
    assert through(switch, Ether(dst=SWITCH_MAC, type=0x88B5) / Raw(b"x" * 60)) == []


def test_a_job_sends_through_its_own_ports_alone(switch):
    claim = frame(
        UDP(sport=wire.PORT, dport=wire.PORT, chksum=0)
        / Ina(kind=wire.GRADIENT, job=0, bitmap=1, values=[1] * 4),
        to="10.0.0.4",
    )
    hosts = 3 + len(switch.setup.jobs[0].group.servers)
    for port in range(1, 9):
        arrived = through(switch, claim, port)
        assert [out for out, _ in arrived] == ([4] if port <= hosts else []), port
    # Of other protocols everything goes everywhere.
    assert [out for out, _ in through(switch, other(), 8)] == [6]
