"""Packets on a switch's interfaces as pcap files, as BMv2's `--pcap` writes them.

For an interface NAME the packets that it receives are in NAME_in.pcap, those that are sent in
NAME_out.pcap. They are seen beside the switch, with a socket of their own.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

ETH_P_ALL = 3
NO_PROTOCOL = 0xFFFF  # of Ethernet: reserved, no packet has it
LONGEST = 1 << 18
FILE_HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, LONGEST, 1)  # Ethernet


class Capture:
    """Writes until `close`; a thread of its own. Raises OSError: no right, or no such folder."""

    def __init__(self, folder: Path, interfaces: Iterable[str]) -> None:
        self._sockets: dict[int, tuple[socket.socket, dict[bool, IO[bytes]]]] = {}
        self._stop = False
        for name in interfaces:
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            tap.bind((name, ETH_P_ALL))
            tap.setblocking(False)
            files: dict[bool, IO[bytes]] = {}
            for outgoing, suffix in ((False, "in"), (True, "out")):
                files[outgoing] = (folder / f"{name}_{suffix}.pcap").open("wb", buffering=0)
                files[outgoing].write(FILE_HEAD)
            self._sockets[tap.fileno()] = tap, files
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        poll = select.poll()
        for number in self._sockets:
            poll.register(number, select.POLLIN)
        while not self._stop:
            for number, _ in poll.poll(200):
                self._take(*self._sockets[number])

    @staticmethod
    def _take(tap: socket.socket, files: dict[bool, IO[bytes]]) -> bool:
        """Write a packet that waits; is there one?"""
        try:
            data, address = tap.recvfrom(LONGEST)
        except OSError:
            return False
        second, nanosecond = divmod(time.time_ns(), 10**9)
        head = struct.pack("<IIII", second, nanosecond // 1000, len(data), len(data))
        files[address[2] == socket.PACKET_OUTGOING].write(head + data)
        return True

    def close(self) -> None:
        """Write what has come by now, and no more."""
        self._stop = True
        self._thread.join()
        for tap, files in self._sockets.values():
            with contextlib.suppress(OSError):  # the interface may be gone
                tap.bind((tap.getsockname()[0], NO_PROTOCOL))
            while self._take(tap, files):
                pass
            tap.close()
            for file in files.values():
                file.close()
