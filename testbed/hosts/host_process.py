"""The process of one role (a worker, or a parameter server) on its host.

It makes the machine of its specification, says that it is ready, starts at the instant that the
runner names, and then does one thing: packets that have arrived go into the machine, packets that
it fills go out, and it sleeps until the machine's deadline or the next packet. What it has counted
and timed is written to a file when it ends.

Messages over `control`, a SOCK_SEQPACKET socket, are JSON:
  to the runner    {"ready": true, "pid": N}, then {"done": {...}} or {"failed": "..."}
  from the runner  {"start_ns": T on CLOCK_MONOTONIC}, {"stop": true}
A worker is done by itself; a server, which must serve the slowest worker, when it is told to stop.

A worker whose values a program gives (program_link.py) is done when that program has ended:
  to the runner    {"joined": true}: its program has joined the job; {"disagree": "..."}: the job
                   cannot go on
  from the runner  {"ended": true}: its program has ended; {"left": [rank, collectives]}: another
                   rank's program has; {"abort": "..."}: the job is over, for this reason

The board is a row of shared memory that the runner reads for progress and for signs of life.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from testbed.hosts import packet_loop as loop
from testbed.hosts import progress_board
from testbed.hosts.program_link import ProgramLink
from testbed.hosts.shared_times import ITERATION_TIMES, TENSOR_TIMES, attach
from testbed.hosts.sockets import Io, PacketSocket
from testbed.linux.kernel import wake_promptly
from testbed.protocols import lag, wire
from testbed.protocols.host_spec import HostSpec, PlannedWorker, ServerStripes
from testbed.protocols.records import as_dict
from testbed.schemes import new_machine
from testbed.workload import machine, worker
from testbed.workload.placed_machine import Placed, Stepper, raised

ROWS_IN = 256
ROWS_OUT = 256
SERVER_ROWS_OUT = 1024
SOCKET_BUFFER_BYTES = 16 << 20
# What a running host is told of a new plan, by whether it is a worker.
_PLANNED: dict[bool, type[PlannedWorker] | type[ServerStripes]] = {
    True: PlannedWorker,
    False: ServerStripes,
}


class _Role:
    """A machine with what the loop must know of it."""

    def __init__(self, spec: HostSpec, output: Path) -> None:
        self.spec = spec
        self.output = output
        self.is_worker = spec.is_worker
        self.machine = new_machine(spec)
        self.said_done = False
        self.link: ProgramLink | None = None
        self.arrived = machine.new_batch(ROWS_IN, spec.job.values, spec.job.bitmap_width)
        self.out = machine.new_batch(
            ROWS_OUT if self.is_worker else SERVER_ROWS_OUT, spec.job.values, spec.job.bitmap_width
        )
        self._place()

    def _place(self) -> None:
        self._parts = [Placed(part) for part in (self.machine, self.arrived, self.out)]
        self._stepper = Stepper(self.machine, self.arrived, self.out)
        self._stepped = np.array(
            [self._stepper.address, *(part.address for part in self._parts)], np.int64
        )

    def share(self, times: Mapping[str, np.ndarray]) -> None:
        """Move the machine's times into shared memory."""
        self.machine = attach(self.machine, dict(times))
        self._place()

    def join(self, link: ProgramLink) -> None:
        """Attach the machine to the memory of a program."""
        self.link = link
        self.machine = worker.attach(self.machine, link.memory)
        self._place()

    @property
    def lags(self) -> np.ndarray:
        """A worker's lags; see protocols/lag.py."""
        protocol = self.machine.protocol
        return (protocol if hasattr(protocol, "lag") else protocol.worker).lag

    def go_on(self, part: PlannedWorker | ServerStripes) -> None:
        """Go on with another part of a plan."""
        self.machine = machine.on_new_way(self.machine, part)
        self._place()

    def run(self, io: Io, board: np.ndarray, origin_ns: int) -> int:
        """Run the loop until it has something to say (see loop.py)."""
        news = not self.said_done
        reason = loop.run(
            self._stepped,
            self.machine.status,
            self.machine.counters,
            self.machine.counters.view(np.int64),
            self.arrived,
            self.out,
            io,
            board,
            origin_ns,
            news,
        )
        if reason == loop.RAISED:
            raise raised.pop()
        return reason

    def failure(self) -> str | None:
        """The first wrong value, by job, iteration, tensor and position, or None."""
        if not self.machine.status[0].failed:
            return None
        return machine.wrong_value(self.spec, self.machine)


