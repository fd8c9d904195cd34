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
from typing import Any

from tests.bmv2.entries import Bmv2Program, replay
from tests.bmv2.packets import plain

COMPILER = "p4c-bm2-ss"
MARK = b"the last packet."
PATIENCE_S = 60
DEEP = 10_000_000  # packets: no queue of BMv2 may overflow, as none of the embedded switch does
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
RECORD = struct.Struct("<IIII")


def why_not() -> str | None:
    """Why there is no BMv2 to compare with, None if there is."""
    missing = [name for name in (COMPILER, "simple_switch") if not shutil.which(name)]
    missing += [
        f"Python module {name}"
        for name in ("thrift", "bm_runtime", "sswitch_runtime")
        if importlib.util.find_spec(name) is None
    ]
    return f"no BMv2 here: missing {', '.join(missing)} (run.py doctor)" if missing else None


def compile_for_bmv2(
    source: Path, definitions: dict[str, int], include_dirs: Sequence[Path], target: Path
) -> Bmv2Program:
    """Have p4c make the JSON file `target`."""
    command = [COMPILER, str(source), "-o", str(target)]
    command += [f"-D{name}={value}" for name, value in definitions.items()]
    command += [f"-I{folder}" for folder in include_dirs]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr}")
    return Bmv2Program(target)


class SimpleSwitch:
    """A running simple_switch, filled with `calls`; use it in a `with`.

    Args:
        json: the compiled program; `program` its description.
        folder: an empty one, for pipes, output files and the log.
    """

    def __init__(
        self, json: Path, program: Bmv2Program, ports: Sequence[int], calls: list, folder: Path
    ) -> None:
        self.program = program
        self.ports = list(ports)
        self.folder = folder
        self.pipes: dict[int, int] = {}
        self.transport: Any = None
        try:
            for port in self.ports:
                path = folder / f"{port}_in.pcap"
                os.mkfifo(path)
                # Reading too, so that neither side waits for the other to open it.
                self.pipes[port] = os.open(path, os.O_RDWR | os.O_NONBLOCK)
                os.write(self.pipes[port], FILE_HEADER)
            self.process = self._start(json)
        except BaseException:
            self._close_pipes()
            raise
        try:
            self._connect()
            self.queues.set_all_egress_queue_depths(DEEP)
            replay(calls, program, self.standard, self.multicast)
        except BaseException:
            self.close()
            raise

    def _start(self, json: Path) -> subprocess.Popen:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.thrift_port = probe.getsockname()[1]
        command = ["simple_switch", "--use-files", "0", "--thrift-port", str(self.thrift_port)]
        known = subprocess.run(["simple_switch", "--help"], capture_output=True, text=True).stdout
        if "--notifications-addr" in known:  # built with nanomsg, it would leave a file behind
            command += ["--notifications-addr", f"ipc://{self.folder}/notifications"]
        for port in self.ports:
            command += ["-i", f"{port}@{self.folder}/{port}"]
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen([*command, str(json)], stdout=log, stderr=log)

    def _connect(self) -> None:
        from bm_runtime.simple_pre_lag import SimplePreLAG
        from bm_runtime.standard import Standard
        from sswitch_runtime import SimpleSwitch as Queues
        from thrift import Thrift
        from thrift.protocol import TBinaryProtocol, TMultiplexedProtocol
        from thrift.transport import TSocket, TTransport

        address = "127.0.0.1", self.thrift_port
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self._check(deadline)
            time.sleep(0.02)
            try:
                socket.create_connection(address).close()
            except ConnectionRefusedError:
                continue  # here, because Thrift would log every attempt
            self.transport = TTransport.TBufferedTransport(TSocket.TSocket(*address))
            binary = TBinaryProtocol.TBinaryProtocol(self.transport)
            self.standard, self.multicast, self.queues = (
                module.Client(TMultiplexedProtocol.TMultiplexedProtocol(binary, name))
                for name, module in (
                    ("standard", Standard),
                    ("simple_pre_lag", SimplePreLAG),
                    ("simple_switch", Queues),
                )
            )
            # It listens before it has all its services.
            try:
                self.transport.open()
                self.queues.get_time_elapsed_us()
                return
            except (Thrift.TApplicationException, TTransport.TTransportException):
                self.transport.close()

    def _check(self, deadline: float) -> None:
        """The switch lives, and the deadline has not passed."""
        if self.process.poll() is not None or time.monotonic() > deadline:
            log = (self.folder / "log").read_text(errors="replace")[-2000:]
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
        return {
            name: self.standard.bm_register_read_all(0, name) for name in self.program.registers
        }

    def close(self) -> None:
        self._close_pipes()
        if self.transport is not None:
            self.transport.close()
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
