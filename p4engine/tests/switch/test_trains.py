"""Trains: what the kernel hands over as one buffer is cut into the packets that it stands for, and
packets are joined only where the receiver's kernel takes them apart again into the same ones."""

from __future__ import annotations

import ctypes
import random

import pytest
from p4engine.switch.trains import TrainCutter
from p4engine_testing import udp
from p4engine_testing.programs import switch


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    return switch(tmp_path_factory.mktemp("trains")).lib


def cut(lib, offload: bytes, data: bytes) -> list[bytes] | None:
    return TrainCutter(lib).cut(offload, data)


def joined(lib, packets: list[bytes]) -> tuple[bytes, bytes]:
    """The train of packets that may be joined."""
    first = ctypes.create_string_buffer(packets[0], len(packets[0]))
    for place, each in enumerate(packets[1:], 1):
        assert lib.train_matches(packets[0], each, place)
    sizes = [lib.train_payload(each, len(each)) for each in packets]
    assert [len(each) - 42 for each in packets] == sizes
    offload = ctypes.create_string_buffer(udp.OFFLOAD.size)
    lib.train_head(first, sizes[0], sum(sizes), offload)
    return offload.raw, first.raw + b"".join(each[42:] for each in packets[1:])


def payloads(seed: int, *sizes: int) -> list[bytes]:
    return [random.Random(f"{seed} {n}").randbytes(size) for n, size in enumerate(sizes)]


@pytest.mark.parametrize("sizes", [[260] * 64, [24] * 3 + [8], [1472] * 44, [1, 1], [7, 7, 6]])
def test_a_train_is_cut_into_its_packets(lib, sizes):
    """Numbers run on in the identification, beyond 65,535 from 0 again; each packet has its
    lengths and checksums."""
    parts = payloads(1, *sizes)
    got = cut(lib, *udp.train(parts, identification=65_530))
    assert got == [udp.packet(each, identification=65_530 + n) for n, each in enumerate(parts)]


def test_options_and_tags_stay_in_each_packet(lib):
    parts = payloads(2, 100, 100, 30)
    for fields in ({"options": bytes([1, 1, 1, 0])}, {"tags": bytes.fromhex("81000007")}):
        got = cut(lib, *udp.train(parts, **fields))
        assert got == [udp.packet(each, identification=n, **fields) for n, each in enumerate(parts)]


def test_a_train_over_ipv6(lib):
    parts = payloads(3, 64, 64, 64, 9)
    assert cut(lib, *udp.train6(parts)) == [udp.packet6(each) for each in parts]


def test_a_checksum_of_0_is_sent_as_65535(lib):
    """0 would say that there is none (RFC 768)."""
    for value in range(65_536):  # find a payload whose checksum comes out as 0
        part = value.to_bytes(2, "big")
        if udp.packet(part)[40:42] == b"\xff\xff":
            break
    assert cut(lib, *udp.train([part, part], ttl=9)) == [
        udp.packet(part, identification=n, ttl=9) for n in range(2)
    ]


def test_what_cannot_be_cut_is_refused(lib):
    offload, data = udp.train(payloads(4, 50, 50))
    kind, size = udp.OFFLOAD.unpack(offload)[1:4:2]
    for start, length, gso in ((34, 41, size), (len(data), len(data), size), (34, len(data), 0),
                               (20, len(data), size), (65_535, len(data), size)):  # fmt: skip
        damaged = udp.OFFLOAD.pack(1, kind, 42, gso, start, 6)
        assert cut(lib, damaged, data[:length]) is None
    _, longer = udp.train6(payloads(4, 50, 50))
    assert len(cut(lib, udp.OFFLOAD.pack(1, kind, 62, size, 54, 6), longer)) == 2
    for start, buffer in ((34, data), (54, data), (54, longer)):
        arp = buffer[:12] + b"\x08\x06" + buffer[14:]
        assert cut(lib, udp.OFFLOAD.pack(1, kind, start + 8, size, start, 6), arp) is None
    assert cut(lib, udp.OFFLOAD.pack(1, kind, 42, size, 34, 6), longer) is None