def run_host(
    spec: HostSpec,
    output: Path,
    board: np.ndarray,
    control: socket.socket,
    *,
    in_trains: bool = False,
    times: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Run one role to its end; returns when the runner says stop, or after a failure.

    A worker's times go to the file `output`; `board` is the role's row of shared memory.
    `in_trains`: see `PacketSocket`. times: where the runner reads a worker's times meanwhile (see
    shared_times.py); None: it does not."""
    role = _Role(spec, output)
    if times:
        role.share(times)
    watched = control.fileno()
    if spec.is_worker and spec.job.program:
        role.join(ProgramLink(spec, watched))
        assert role.link is not None
        watched = role.link.fileno()
    packets = PacketSocket(
        spec.address,
        wire.PORT,
        spec.peers,
        role.arrived,
        role.out,
        watched,
        SOCKET_BUFFER_BYTES,
        in_trains,
    )
    try:
        wake_promptly()
        gc.disable()  # a collection would write to, and so copy, every page shared with the parent
        _send_message(control, ready=True, pid=os.getpid())
        message = _receive_message(control)
        if "start_ns" in message:
            _serve(role, packets, board, control, message["start_ns"])
    finally:
        packets.close()
        if role.link is not None:
            role.link.close()


def _serve(
    role: _Role, packets: PacketSocket, board: np.ndarray, control: socket.socket, origin_ns: int
) -> None:
    board[progress_board.DUE_NS] = origin_ns
    while (early := origin_ns - time.monotonic_ns()) > 0:
        board[progress_board.HEARTBEAT_NS] = time.monotonic_ns()
        time.sleep(min(early / 1e9, 0.05))
    board[progress_board.STATE] = progress_board.RUNNING
    while True:
        reason = role.run(packets.io, board, origin_ns)
        if reason == loop.WRONG_VALUE:
            board[progress_board.STATE] = progress_board.FAILED
            _write_tables(role)
            _send_message(control, failed=role.failure())
            _receive_message(control)
            return
        if reason == loop.FINISHED:
            _finish(role, packets, board, control)
            continue
        if reason == loop.NEWS:
            assert role.link is not None
            why = role.link.tell(role.machine)
            if why is not None:
                _send_message(control, disagree=why)
            continue
        if role.link is not None:
            said = role.link.attend(role.machine)
            if role.link.joined:
                role.link.joined = False
                _send_message(control, joined=True)
            if not said:
                continue
        message = _receive_message(control)
        if role.link is not None:
            _about_program(role.link, role.machine, message)
        if "planned" in message:
            role.go_on(_PLANNED[role.is_worker].from_json(message["planned"]))
            board[progress_board.DUE_NS] = time.monotonic_ns()
        if not message or "stop" in message:
            if not role.said_done:
                _finish(role, packets, board, control)
            return


def _about_program(link: ProgramLink, machine: Any, message: dict) -> None:
    """The runner's messages about programs."""
    if "ended" in message:
        link.end(machine)
    if "left" in message:
        link.rank_left(machine, *message["left"])
    if "abort" in message:
        link.fail(message["abort"])


def _finish(role: _Role, packets: PacketSocket, board: np.ndarray, control: socket.socket) -> None:
    role.said_done = True
    board[progress_board.STATE] = progress_board.DONE
    _write_tables(role)
    _send_message(control, done=_totals(role, packets, board))


