"""Blocks of a pcapng file, as captures of ports write them.

The format is https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html. Integers have the
byte order of this machine, which the file's first block tells.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from p4fabric.base.config.data_files import DataError, opened

MAX_BYTES = 16 << 30  # of a capture that is read
_PACKET, _FLAGS = 6, 2  # type of a packet's block, code of its option
INBOUND, OUTBOUND = 1, 2  # as the switch sees it


def section_header() -> bytes:
    """The block that a file begins with: byte order, version 1.0, length not known."""
    return _block(0x0A0D0D0A, struct.pack("=IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(name: str, title: str) -> bytes:
    """The next interface, numbered from 0: Ethernet, with times in nanoseconds."""
    options = _option(2, name.encode()) + _option(3, title.encode()) + _option(9, b"\x09")
    return _block(1, struct.pack("=HHI", 1, 0, 0) + options + _option(0, b""))


def packet(time_ns: int, direction: int, data: bytes, number: int = 0) -> bytes:
    """One packet of the interface with this number; `direction` is INBOUND or OUTBOUND."""
    head = struct.pack("=IIIII", number, time_ns >> 32, time_ns & 0xFFFF_FFFF, len(data), len(data))
    flags = _option(_FLAGS, struct.pack("=I", direction)) + _option(0, b"")
    return _block(_PACKET, head + _padded(data) + flags)


def statistics(received: int, dropped: int, number: int = 0) -> bytes:
    """The number of packets of an interface, and of those that are missing."""
    options = _option(4, struct.pack("=Q", received)) + _option(5, struct.pack("=Q", dropped))
    return _block(5, struct.pack("=III", number, 0, 0) + options + _option(0, b""))


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("=I", 12 + len(body))
    return struct.pack("=I", kind) + length + body + length


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class Packet(NamedTuple):
    """A captured packet. `interface`: its number in the file; `direction`: INBOUND, OUTBOUND, or 0
    if the file does not say."""

    time_ns: int
    interface: int
    direction: int
    frame: bytes


def packets(path: Path) -> Iterator[Packet]:
    """The packets of a file that captures have written on a machine of this byte order. A block
    that is cut off ends the file. Raises DataError for a file that is none."""
    with opened(path, MAX_BYTES) as file:
        if file.read(12) != section_header()[:12]:
            raise DataError(f"{path} can't be read: not a pcapng file of this machine's byte order")
        file.seek(0)
        while len(head := file.read(8)) == 8:
            kind, length = struct.unpack("=II", head)
            body = file.read(length - 8) if length >= 12 else b""
            if len(body) != length - 8:
                return
            if kind != _PACKET or len(body) < 24:
                continue
            interface, high, low, captured, _ = struct.unpack_from("=IIIII", body)
            end = 20 + captured
            direction = 0
            at = end + -captured % 4
            while at + 8 <= len(body) - 4:
                code, size = struct.unpack_from("=HH", body, at)
                if code == _FLAGS and size == 4:
                    direction = struct.unpack_from("=I", body, at + 4)[0] & 3
                if code == 0:
                    break
                at += 4 + size + -size % 4
            yield Packet(high << 32 | low, interface, direction, body[20:end])
