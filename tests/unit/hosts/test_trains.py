"""Rows into trains and trains into rows, over real sockets on the loopback interface, which passes
trains in one piece."""

from __future__ import annotations

import socket
import struct

import numpy as np
import pytest
from p4fabric.simulate.machine import Batch

from testbed.hosts import socket_calls, trains

WORDS = 16
FULL = 4 * WORDS


def batch(lengths: list[int], destinations: list[int] | None = None, rows: int = 300) -> Batch:
    """Rows of bytes that tell the row: n, n + 1, ... in row n."""
    packets = np.zeros((rows, WORDS), np.uint32)
    packets.view(np.uint8)[:] = np.add.outer(np.arange(rows), np.arange(FULL)) % 256
    made = Batch(packets, np.zeros(rows, np.int64), np.zeros(rows, np.int64))
    made.lengths[: len(lengths)] = lengths
    made.destinations[: len(lengths)] = destinations or 0
    return made


def payload(row: int, length: int) -> bytes:
    return bytes((row + i) % 256 for i in range(length))


def gathered(made: Batch, count: int, peers: int = 3) -> list[list[int]]:
    """The rows of each train."""
    leaving = trains.new_leaving(made, peers)
    found = []
    for train in range(trains.gather(leaving, made.lengths, made.destinations, count)):
        rows, row = [], leaving.first[train]
        while row != trains.NONE:
            rows.append(int(row))
            row = leaving.following[row]
        assert len(rows) == leaving.sizes[train] and rows[-1] == leaving.last[train]
        assert leaving.total[train] == sum(made.lengths[rows])
        found.append(rows)
    assert (leaving.open == trains.NONE).all()
    return found


def test_rows_of_one_length_go_together_and_a_shorter_one_ends_a_train():
    lengths = [64, 64, 64, 24, 64, 24, 24, 24, 64]
    assert gathered(batch(lengths), len(lengths)) == [[0, 1, 2, 3], [4, 5], [6, 7], [8]]


def test_each_destination_has_trains_of_its_own_in_order():
    destinations = [0, 1, 0, 2, 1, 0]
    made = batch([64] * 6, destinations)
    assert gathered(made, 6) == [[0, 2, 5], [1, 4], [3]]


def test_a_train_has_at_most_64_packets_and_fits_a_datagram():
    assert [len(each) for each in gathered(batch([64] * 150), 150)] == [64, 64, 22]
    long = Batch(np.zeros((64, 512), np.uint32), np.full(64, 2048), np.zeros(64, np.int64))
    assert [len(each) for each in gathered(long, 64)] == [31, 31, 2]


class Loopback:
    """A socket that sends trains, and others that receive them."""

    def __init__(self, receivers: int) -> None:
        self.sender, *self.receivers = (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(1 + receivers)
        )
        for each in self.receivers:
            each.setsockopt(trains.SOL_UDP, trains.UDP_GRO, 1)
            each.bind(("127.0.0.1", 0))
            each.settimeout(5)
        self._names = [self._name(each) for each in self.receivers]
        self.names = np.array([each.ctypes.data for each in self._names], np.uint64)

    @staticmethod
    def _name(receiver: socket.socket) -> np.ndarray:
        """The receiver's address as the kernel has it."""
        address, port = receiver.getsockname()
        name = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port)
        return np.frombuffer(name + socket.inet_aton(address) + bytes(8), np.uint8).copy()

    def send(self, made: Batch, count: int) -> int:
        leaving = trains.new_leaving(made, len(self.receivers))
        leaving.messages[:, socket_calls.NAME_LENGTH] = 16
        return trains.send(self.sender.fileno(), leaving, made, self.names, count)

    def close(self) -> None:
        for each in (self.sender, *self.receivers):
            each.close()


@pytest.fixture
def loopback():
    made = Loopback(2)
    yield made
    made.close()


def test_what_is_sent_in_trains_arrives_row_by_row(loopback):
    """Full rows lie side by side and are one piece; shorter ones are not. More arrive than fit into
    the rows: the rest comes with the next call."""
    lengths = [FULL] * 70 + [24] * 5 + [FULL, 24, 20] + [FULL] * 122
    destinations = [n % 3 % 2 for n in range(200)]
    made = batch(lengths, destinations)
    assert loopback.send(made, 200) == 200
    for peer, receiver in enumerate(loopback.receivers):
        rows = [n for n in range(200) if destinations[n] == peer]
        into = batch([], rows=50)
        arrived, got = trains.new_arrived(), []
        while len(got) < len(rows):
            count = trains.receive(receiver.fileno(), arrived, into)
            got += [into.packets[n].tobytes()[: into.lengths[n]] for n in range(count)]
            if len(got) < len(rows) and count < 50:
                receiver.recv(1, socket.MSG_PEEK)
        assert got == [payload(n, lengths[n]) for n in rows]
        assert trains.receive(receiver.fileno(), arrived, into) == 0


def test_single_and_empty_and_too_long_packets_are_rows_as_well(loopback):
    receiver = loopback.receivers[0]
    for data in (b"abc", b"", b"x" * (FULL + 9)):
        loopback.sender.sendto(data, receiver.getsockname())
    into = batch([])
    assert trains.receive(receiver.fileno(), trains.new_arrived(), into) == 3
    assert into.lengths[:3].tolist() == [3, 0, FULL]
    assert into.packets[0].tobytes()[:3] == b"abc" and into.packets[2].tobytes() == b"x" * FULL
