"""The process of one role (a worker, or a parameter server) on its host.

It makes the machine of its specification, says that it is ready, starts at the instant that the
runner names, and then does one thing: packets that have arrived go into the machine, packets that
it fills go out, and it sleeps until the machine's deadline or the next packet. What it has counted
and timed is written to a file when it ends.

Messages over `control`, a SOCK_SEQPACKET socket, are JSON:
  to the runner    {"ready": true, "pid": N}, then {"done": {...}} or {"failed": "..."}
  from the runner  {"start_ns": T on CLOCK_MONOTONIC}, {"stop": true}
A worker is done by itself; a server, which must serve the slowest worker, when it is told to stop.

The board is a row of shared memory that the runner reads for progress and for signs of life.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import time
from pathlib import Path

import numpy as np

from testbed.hosts.sockets import PacketSocket, precise_timers
from testbed.protocols import book as bk
from testbed.protocols import counters as n
from testbed.protocols import lag, pool_worker, wire
from testbed.workload import gradients, machine, training

ROWS_IN = 256
ROWS_OUT = 256
SERVER_ROWS_OUT = 1024
SOCKET_BUFFER_BYTES = 16 << 20
HEARTBEAT_NS = 50_000_000
LONGEST_SLEEP_NS = 50_000_000

# Columns of a board row
HEARTBEAT, ITERATION, SENT, FINISHED, BYTES_SENT, BYTES_RECEIVED, STATE, PACKETS_SENT = range(8)
PACKETS_RECEIVED, RETRANSMISSIONS = 8, 9
STARTING, RUNNING, DONE, FAILED = range(4)


class _Role:
    """A machine with what the loop must know of it."""

    def __init__(self, spec: dict) -> None:
        self.spec = spec
        self.is_worker = spec["role"] == "worker"
        if self.is_worker:
            self.machine = machine.new_worker(spec, gradients.of_worker(spec))
            self.step = machine.step_worker
            self.counters = self.machine.protocol.counters
            out_rows = ROWS_OUT
        else:
            self.machine = machine.new_server(spec)
            self.step = machine.step_server
            self.counters = self.machine.counters
            out_rows = SERVER_ROWS_OUT
        self.arrived = machine.new_batch(ROWS_IN, spec["values"], spec["bitmap_width"])
        self.out = machine.new_batch(out_rows, spec["values"], spec["bitmap_width"])

    def finished(self) -> bool:
        return self.is_worker and self.machine.training.s[training.PHASE] == training.FINISHED

    def failure(self) -> str | None:
        """The first wrong value, by job, iteration, tensor and position, or None."""
        if not self.is_worker or not self.machine.protocol.s[pool_worker.FAILED]:
            return None
        s, b = self.machine.protocol.s, self.machine.book
        fragment = int(s[pool_worker.FAILED_FRAGMENT])
        tensor = int(b.tensor[fragment])
        position = (fragment - int(b.first[tensor])) * self.spec["values"]
        position += int(s[pool_worker.FAILED_POSITION])
        return (
            f"wrong value: job {self.spec['job_name']}, iteration {int(b.s[bk.ITERATION])}, "
            f"tensor {self.spec['tensors'][tensor]['name']} ({tensor}), position {position}: "
            f"got {int(s[pool_worker.FAILED_FOUND])}, "
            f"expected {int(s[pool_worker.FAILED_EXPECTED])} "
            f"(worker {self.spec['worker']} on {self.spec['host']})"
        )

    def iterations_finished(self) -> int:
        if self.is_worker:
            return int(np.count_nonzero(self.machine.training.end_ns >= 0))
        return int(self.machine.s[3]) + 1


def run_host(spec: dict, board: np.ndarray, control: socket.socket) -> None:
    """Run one role to its end; returns when the runner says stop, or after a failure."""
    role = _Role(spec)
    packets = PacketSocket(
        spec["address"], wire.PORT, spec["peers"], role.arrived, role.out, SOCKET_BUFFER_BYTES
    )
    try:
        precise_timers()
        _warm_up(role)
        gc.collect()
        gc.freeze()
        gc.disable()
        _say(control, ready=True, pid=os.getpid())
        message = _hear(control)
        if "start_ns" in message:
            _loop(role, packets, board, control, message["start_ns"])
    finally:
        packets.close()


def _warm_up(role: _Role) -> None:
    """Load the compiled step before time counts: one step before the run's start does nothing."""
    role.step(role.machine, -(1 << 40), role.arrived, 0, role.out)


