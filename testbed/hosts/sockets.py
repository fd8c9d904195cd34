"""Batches of UDP packets in and out of the kernel.

Python's sockets move one datagram per call. `recvmmsg` and `sendmmsg` move a whole batch between
the kernel and the rows of a machine's packet arrays, with one system call and without a copy in
between; ctypes reaches them, and numpy fills their descriptors.
"""

from __future__ import annotations

import ctypes
import select
import socket
import struct

import numpy as np

from testbed.workload.machine import Batch

SO_NO_CHECK = 11
SO_RCVBUFFORCE = 33
SO_SNDBUFFORCE = 32
SO_MEMINFO = 55
MEMINFO_DROPS = 8
IP_TOS_ECT0 = 2  # able to be marked by ECN
MSG_DONTWAIT = 0x40

_libc = ctypes.CDLL(None, use_errno=True)

_IOVEC = np.dtype([("base", np.uint64), ("length", np.uint64)])
_MMSGHDR = np.dtype(
    [
        ("name", np.uint64),
        ("name_length", np.uint32),
        ("pad", np.uint32),
        ("iov", np.uint64),
        ("iov_count", np.uint64),
        ("control", np.uint64),
        ("control_length", np.uint64),
        ("flags", np.int32),
        ("pad2", np.int32),
        ("length", np.uint32),
        ("pad3", np.uint32),
    ]
)


def _descriptors(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """One message descriptor per row of the batch, each with its own row as buffer."""
    rows, words = batch.packets.shape
    vectors = np.zeros(rows, _IOVEC)
    vectors["base"] = batch.packets.ctypes.data + np.arange(rows, dtype=np.uint64) * (4 * words)
    vectors["length"] = 4 * words
    messages = np.zeros(rows, _MMSGHDR)
    messages["iov"] = vectors.ctypes.data + np.arange(rows, dtype=np.uint64) * _IOVEC.itemsize
    messages["iov_count"] = 1
    return messages, vectors


class PacketSocket:
    """A UDP socket of one role, bound to its host's address, with its two batches.

    `peers` are the IPv4 addresses that the machine's destinations stand for."""

    def __init__(
        self,
        address: str,
        port: int,
        peers: list[str],
        arrived: Batch,
        out: Batch,
        buffer_bytes: int,
    ) -> None:
        self.arrived, self.out = arrived, out
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # A UDP checksum of 0 is valid over IPv4: Ethernet's own protects the bits, the switch
        # changes the values, and every sum is checked.
        self._socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, IP_TOS_ECT0)
        for forced, plain in (
            (SO_RCVBUFFORCE, socket.SO_RCVBUF),
            (SO_SNDBUFFORCE, socket.SO_SNDBUF),
        ):
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, forced, buffer_bytes)
            except PermissionError:
                self._socket.setsockopt(socket.SOL_SOCKET, plain, buffer_bytes)
        self._socket.bind((address, port))
        self.fd = self._socket.fileno()

        self._names = (ctypes.c_char * (16 * len(peers)))()
        for i, peer in enumerate(peers):
            name = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port)
            self._names[16 * i : 16 * i + 8] = name + socket.inet_aton(peer)
        base = ctypes.addressof(self._names)
        self._name_of = base + 16 * np.arange(len(peers), dtype=np.uint64)

        self._in, self._in_vectors = _descriptors(arrived)
        self._out, self._out_vectors = _descriptors(out)
        self._out["name_length"] = 16
        self._in_length = self._in["length"]
        self._out_name = self._out["name"]
        self._out_length = self._out_vectors["length"]
        self._in_address = self._in.ctypes.data
        self._out_address = self._out.ctypes.data
        self._rows = arrived.packets.shape[0]

    def receive(self) -> int:
        """Take what has arrived into the `arrived` batch; returns the number of packets."""
        count = _libc.recvmmsg(
            self.fd, ctypes.c_void_p(self._in_address), self._rows, MSG_DONTWAIT, None
        )
        if count <= 0:
            return 0
        self.arrived.lengths[:count] = self._in_length[:count]
        return count

    def send(self, count: int) -> int:
        """Send the first `count` packets of the `out` batch; returns how many the kernel took.

        It takes fewer only when its send buffer is full; those that are left count as dropped."""
        self._out_name[:count] = self._name_of[self.out.destinations[:count]]
        self._out_length[:count] = self.out.lengths[:count]
        done = 0
        while done < count:
            sent = _libc.sendmmsg(
                self.fd,
                ctypes.c_void_p(self._out_address + done * _MMSGHDR.itemsize),
                count - done,
                0,
            )
            if sent <= 0:
                if ctypes.get_errno() == 4:  # EINTR
                    continue
                break
            done += sent
        return done

    def wait(self, timeout_ns: int, other: int) -> bool:
        """Sleep until a packet arrives, `other` becomes readable or the time has passed.

        Returns True if `other` is readable."""
        return _wait(self.fd, other, timeout_ns)

    def drops(self) -> int | None:
        """Packets that the kernel dropped because this socket's buffer was full."""
        try:
            info = self._socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)
        except OSError:
            return None
        return struct.unpack("=9I", info)[MEMINFO_DROPS]

    def close(self) -> None:
        self._socket.close()


class _PollFd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


class _TimeSpec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_fds = (_PollFd * 2)()
_span = _TimeSpec()


def _wait(fd: int, other: int, timeout_ns: int) -> bool:
    """ppoll on two descriptors: select.poll counts in milliseconds, pacing needs microseconds."""
    _fds[0].fd, _fds[0].events, _fds[0].revents = fd, select.POLLIN, 0
    _fds[1].fd, _fds[1].events, _fds[1].revents = other, select.POLLIN, 0
    _span.seconds, _span.nanoseconds = divmod(max(0, timeout_ns), 10**9)
    _libc.ppoll(_fds, 2, ctypes.byref(_span), None)
    return bool(_fds[1].revents)


def precise_timers() -> None:
    """Let this process's sleeps end within a microsecond instead of fifty."""
    PR_SET_TIMERSLACK = 29
    _libc.prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)
