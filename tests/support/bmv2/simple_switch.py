"""BMv2's simple_switch as a function of packets: a sequence goes in, what left each port comes out.

The switch reads its packets from capture files (its option --use-files), which needs neither root
nor interfaces. The files are named pipes: it starts with the first packet when the tables are full
and not after a guessed time, and it is never sent more than it takes. In these files packets of all
ports have one order, their timestamps'; ingress is one thread, so that order is kept.

At the end every port gets a packet with a mark. When the marks have come out, so has everything
before them.
"""

from __future__ import annotations

import importlib.util
import os
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed.bmv2 import simple_switch as process
from testbed.bmv2.compiler import BACK_END, DRIVER
from testbed.bmv2.connection import Connection, p4utils_api, wait
from testbed.bmv2.control_client import Client
from testbed.bmv2.link_queues import DEEP_PACKETS
from tests.support.bmv2.packets import plain

MARK = b"the last packet."
PATIENCE_S = 60
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
RECORD = struct.Struct("<IIII")


def why_not() -> str | None:
    """Reason why there is no BMv2 to compare with; None if there is."""
    missing = [] if shutil.which(BACK_END) or shutil.which(DRIVER) else [f"{BACK_END} or {DRIVER}"]
    missing += [] if shutil.which(process.SIMPLE_SWITCH) else [process.SIMPLE_SWITCH]
    missing += [
        f"Python module {name}"
        for name in ("thrift", "bm_runtime", "sswitch_runtime", "p4utils")
        if importlib.util.find_spec(name) is None
    ]
    return f"no BMv2 here: missing {', '.join(missing)} (ina doctor)" if missing else None


class SimpleSwitch:
    """A running simple_switch, filled with `calls`; use it in a `with`.

    Args:
        json: the compiled program.
        folder: an empty one, for pipes, output files and the log.
    """

    def __init__(self, json: Path, ports: Sequence[int], calls: list, folder: Path) -> None:
        self.ports = list(ports)
        self.folder = folder
        self.log = folder / "log"
        self.pipes: dict[int, int] = {}
        self.process: subprocess.Popen | None = None
        self.connection: Connection | None = None
        try:
            for port in self.ports:
                path = folder / f"{port}_in.pcap"
                os.mkfifo(path)
                # Reading too, so that neither side waits for the other to open it.
                self.pipes[port] = os.open(path, os.O_RDWR | os.O_NONBLOCK)
                os.write(self.pipes[port], FILE_HEADER)
            self._start(json)
            wait(self.connection, self._alive, "under test", self.log)
            self.api = p4utils_api(self.connection.clients, json)
            self.client = Client(self.api, "under test", self.connection.close)
            # No queue may overflow, as none of the embedded switch does.
            self.client.batch([("queue_depth", DEEP_PACKETS, port) for port in self.ports])
            self.client.batch(calls)
        except BaseException:
            self.close()
            raise

    def _start(self, json: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        files = {port: str(self.folder / str(port)) for port in self.ports}
        command = process.command(
            json,
            files,
            thrift_port=port,
            notifications=self.folder / "notifications",
            more=("--use-files", "0"),
        )
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.connection = Connection(port=port)

    def _alive(self) -> bool:
        return self.process.poll() is None

    def _check(self, deadline: float) -> None:
        """The switch lives, and the deadline has not passed."""
        if not self._alive() or time.monotonic() > deadline:
            log = self.log.read_text(errors="replace")[-2000:]
            state = self.process.returncode
            what = "does not answer" if state is None else f"ended with {state}"
            raise RuntimeError(f"simple_switch {what}:\n{log}")

    def run(self, packets: Sequence[tuple[int, bytes]]) -> dict[int, list[bytes]]:
        """Send (port, packet), ... in this order; what has left, by port, in order. Only once.

        The last packets must be `marks` for all ports."""
        waiting = {port: bytearray() for port in self.ports}
        for number, (port, data) in enumerate(packets):
            seconds, microseconds = divmod(number, 1_000_000)
            waiting[port] += RECORD.pack(seconds, microseconds, len(data), len(data)) + data
        self._pump(waiting)
        self._wait_for_marks()
        return {port: list(self._records(port)) for port in self.ports}

    def _pump(self, waiting: dict[int, bytearray]) -> None:
        poll = select.poll()
        for port in self.ports:
            poll.register(self.pipes[port], select.POLLOUT)
        port_of = {descriptor: port for port, descriptor in self.pipes.items()}
        rest = {port: memoryview(data) for port, data in waiting.items()}
        deadline = time.monotonic() + PATIENCE_S
        while self.pipes:
            for descriptor, _ in poll.poll(200):
                port = port_of[descriptor]
                rest[port] = rest[port][os.write(descriptor, rest[port][:32768]) :]
                deadline = time.monotonic() + PATIENCE_S
                if not rest[port]:  # the end of the file
                    poll.unregister(descriptor)
                    os.close(self.pipes.pop(port))
            self._check(deadline)

    def _wait_for_marks(self) -> None:
        missing, size = set(self.ports), -1
        deadline = time.monotonic() + PATIENCE_S
        while missing:
            self._check(deadline)
            grown = sum(self._output(port).stat().st_size for port in self.ports)
            if grown != size:
                size, deadline = grown, time.monotonic() + PATIENCE_S
            missing = {port for port in missing if not self._ends_with_mark(port)}
            time.sleep(0.02)

    def _output(self, port: int) -> Path:
        return self.folder / f"{port}_out.pcap"

    def _ends_with_mark(self, port: int) -> bool:
        with self._output(port).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(MARK)))
            return file.read() == MARK

    def _records(self, port: int) -> Iterator[bytes]:
        data = self._output(port).read_bytes()
        at = len(FILE_HEADER)
        while at < len(data):
            _, _, length, _ = RECORD.unpack_from(data, at)
            at += RECORD.size + length
            yield data[at - length : at]

    def registers(self) -> dict[str, list[int]]:
        """All registers, by full name."""
        return {name: self.client.register_read(name) for name in self.api.get_register_arrays()}

    def close(self) -> None:
        self._close_pipes()
        if self.connection is not None:
            self.connection.close()
        if self.process is not None:
            self.process.kill()  # it has nothing to put in order
            self.process.wait()

    def _close_pipes(self) -> None:
        while self.pipes:
            os.close(self.pipes.popitem()[1])

    def __enter__(self) -> SimpleSwitch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def marks(address_of_port: dict[int, str]) -> list[tuple[int, bytes]]:
    """A marked packet for every port, given a destination behind each; each goes in at its own."""
    return [(port, plain(address, MARK)) for port, address in address_of_port.items()]
