"""A capture's file: its blocks, byte by byte, and its packets from the first to the last."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time

import pytest
from p4fabric.base.config import pcapng
from p4fabric.emulate import capture


def blocks(data: bytes) -> list[tuple[int, bytes]]:
    """(type, content) of each block of a pcapng file, whose lengths must be right."""
    found = []
    while data:
        kind, length = struct.unpack_from("<II", data)
        assert length % 4 == 0 and length >= 12
        assert struct.unpack_from("<I", data, length - 4) == (length,)
        found.append((kind, data[8 : length - 4]))
        data = data[length:]
    return found


def options(data: bytes) -> dict[int, bytes]:
    """The options at the end of a block, which end with one without content."""
    found = {}
    while True:
        code, length = struct.unpack_from("<HH", data)
        if code == 0:
            assert (length, len(data)) == (0, 4)
            return found
        found[code] = data[4 : 4 + length]
        data = data[4 + -(-length // 4) * 4 :]


def packets(file: bytes) -> list[tuple[int, int, bytes]]:
    """(time in ns, direction, data) of the packets in a file."""
    found = []
    for kind, content in blocks(file):
        if kind == 6:
            number, high, low, captured, length = struct.unpack_from("<IIIII", content)
            assert number == 0 and captured == length
            behind = 20 + -(-length // 4) * 4
            (direction,) = struct.unpack("<I", options(content[behind:])[2])
            assert not any(content[20 + length : behind])
            found.append((high << 32 | low, direction, content[20 : 20 + length]))
    return found


def test_a_file_has_the_blocks_of_the_format():
    made = pcapng.section_header() + pcapng.interface("s1-eth1", "port 1 of s1, to h1")
    made += b"".join(pcapng.packet(10**18 + n, 1 + n % 2, b"x" * n) for n in range(10))
    made += pcapng.statistics(12, 2)
    (header, version), (kind, described), *_, (last, counts) = blocks(made)
    assert header == 0x0A0D0D0A and version == struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    assert kind == 1 and described[:8] == struct.pack("<HHI", 1, 0, 0)
    assert options(described[8:]) == {2: b"s1-eth1", 3: b"port 1 of s1, to h1", 9: b"\x09"}
    assert packets(made) == [(10**18 + n, 1 + n % 2, b"x" * n) for n in range(10)]
    assert last == 5 and options(counts[12:]) == {
        4: struct.pack("<Q", 12),
        5: struct.pack("<Q", 2),
    }


@pytest.mark.parametrize("missed", [0, 2])
def test_a_capture_ends_with_its_signal_and_all_that_was_on_its_way(
    tmp_path, monkeypatch, capsys, missed
):
    """However far it is behind: here the signal finds three turns' worth of packets waiting."""
    pairs = {
        (pid, name): socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for pid, name in ((5, "s1-eth1"), (6, "h1-eth0"))
    }
    for ours, _ in pairs.values():
        ours.setblocking(False)
    monkeypatch.setattr(capture, "listen", lambda pid, name: pairs[pid, name][0])
    monkeypatch.setattr(capture, "_missed", lambda end: missed // 2)
    monkeypatch.setattr(capture, "AT_ONCE", 2)
    path = tmp_path / "s1-1.pcapng"
    head = bytes(capture.OFFLOAD.size)

    def traffic(*_) -> tuple[list, list, list]:
        assert path.exists()
        for n, ((_, end), count) in enumerate(zip(pairs.values(), (9, 3), strict=True)):
            for i in range(count):
                end.send(head + b"packet %d" % (10 * n + i))
        os.kill(os.getpid(), signal.SIGTERM)
        return [], [], []

    monkeypatch.setattr(capture.select, "select", traffic)
    arguments = {
        "switch": 5, "interface": "s1-eth1", "peer": 6, "peer_interface": "h1-eth0",
        "path": str(path), "title": "port 1", "library": None,
    }  # fmt: skip
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert capture.capture(arguments, []) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
        for pair in pairs.values():
            for end in pair:
                end.close()
    file = path.read_bytes()
    inward = [(0, pcapng.INBOUND, b"packet %d" % n) for n in range(9)]
    outward = [(0, pcapng.OUTBOUND, b"packet %d" % n) for n in range(10, 13)]
    assert sorted(packets(file)) == sorted([*inward, *outward])
    counts = options(blocks(file)[-1][1][12:])
    assert [struct.unpack("<Q", counts[code])[0] for code in (4, 5)] == [12 + missed, missed]
    said = capsys.readouterr().out
    assert said.startswith(f"2 of {12 + missed} packets were missed") if missed else said == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it listens to an interface")
def test_what_comes_in_at_an_interface_is_heard_with_its_time(tmp_path):
    """On the way out it is not heard: so once, on the interface of this machine alone."""
    secret = os.urandom(16)
    before_ns = time.time_ns()
    with (
        capture.listen(os.getpid(), "lo") as end,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own,
    ):
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= capture.BUFFER_BYTES
        own.bind(("127.0.0.1", 0))
        own.sendto(secret, own.getsockname())
        own.sendto(last := os.urandom(16), own.getsockname())
        with open(tmp_path / "file", "w+b") as file:
            found: list[tuple[int, int, bytes]] = []
            while not any(data.endswith(last) for _, _, data in found):
                capture._take(((end, pcapng.INBOUND),), file, None)
                file.flush()
                found = packets((tmp_path / "file").read_bytes())
        assert capture._missed(end) == 0
    times = [time_ns for time_ns, _, data in found if data.endswith(secret)]
    assert len(times) == 1 and before_ns <= times[0] <= time.time_ns()