def test_random_buffers_never_reach_beyond_themselves(lib):
    """Whatever the offload header says: packets lie in the buffer (sanitizers run this, too)."""
    draw = random.Random(5)
    for _ in range(3000):
        offload, data = udp.train(payloads(draw.randrange(99), *[draw.randrange(1, 90)] * 3))
        damaged = bytearray(offload + data)
        for _ in range(draw.randrange(4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        data = bytes(damaged[10:])[: draw.randrange(len(data) + 1)]
        for each in cut(lib, bytes(damaged[:10]), data) or ():
            assert 0 < len(each) <= len(data)


def test_an_unfinished_checksum_is_completed(lib):
    for payload in payloads(6, 1, 2, 3, 260, 1001):
        whole = udp.packet(payload)
        partial = udp.OFFLOAD.pack(udp.NEEDS_CHECKSUM, 0, 0, 0, 34, 6) + udp.train([payload])[1]
        assert TrainCutter(lib).packets(partial) == [whole]
        assert TrainCutter(lib).packets(udp.NO_OFFLOAD + whole) == [whole]
    buffer = ctypes.create_string_buffer(whole, len(whole))
    for start, offset in ((40, 6), (34, 8), (len(whole) - 1, 0), (2**32 - 1, 6), (34, 2**32 - 1)):
        assert lib.train_complete_checksum(buffer, 42, start, offset) == -1
    ends = bytearray(random.Random(1).randbytes(42))
    buffer = ctypes.create_string_buffer(bytes(ends), 42)
    assert lib.train_complete_checksum(buffer, 42, 34, 7) == -1
    assert lib.train_complete_checksum(buffer, 42, 34, 6) == 0
    assert buffer.raw == ends[:40] + udp.checksum(ends[34:]).to_bytes(2, "big")
    buffer = ctypes.create_string_buffer(bytes(40) + b"\xff\xff", 42)
    assert lib.train_complete_checksum(buffer, 42, 34, 6) == 0
    assert buffer.raw[40:] == b"\xff\xff"  # instead of 0, which says that there is none


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("identifications", [(0, 0, 0, 0), (5, 900, 3, 5), (8, 9, 10, 11)])
def test_packets_that_are_joined_come_out_as_they_were(lib, checked, identifications):
    """But for what has no meaning: the number of a packet that may not be fragmented (RFC 6864),
    and that a UDP checksum has been left out."""
    parts = payloads(7, 260, 260, 260, 30)
    packets = [
        udp.packet(each, identification=number, checked=checked, traffic_class=3)
        for each, number in zip(parts, identifications, strict=True)
    ]
    first = identifications[0]
    assert cut(lib, *joined(lib, packets)) == [
        udp.packet(each, identification=first + n, traffic_class=3) for n, each in enumerate(parts)
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"macs": bytes.fromhex("020000000003020000000001")},
        {"macs": bytes.fromhex("020000000002020000000009")},
        {"source": "10.0.0.3"},
        {"target": "10.0.0.3"},
        {"ports": (18766, 18767)},
        {"ports": (18765, 18766)},
        {"ttl": 63},
        {"traffic_class": 3},  # ECN: congestion experienced
        {"fragment": 0},
    ],
)
def test_strangers_are_not_joined(lib, changes):
    one, other = udp.packet(bytes(50)), udp.packet(bytes(50), **changes)
    assert lib.train_matches(one, udp.packet(bytes(50)), 1)
    assert lib.train_payload(other, len(other)) == 50
    assert not lib.train_matches(one, other, 1)


def test_where_fragments_are_allowed_numbers_must_run_upwards(lib):
    def at(number: int) -> bytes:
        return udp.packet(bytes(50), identification=number, fragment=0)

    assert lib.train_matches(at(65_535), at(0), 1) and lib.train_matches(at(7), at(10), 3)
    assert not lib.train_matches(at(7), at(7), 1) and not lib.train_matches(at(7), at(9), 1)


def test_what_a_kernel_would_not_give_back_unchanged_leaves_alone(lib):
    whole = udp.packet(bytes(50))

    def payload(frame: bytes) -> int:
        return lib.train_payload(frame, len(frame))

    assert payload(whole) == 50
    assert payload(whole + bytes(4)) == 0  # padding
    assert payload(whole[:-1]) == 0
    assert payload(udp.packet(b"")) == 0
    assert payload(udp.packet(bytes(50), options=bytes(4))) == 0
    assert payload(udp.packet(bytes(50), tags=bytes.fromhex("81000007"))) == 0
    assert payload(udp.packet(bytes(50), fragment=0x2000)) == 0
    assert payload(udp.packet(bytes(50), fragment=3)) == 0
    assert payload(udp.packet6(bytes(50))) == 0
    for at in (17, 18, 24, 27, 30, 38, 41, 60):  # IPv4 checksum wrong; UDP's length, checksum, data
        assert payload(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]) == 0, at
