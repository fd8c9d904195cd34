"""The process of one role (a worker, or a parameter server) on its host.

It makes the machine of its specification, says that it is ready, starts at the instant that the
runner names, and then does one thing: packets that have arrived go into the machine, packets that
it fills go out, and it sleeps until the machine's deadline or the next packet. What it has counted
and timed is written to a file when it ends.

Messages over `control`, a SOCK_SEQPACKET socket, are JSON:
  to the runner    {"ready": true, "pid": N}, then {"done": {...}} or {"failed": "..."}
  from the runner  {"start_ns": T on CLOCK_MONOTONIC}, {"stop": true}; with "spec": path of a file
                   with the specification that the host has instead by now, which the host removes
A worker is done by itself; a server, which must serve the slowest worker, when it is told to stop.

A worker whose values a program gives (program_link.py) is done when that program has ended:
  to the runner    {"joined": true}: its program has joined the job; {"disagree": "..."}: the job
                   cannot go on
  from the runner  {"ended": true}: its program has ended; {"left": [rank, collectives]}: another
                   rank's program has; {"abort": "..."}: the job is over, for this reason

A program's groups of ranks get communicators of their own:
  to the runner    {"wanted": {"key", "rank", "size", "ranks"}}: its program wants one (see
                   testbed/collective/client.py); {"withdrawn": key}: no longer; {"made": number}:
                   its machine is there; {"left": number, "calls": N}: its program has left it;
                   {"dropped": number}: its machine is gone
  from the runner  {"made": specification, "ranks": [...]}: make a machine; {"opened": number,
                   "key": key}: all members have theirs; {"refused": "...", "key": key}; {"left":
                   [rank, collectives], "group": number}; {"dropped": number}: all have left

The board is a row of shared memory that the runner reads for progress and for signs of life.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from p4fabric.base.linux.kernel import wake_promptly
from p4fabric.simulate.machine import new_batch
from p4fabric.simulate.placed_machine import raised

from testbed.collective import memory_map
from testbed.hosts import packet_loop as loop
from testbed.hosts import progress_board
from testbed.hosts.machine_table import MachineTable
from testbed.hosts.program_link import Membership, ProgramLink
from testbed.hosts.shared_times import ITERATION_TIMES, TENSOR_TIMES, attach
from testbed.hosts.sockets import PacketSocket, SocketSettings
from testbed.protocols import lag, wire
from testbed.protocols.host_spec import HostSpec, ServerStripes, WorkerPart
from testbed.protocols.sizes import frame_bytes, packet_words
from testbed.protocols.status import COUNTER_NAMES, as_dict
from testbed.schemes import new_machine
from testbed.workload import graph_source, rank_program, worker
from testbed.workload.wrong_value import described

ROWS_IN = 256
ROWS_OUT = 256
SERVER_ROWS_OUT = 1024
# Of a socket, for so many packets of the longest kind (the kernel counts a packet at up to twice
# its length), but at least:
SOCKET_BUFFER_BYTES = 16 << 20
SOCKET_PACKETS = 8192
# What a running host is told of a new plan, by whether it is a worker.
_PLANNED: dict[bool, type[WorkerPart] | type[ServerStripes]] = {
    True: WorkerPart,
    False: ServerStripes,
}


class _Role:
    """A machine with its specification. `place`: among the machines of the process."""

    def __init__(self, spec: HostSpec, place: int = 0) -> None:
        self.spec = spec
        self.place = place
        self.machine = new_machine(spec)
        self.first = 0  # of its destinations

    @property
    def lags(self) -> np.ndarray:
        """A worker's lags; see protocols/lag.py."""
        protocol = self.machine.protocol
        return (protocol if hasattr(protocol, "lag") else protocol.worker).lag

    def failure(self) -> dict[str, object]:
        """The message about the first wrong value; {} if there is none."""
        if not self.machine.status[0].failed:
            return {}
        text, wrong = described(self.spec, self.machine)
        return {"failed": text, "wrong": wrong}


