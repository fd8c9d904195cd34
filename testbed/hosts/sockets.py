"""A role's UDP socket, and the descriptors with which the kernel fills and reads its batches.

Python's sockets move one datagram per call. `recvmmsg` and `sendmmsg` move a whole batch between
the kernel and the rows of a machine's packet arrays, with one system call and without a copy in
between. This module makes the socket and the descriptors; `loop` uses them.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from p4fabric.simulate.machine import Batch

from testbed.hosts import socket_calls, trains

SO_NO_CHECK = 11
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
SO_MEMINFO = 55
MEMINFO_DROPS = 8
IP_TOS_ECT0 = 2  # able to be marked by ECN
SOCKADDR_BYTES = 16


class SocketSettings(NamedTuple):
    """Settings of a host's socket. in_trains: packets are sent and received in trains (trains.py),
    for which the interface must have checksum offload on. tos: bits of the class of its packets in
    IPv4's ToS."""

    in_trains: bool = False
    tos: int = 0


class Io(NamedTuple):
    """A socket as compiled code sees it. Rows as in the batches; socket_calls.py explains the
    words."""

    fd: int
    in_messages: np.ndarray  # uint64[rows, 8]
    in_vectors: np.ndarray  # uint64[rows, 2]
    out_messages: np.ndarray
    out_vectors: np.ndarray
    names: np.ndarray  # uint64[peers], addresses of sockaddr
    descriptors: np.ndarray  # int64[2], pollfd of the socket and of the control socket
    scratch: np.ndarray  # int64[2]
    in_trains: bool
    arrived: trains.Arrived
    leaving: trains.Leaving


class PacketSocket:
    """A UDP socket bound to its host's address, with the descriptors of its two batches.

    `peers` are the IPv4 addresses of the machine's destinations; `control` is the file
    descriptor of the socket to the runner, which ends every wait."""

    def __init__(
        self,
        address: str,
        port: int,
        peers: Sequence[str],
        arrived: Batch,
        out: Batch,
        control: int,
        buffer_bytes: int,
        settings: SocketSettings,
    ) -> None:
        self._kept: list[ctypes.Array] = []  # memory that `io` points to
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if settings.in_trains:
            # The kernel refuses to cut up datagrams without checksums. It leaves them to the
            # "network card", so they cost nothing here.
            self._socket.setsockopt(trains.SOL_UDP, trains.UDP_GRO, 1)
        else:
            # A UDP checksum of 0 is valid over IPv4: Ethernet's own protects the bits, the switch
            # changes the values, and every sum is checked.
            self._socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, IP_TOS_ECT0 | settings.tos)
        for forced, plain in (
            (SO_RCVBUFFORCE, socket.SO_RCVBUF),
            (SO_SNDBUFFORCE, socket.SO_SNDBUF),
        ):
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, forced, buffer_bytes)
            except PermissionError:
                self._socket.setsockopt(socket.SOL_SOCKET, plain, buffer_bytes)
        self._socket.bind((address, port))

        self._port = port
        in_messages, in_vectors = _descriptors(arrived)
        out_messages, out_vectors = _descriptors(out)
        out_messages[:, socket_calls.NAME_LENGTH] = SOCKADDR_BYTES
        self.io = Io(
            fd=self._socket.fileno(),
            in_messages=in_messages,
            in_vectors=in_vectors,
            out_messages=out_messages,
            out_vectors=out_vectors,
            names=np.zeros(0, np.uint64),
            descriptors=np.array([self._socket.fileno(), control], np.int64),
            scratch=np.zeros(2, np.int64),
            in_trains=settings.in_trains,
            arrived=trains.new_arrived(),
            leaving=trains.new_leaving(out, 0),
        )
        self.io.leaving.messages[:, socket_calls.NAME_LENGTH] = SOCKADDR_BYTES
        self.add_peers(peers)

    def add_peers(self, peers: Sequence[str]) -> int:
        """Append destinations; returns the place of the first one. `io` is another one then."""
        names, first = ctypes.create_string_buffer(SOCKADDR_BYTES * len(peers)), len(self.io.names)
        for i, peer in enumerate(peers):
            name = struct.pack("=H", socket.AF_INET) + struct.pack("!H", self._port)
            name += socket.inet_aton(peer)
            ctypes.memmove(ctypes.addressof(names) + SOCKADDR_BYTES * i, name, len(name))
        places = ctypes.addressof(names) + SOCKADDR_BYTES * np.arange(len(peers))
        self._kept.append(names)
        known = np.concatenate([self.io.names, places.astype(np.uint64)])
        leaving = self.io.leaving._replace(open=np.full(known.size, trains.NONE, np.int64))
        self.io = self.io._replace(names=known, leaving=leaving)
        return first

    def drops(self) -> int | None:
        """Packets that the kernel dropped because this socket's buffer was full."""
        try:
            info = self._socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)
        except OSError:
            return None
        return struct.unpack("=9I", info)[MEMINFO_DROPS]

    def close(self) -> None:
        self._socket.close()


def _descriptors(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """One message descriptor per row of the batch, each with its own row as buffer."""
    rows, words = batch.packets.shape
    places = np.arange(rows, dtype=np.uint64)
    vectors = np.zeros((rows, 2), np.uint64)
    vectors[:, 0] = batch.packets.ctypes.data + places * (4 * words)
    vectors[:, 1] = 4 * words
    messages = np.zeros((rows, 8), np.uint64)
    messages[:, socket_calls.VECTOR] = vectors.ctypes.data + places * 16
    messages[:, socket_calls.VECTORS] = 1
    return messages, vectors