def _loop(
    role: _Role, packets: PacketSocket, board: np.ndarray, control: socket.socket, origin_ns: int
) -> None:
    clock, step, machine_ = time.monotonic_ns, role.step, role.machine
    arrived, out = role.arrived, role.out
    other = control.fileno()
    header_bytes = wire.FRAME_OVERHEAD
    while (early := origin_ns - clock()) > 0:
        board[HEARTBEAT] = clock()
        time.sleep(min(early, LONGEST_SLEEP_NS) / 1e9)
    board[STATE] = RUNNING
    said_done = False
    heartbeat = 0
    unsent = 0
    while True:
        count = packets.receive()
        now = clock() - origin_ns
        if count:
            board[PACKETS_RECEIVED] += count
            board[BYTES_RECEIVED] += int(arrived.lengths[:count].sum()) + header_bytes * count
        filled, deadline = step(machine_, now, arrived, count, out)
        if filled:
            sent = packets.send(filled)
            unsent += filled - sent
            board[PACKETS_SENT] += sent
            board[BYTES_SENT] += int(out.lengths[:sent].sum()) + header_bytes * sent
        if now - heartbeat > HEARTBEAT_NS:
            heartbeat = now
            _update_board(role, board, clock())
            if role.is_worker and not said_done and (failure := role.failure()):
                board[STATE] = FAILED
                _say(control, failed=failure)
                _hear(control)
                return
        if role.is_worker and not said_done and role.finished():
            said_done = True
            _update_board(role, board, clock())
            board[STATE] = DONE
            _write_tables(role, packets, unsent, origin_ns)
            _say(control, done=_totals(role, packets, board, unsent))
        # A failed check must not wait for the heartbeat, and a full batch not for the poll.
        if count == ROWS_IN or filled == out.packets.shape[0]:
            continue
        pause = min(deadline - (clock() - origin_ns), LONGEST_SLEEP_NS)
        if pause > 0 and packets.wait(pause, other):
            message = _hear(control)
            if "stop" in message or not message:
                if not said_done:
                    _update_board(role, board, clock())
                    board[STATE] = DONE
                    _write_tables(role, packets, unsent, origin_ns)
                    _say(control, done=_totals(role, packets, board, unsent))
                return


def _update_board(role: _Role, board: np.ndarray, now_ns: int) -> None:
    board[HEARTBEAT] = now_ns
    board[ITERATION] = role.iterations_finished()
    board[SENT] = role.counters[n.GRADIENT_PACKETS]
    board[FINISHED] = role.counters[n.RESULTS]
    board[RETRANSMISSIONS] = role.counters[n.RETRANSMISSIONS]


def _totals(role: _Role, packets: PacketSocket, board: np.ndarray, unsent: int) -> dict:
    """What the runner writes into the tables `hosts` and `jobs`."""
    cpu = time.process_time_ns()
    totals = {name: int(value) for name, value in zip(n.NAMES, role.counters, strict=True)}
    totals |= {
        "packets_sent": int(board[PACKETS_SENT]),
        "packets_received": int(board[PACKETS_RECEIVED]),
        "bytes_sent": int(board[BYTES_SENT]),
        "bytes_received": int(board[BYTES_RECEIVED]),
        "unsent": unsent,
        "socket_drops": packets.drops(),
        "cpu_ns": cpu,
        "pss_bytes": _proportional_set_bytes(),
    }
    if role.is_worker:
        lags = role.machine.training.lag
        totals |= {
            "lag_p50_ns": lag.percentile(lags, 0.50),
            "lag_p99_ns": lag.percentile(lags, 0.99),
            "lag_max_ns": int(lags[lag.MAXIMUM]),
            "end_ns": int(role.machine.training.end_ns[-1]),
        }
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


def _write_tables(role: _Role, packets: PacketSocket, unsent: int, origin_ns: int) -> None:
    """The times that belong into the tables `iterations` and `tensors`, as an .npz.

    int64 ns since the run's start, -1 for never: start_ns, compute_end_ns, end_ns of each iteration
    [I]; ready_ns, first_sent_ns, done_ns of each iteration and tensor [I, T]. A server has none."""
    if not role.is_worker:
        return
    b, t = role.machine.book, role.machine.training
    with open(role.spec["output"], "wb") as file:
        np.savez(
            file,
            start_ns=t.start_ns,
            compute_end_ns=t.compute_end_ns,
            end_ns=t.end_ns,
            ready_ns=b.ready_ns,
            first_sent_ns=b.first_sent_ns,
            done_ns=b.done_ns,
        )


def _say(control: socket.socket, **message: object) -> None:
    control.send(json.dumps(message).encode())


def _hear(control: socket.socket) -> dict:
    """The runner's next message; {} when the runner is gone."""
    data = control.recv(1 << 16)
    return json.loads(data) if data else {}


def warm() -> None:
    """Compile (or load) everything a host runs, so that the processes forked later share it."""
    tensors = [{"name": "t", "values": 100, "forward_ns": 1, "backward_ns": 1}]
    common = {
        "system": "esa", "job": 0, "job_name": "warm", "workers": 1, "seed": 0, "values": 64,
        "bitmap_width": 32, "window": 1, "rate_bps": 0, "burst_ns": 0, "timeout_ns": 0,
        "least_timeout_ns": 1, "most_timeout_ns": 1, "index": "hash", "pool": 1, "priority": "esa",
        "communication_ns": 1, "computation_ns": 1, "iterations": 1, "order": "front",
        "start_ns": 0, "tensors": tensors, "fragments": 2, "reminder": True,
        "reminder_delay_ns": 0, "least_reminder_delay_ns": 1, "most_reminder_delay_ns": 1,
        "switches": [], "gradients": None,
    }  # fmt: skip
    for role in (
        _Role({**common, "role": "worker", "worker": 0}),
        _Role({**common, "role": "ps"}),
    ):
        _warm_up(role)