class _Host:
    """The roles of a process and their socket. The first one is what the process is made for; the
    others are of further communicators of its program."""

    def __init__(
        self, spec: HostSpec, output: Path, times: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """times: see `run_host`."""
        self.role = _Role(spec)
        self.times = times
        self.roles = {0: self.role}  # by place
        self.output = output
        self.is_worker = spec.is_worker
        self.said_done = False
        # Of communicators that are over: their part of `sums`, and their results, which the table
        # counts as the first machine's.
        self.dropped = 0.0, 0
        self.link: ProgramLink | None = None
        rows = ROWS_OUT if self.is_worker else SERVER_ROWS_OUT
        words = packet_words(spec.job.values, spec.job.bitmap_width)
        self.machines = MachineTable(new_batch(ROWS_IN, words), new_batch(rows, words))
        self.put(self.role)

    def put(self, role: _Role) -> None:
        """Put a role's machine, or what has become of it, where the loop steps it."""
        role.machine = self.machines.put(role.place, role.machine, role.spec.job.number, role.first)

    def add(self, spec: HostSpec) -> _Role:
        """A role in another communicator."""
        place = self.machines.free_place()
        assert place is not None, "the runner counts them"
        role = self.roles[place] = _Role(spec, place)
        role.first = self.packets.add_peers(spec.peers)
        if spec.program is not None:
            role.machine = graph_source.sharing(role.machine, self.role.machine)
        self.put(role)
        return role

    def become(self, spec: HostSpec) -> None:
        """Have other machines, before the start."""
        for member in self.role.spec.members:
            self.drop(member.job.number)
        self.role.spec, self.role.machine = spec, new_machine(spec)
        self.role.first = self.packets.add_peers(spec.peers)
        self.put(self.role)
        for member in spec.members:
            self.add(member)
        self.attach()

    def drop(self, number: int) -> None:
        """Leave the communicator with this number."""
        for place, role in [*self.roles.items()]:
            if place > 0 and role.spec.job.number == number:
                sums, results = self.dropped
                self.dropped = sums + self._sums_of(place), results + self._results_of(place)
                del self.roles[place]
                self.machines.remove(place)

    def _results_of(self, place: int) -> int:
        return as_dict(self.machines.table.counters[place])["results"]

    def _sums_of(self, place: int) -> float:
        results = self._results_of(place) - (self.dropped[1] if place == 0 else 0)
        return results / self.roles[place].spec.job.workers

    @property
    def sums(self) -> float:
        """This host's share of the sums in its communicators: each counts as one of all hosts
        together, as a sum of W workers has results at W hosts."""
        return self.dropped[0] + sum(map(self._sums_of, self.roles))

    def open(
        self, address: str, port: int, watched: int, buffer_bytes: int, settings: SocketSettings
    ) -> None:
        """Open the socket. watched: the descriptor that ends every wait."""
        self.packets = PacketSocket(
            address,
            port,
            self.role.spec.peers,
            self.machines.arrived,
            self.machines.out,
            watched,
            buffer_bytes,
            settings,
        )

    def attach(self) -> None:
        """Move the first machine's times into shared memory, and attach it to its program."""
        if self.times:
            self.role.machine = attach(self.role.machine, dict(self.times))
            self.put(self.role)
        if self.link is not None:
            self.join(self.role, self.link.job.memory)

    def join(self, role: _Role, memory: memory_map.Shared) -> None:
        """Attach a role's machine to the memory of a program."""
        role.machine = worker.attach(role.machine, memory)
        self.put(role)

    def go_on(self, part: WorkerPart | ServerStripes) -> None:
        """Go on with another part of a plan."""
        self.role.machine = worker.on_new_way(self.role.machine, part)
        self.put(self.role)

    def run(self, board: np.ndarray, origin_ns: int) -> tuple[int, _Role]:
        """Run the loop until it has something to say (see packet_loop.run); with the role that it
        is about."""
        machines = self.machines
        reason = loop.run(
            machines.table,
            machines.batches,
            machines.arrived,
            machines.picked,
            machines.out,
            self.packets.io,
            board,
            origin_ns,
            not self.said_done and (self.link is None or self.link.ended),
        )
        if reason == loop.RAISED:
            raise raised.pop()
        return reason, self.roles[int(machines.table.used[1])]


def run_host(
    spec: HostSpec,
    output: Path,
    board: np.ndarray,
    control: socket.socket,
    *,
    settings: SocketSettings,
    times: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Run one role to its end; returns when the runner says stop, or after a failure.

    A worker's times go to the file `output`; `board` is the role's row of shared memory.
    settings: of its socket. times: where the runner reads a worker's times meanwhile (see
    shared_times.py); None: it does not."""
    host = _Host(spec, output, times)
    watched = control.fileno()
    if spec.is_worker and spec.job.program:
        host.link = ProgramLink(host.role, watched)
        watched = host.link.fileno()
    host.attach()
    frame = frame_bytes(spec.job.values, spec.job.bitmap_width)
    room = max(SOCKET_BUFFER_BYTES, 2 * SOCKET_PACKETS * frame)
    host.open(spec.address, wire.PORT, watched, room, settings)
    for member in spec.members:
        host.add(member)
    try:
        wake_promptly()
        gc.disable()  # a collection would write to, and so copy, every page shared with the parent
        _send_message(control, ready=True, pid=os.getpid())
        while "planned" in (message := _receive_message(control)):
            host.go_on(_PLANNED[host.is_worker].from_json(message["planned"]))
        if "spec" in message:
            file = Path(message["spec"])
            host.become(HostSpec.from_json(json.loads(file.read_text())))
            file.unlink()
        if "start_ns" in message:
            _serve(host, board, control, message["start_ns"])
    finally:
        host.packets.close()
        if host.link is not None:
            host.link.close()


def _serve(host: _Host, board: np.ndarray, control: socket.socket, origin_ns: int) -> None:
    board[progress_board.DUE_NS] = origin_ns + host.role.spec.job.start_ns
    while (early := origin_ns - time.monotonic_ns()) > 0:
        board[progress_board.HEARTBEAT_NS] = time.monotonic_ns()
        time.sleep(min(early / 1e9, 0.05))
    board[progress_board.STATE] = progress_board.RUNNING
    while True:
        reason, role = host.run(board, origin_ns)
        if reason == loop.WRONG_VALUE:
            board[progress_board.STATE] = progress_board.FAILED
            _write_tables(host)
            _send_message(control, **role.failure())
            _receive_message(control)
            return
        if reason == loop.FINISHED:
            _finish(host, board, control)
            continue
        if reason == loop.NEWS:
            assert host.link is not None
            why = host.link.of(role).tell()
            if why is not None:
                _send_message(control, disagree=why)
            _report(host.link, control)
            continue
        if host.link is not None:
            said = host.link.attend()
            if host.link.restarted:
                host.machines.stop(0)  # what it was waiting for will never come
            _report(host.link, control)
            if not said:
                continue
        message = _receive_message(control)
        if host.link is not None:
            _about_program(host.link, message)
            _report(host.link, control)
        _about_group(host, control, message)
        if "planned" in message:
            host.go_on(_PLANNED[host.is_worker].from_json(message["planned"]))
            board[progress_board.DUE_NS] = time.monotonic_ns()
        if not message or "stop" in message:
            if not host.said_done:
                _finish(host, board, control)
            _send_message(control, counted=_counted(host, board))
            return


def _report(link: ProgramLink, control: socket.socket) -> None:
    """Tell the runner what the program has done."""
    if link.joined:
        link.joined = False
        _send_message(control, joined=True)
    while link.withdrawn:
        _send_message(control, withdrawn=link.withdrawn.pop(0))
    while link.wanted:
        _send_message(control, wanted=link.wanted.pop(0))
    for each in link.news_of_leaving():
        _send_message(control, left=each.number, calls=each.calls)


def _about_program(link: ProgramLink, message: dict) -> None:
    """The runner's messages about programs."""
    if "ended" in message:
        link.end()
    if "left" in message and (membership := link.group(message["group"])):
        membership.rank_left(*message["left"])
    if "abort" in message:
        link.fail(message["abort"])
    if "refused" in message:
        link.refuse(message["key"], message["refused"])
    if "opened" in message:
        link.open(message["opened"], message["key"])


def _about_group(host: _Host, control: socket.socket, message: dict) -> None:
    """The runner's messages about communicators that come and go."""
    if "made" in message:
        role = host.add(HostSpec.from_json(message["made"]))
        if host.link is not None:
            joined = Membership(role, message["ranks"])
            host.join(role, joined.memory)
            host.link.add(joined)
        _send_message(control, made=role.spec.job.number)
    if "dropped" in message:
        if host.link is not None and (membership := host.link.group(message["dropped"])):
            host.link.remove(membership)
        host.drop(message["dropped"])
        _send_message(control, dropped=message["dropped"])


def _finish(host: _Host, board: np.ndarray, control: socket.socket) -> None:
    host.said_done = True
    board[progress_board.STATE] = progress_board.DONE
    _write_tables(host)
    _send_message(control, done=_totals(host, board))


def _counted(host: _Host, board: np.ndarray) -> dict[str, int]:
    """Packets so far, by what they were. A worker that is done still answers what others ask."""
    counted = host.machines.table.counters.sum(axis=0).tolist()
    return {
        **dict(zip(COUNTER_NAMES, counted, strict=True)),
        "packets_sent": int(board[progress_board.PACKETS_SENT]),
        "packets_received": int(board[progress_board.PACKETS_RECEIVED]),
        "bytes_sent": int(board[progress_board.BYTES_SENT]),
        "bytes_received": int(board[progress_board.BYTES_RECEIVED]),
    }


def _totals(host: _Host, board: np.ndarray) -> dict:
    """Numbers that the runner writes into the tables `hosts` and `jobs`."""
    cpu, role = time.process_time_ns(), host.role
    totals: dict[str, Any] = _counted(host, board)
    totals |= {
        "unsent": int(board[progress_board.UNSENT]),
        "still_ns": int(board[progress_board.STILL_NS]),
        "socket_drops": host.packets.drops(),
        "cpu_ns": cpu,
        "pss_bytes": _proportional_set_bytes(),
    }
    if host.is_worker:
        lags = role.lags
        totals |= {
            "sums": host.sums,
            "lag_p50_ns": lag.percentile(lags, 0.50),
            "lag_p99_ns": lag.percentile(lags, 0.99),
            "lag_max_ns": int(lags[lag.MAXIMUM]),
        }
        if role.spec.program is not None:
            totals |= rank_program.totals(role.spec, role.machine.source.graph)
        if host.link is None:
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


def _write_tables(host: _Host) -> None:
    """The times that belong into the tables `iterations` and `tensors`, as an .npz.

    int64 ns since the run's start, -1 for never: start_ns, compute_end_ns, end_ns of each iteration
    [I]; forward_start_ns, forward_end_ns, ready_ns, first_sent_ns, done_ns of each iteration and
    tensor [I, T]; of a rank of a program those of its nodes. A server has none, and a program that
    is a command has no iterations that anybody knows of."""
    if not host.is_worker:
        return
    if host.link is not None:
        times: dict[str, Any] = dict.fromkeys(ITERATION_TIMES, np.zeros(0, np.int64))
        times |= dict.fromkeys(TENSOR_TIMES, np.zeros((0, 0), np.int64))
        with open(host.output, "wb") as file:
            np.savez(file, **times)
        return
    scoreboard, training = host.role.machine.scoreboard, host.role.machine.source
    nodes: dict[str, Any] = {}
    if host.role.spec.program is not None:
        nodes = rank_program.node_times(host.role.spec, training.graph)
    with open(host.output, "wb") as file:
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
            **nodes,
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
    for spec in specs:
        _load(_Host(HostSpec.from_json(spec), Path(os.devnull)))


def _load(host: _Host) -> None:
    """Run the loop up to a message that waits already, at a time before the role's start."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"x")
        host.open(host.role.spec.address, 0, theirs.fileno(), 1 << 16, SocketSettings())
        board = np.zeros(progress_board.COLUMNS, np.int64)
        host.run(board, time.monotonic_ns() + 10**12)
        host.packets.close()