def _totals(role: _Role, packets: PacketSocket, board: np.ndarray) -> dict:
    """Numbers that the runner writes into the tables `hosts` and `jobs`."""
    cpu = time.process_time_ns()
    totals: dict[str, int | None] = dict(as_dict(role.machine.counters))
    totals |= {
        "packets_sent": int(board[progress_board.PACKETS_SENT]),
        "packets_received": int(board[progress_board.PACKETS_RECEIVED]),
        "bytes_sent": int(board[progress_board.BYTES_SENT]),
        "bytes_received": int(board[progress_board.BYTES_RECEIVED]),
        "unsent": int(board[progress_board.UNSENT]),
        "still_ns": int(board[progress_board.STILL_NS]),
        "socket_drops": packets.drops(),
        "cpu_ns": cpu,
        "pss_bytes": _proportional_set_bytes(),
    }
    if role.is_worker:
        lags = role.lags
        totals |= {
            "lag_p50_ns": lag.percentile(lags, 0.50),
            "lag_p99_ns": lag.percentile(lags, 0.99),
            "lag_max_ns": int(lags[lag.MAXIMUM]),
        }
        if role.link is None:
            totals["end_ns"] = int(role.machine.source.end_ns[-1])
        else:
            totals["end_ns"] = int(role.machine.source.state.end_ns)
            totals["calls"] = int(role.machine.source.state.submitted)
    return totals


def _proportional_set_bytes() -> int | None:
    """Memory of this process, pages shared with k processes counted as 1/k (Linux's PSS)."""
    try:
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _write_tables(role: _Role) -> None:
    """The times that belong into the tables `iterations` and `tensors`, as an .npz.

    int64 ns since the run's start, -1 for never: start_ns, compute_end_ns, end_ns of each iteration
    [I]; forward_start_ns, forward_end_ns, ready_ns, first_sent_ns, done_ns of each iteration and
    tensor [I, T]. A server has none, and a program has no iterations that anybody knows of."""
    if not role.is_worker:
        return
    if role.link is not None:
        times: dict[str, Any] = dict.fromkeys(ITERATION_TIMES, np.zeros(0, np.int64))
        times |= dict.fromkeys(TENSOR_TIMES, np.zeros((0, 0), np.int64))
        with open(role.output, "wb") as file:
            np.savez(file, **times)
        return
    scoreboard, training = role.machine.scoreboard, role.machine.source
    with open(role.output, "wb") as file:
        np.savez(
            file,
            start_ns=training.start_ns,
            compute_end_ns=training.compute_end_ns,
            end_ns=training.end_ns,
            forward_start_ns=training.forward_start_ns,
            forward_end_ns=training.forward_end_ns,
            ready_ns=scoreboard.ready_ns,
            first_sent_ns=scoreboard.first_sent_ns,
            done_ns=scoreboard.done_ns,
        )


def _send_message(control: socket.socket, **message: object) -> None:
    control.send(json.dumps(message).encode())


def _receive_message(control: socket.socket) -> dict:
    """The runner's next message; {} when the runner is gone."""
    data = control.recv(1 << 16)
    return json.loads(data) if data else {}


def load(specs: Sequence[Mapping[str, Any]]) -> None:
    """Compile what hosts of these kinds run, or load it from the cache, so that the processes
    forked later share it. specs: of `HostSpec.small`, as `to_json` gives them."""
    with _without_blas():
        for spec in specs:
            _load(_Role(HostSpec.from_json(spec), Path(os.devnull)))


@contextlib.contextmanager
def _without_blas() -> Iterator[None]:
    """numba looks for a library of linear algebra when it first compiles or loads something, which
    imports scipy, and takes a quarter of a second. No host multiplies matrices."""
    name = "scipy.linalg.cython_blas"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # an import of it raises ImportError
    try:
        yield
    finally:
        del sys.modules[name]


def _load(role: _Role) -> None:
    """Run the loop up to a message that waits already, at a time before the role's start."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"x")
        packets = PacketSocket(
            role.spec.address, 0, role.spec.peers, role.arrived, role.out, theirs.fileno(), 1 << 16
        )
        board = np.zeros(progress_board.COLUMNS, np.int64)
        role.run(packets.io, board, time.monotonic_ns() + 10**12)
        packets.close()
