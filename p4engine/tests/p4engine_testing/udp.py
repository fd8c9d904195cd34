"""UDP packets and trains of them, built from the RFCs (791, 768, 1071, 8200) for tests of packet
I/O, independent of the code under test."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

MACS = bytes.fromhex("020000000002020000000001")
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17
DONT_FRAGMENT = 0x4000
NEEDS_CHECKSUM, UDP_SEGMENTATION = 1, 5  # of a virtio_net_hdr
OFFLOAD = struct.Struct("=BBHHHH")  # flags, type, header length, segment size, start, offset
NO_OFFLOAD = bytes(OFFLOAD.size)


def checksum(data: bytes) -> int:
    """The internet checksum of some bytes."""
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def packet(
    payload: bytes,
    *,
    identification: int = 0,
    fragment: int = DONT_FRAGMENT,
    traffic_class: int = 0,
    ttl: int = 64,
    source: str = "10.0.0.1",
    target: str = "10.0.0.2",
    ports: tuple[int, int] = (18766, 18766),
    checked: bool = True,
    options: bytes = b"",
    tags: bytes = b"",
    macs: bytes = MACS,
) -> bytes:
    """An Ethernet frame with a UDP datagram over IPv4; `checked`: with a UDP checksum."""
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    datagram = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
    if checked:
        pseudo = addresses + struct.pack("!HH", UDP, len(datagram))
        value = checksum(pseudo + datagram) or 0xFFFF
        datagram = datagram[:6] + struct.pack("!H", value) + datagram[8:]
    header = struct.pack(
        "!BBHHHBBH",
        0x45 + len(options) // 4,
        traffic_class,
        20 + len(options) + len(datagram),
        identification & 0xFFFF,
        fragment,
        ttl,
        UDP,
        0,
    )
    header += addresses + options
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return macs + tags + struct.pack("!H", IPV4) + header + datagram


def train(payloads: Sequence[bytes], **fields) -> tuple[bytes, bytes]:
    """(offload header, buffer) of UDP segmentation, as a kernel passes a train on: the headers of
    one long datagram, with the UDP checksum left unfinished."""
    tags, options = fields.get("tags", b""), fields.get("options", b"")
    whole = bytearray(packet(b"".join(payloads), checked=False, **fields))
    start = 14 + len(tags) + 20 + len(options)
    ip = 14 + len(tags)
    pseudo = bytes(whole[ip + 12 : ip + 20]) + struct.pack("!HH", UDP, len(whole) - start)
    whole[start + 6 : start + 8] = struct.pack("!H", checksum(pseudo) ^ 0xFFFF)
    size = len(payloads[0])
    offload = OFFLOAD.pack(NEEDS_CHECKSUM, UDP_SEGMENTATION, start + 8, size, start, 6)
    return offload, bytes(whole)


def packet6(payload: bytes, ports: tuple[int, int] = (7, 9)) -> bytes:
    """An Ethernet frame with a UDP datagram over IPv6."""
    addresses = socket.inet_pton(socket.AF_INET6, "fd00::1")
    addresses += socket.inet_pton(socket.AF_INET6, "fd00::2")
    datagram = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
    value = checksum(addresses + struct.pack("!II", len(datagram), UDP) + datagram) or 0xFFFF
    datagram = datagram[:6] + struct.pack("!H", value) + datagram[8:]
    header = struct.pack("!IHBB", 6 << 28, len(datagram), UDP, 64) + addresses
    return MACS + struct.pack("!H", IPV6) + header + datagram


def train6(payloads: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The same over IPv6."""
    whole = bytearray(packet6(b"".join(payloads)))
    length = len(whole) - 54
    whole[60:62] = struct.pack(
        "!H", checksum(whole[22:54] + struct.pack("!II", length, UDP)) ^ 0xFFFF
    )
    offload = OFFLOAD.pack(NEEDS_CHECKSUM, UDP_SEGMENTATION, 62, len(payloads[0]), 54, 6)
    return offload, bytes(whole)
