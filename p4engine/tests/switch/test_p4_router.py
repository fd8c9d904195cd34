"""An ordinary layer-2 and layer-3 program, with packets made and judged by scapy."""

from __future__ import annotations

import pytest
from p4engine.switch.library import Switch
from p4engine_testing import DATA
from p4engine_testing.programs import send
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from p4engine import compile_program

PROGRAM = DATA / "router.p4"


@pytest.fixture
def router():
    s = Switch(compile_program(PROGRAM))
    s.multicast_group(1, [(p, 1) for p in (1, 2, 3)])
    s.table_add("switching", "to_port", ["02:00:00:00:00:02"], [2])
    s.table_add("routing", "to_next_hop", ["10.0.0.0/8"], [1])
    s.table_add("routing", "to_next_hop", ["10.1.0.0/16"], [2])
    s.table_add("routing", "to_group", ["10.2.0.0/16"], [10, 4])
    for number in (1, 2, 10, 11, 12, 13):
        s.table_add("next_hops", "rewrite", [number], [number, 0xA0 + number, 0xB0 + number])
    yield s
    s.close()


def frame(destination="10.0.0.9", ttl=64, sport=1, dport=80, source="1.2.3.4"):
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:99")
    return bytes(ether / IP(src=source, dst=destination, ttl=ttl) / UDP(sport=sport, dport=dport))


def test_switching_and_flooding(router):
    known = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x88B5) / b"abc")
    assert send(router, known, port=1) == [(2, known)]
    unknown = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:07", type=0x88B5) / b"abc")
    assert sorted(send(router, unknown, port=1)) == [(2, unknown), (3, unknown)]
    assert router.register_read("last_source", 1, 1) == [0x020000000001]
    assert router.counter_read("received", 1) == {"packets": 2, "bytes": 34}


def test_longest_prefix_and_rewriting(router):
    for destination, number in (("10.0.0.9", 1), ("10.1.0.9", 2)):
        [(port, data)] = send(router, frame(destination))
        packet = Ether(data)
        assert port == number
        assert packet.src == f"00:00:00:00:00:{0xA0 + number:02x}"
        assert packet[IP].ttl == 63
        checksum = packet[IP].chksum
        del packet[IP].chksum
        assert Ether(bytes(packet))[IP].chksum == checksum
    assert send(router, frame("11.0.0.1")) == []


def test_flows_are_spread_and_each_stays_on_its_path(router):
    ports = {sport: send(router, frame("10.2.0.1", sport=sport))[0][0] for sport in range(64)}
    assert set(ports.values()) == {10, 11, 12, 13}
    assert all(send(router, frame("10.2.0.1", sport=n))[0][0] == p for n, p in ports.items())


def test_filter(router):
    deny = router.table_add("filter", "deny", [("1.2.0.0", 0xFFFF0000), 17, (1, 1023)], priority=10)
    router.table_add("filter", "NoAction", ["1.2.3.4", None, (53, 53)], priority=5)
    assert send(router, frame(dport=80)) == []
    assert len(send(router, frame(dport=53))) == 1
    assert len(send(router, frame(dport=2000))) == 1
    assert len(send(router, frame(dport=80, source="1.3.3.4"))) == 1
    assert router.counter_read("denied", deny)["packets"] == 1


def test_bad_packets_are_dropped(router):
    wrong = bytearray(frame())
    wrong[24] ^= 1  # the IPv4 checksum
    assert send(router, bytes(wrong)) == []
    assert send(router, frame(ttl=1)) == []
    assert (
        len(send(router, frame()[:20])) == 3
    )  # no whole IPv4 header: flooded, none came from port 0


def test_many_entries(router):
    for i in range(4095):
        router.table_add("switching", "to_port", [0x030000000000 + i], [i % 500])
    for i in (0, 1, 2047, 4094):
        data = bytes.fromhex(f"{0x030000000000 + i:012x}") + bytes(6) + b"\x88\xb5"
        assert send(router, data) == [(i % 500, data)]
