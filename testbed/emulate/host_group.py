"""The host processes of one repetition: started, made to begin together, listened to.

A host talks in two ways. Over its control socket it says ready, done or failed, which are rare. On
the board, an array in memory that all processes share, it writes its progress and its signs of life
all the time, at the price of a store.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from p4fabric.base.errors import RunError
from p4fabric.emulate.controlled import Controlled
from p4fabric.emulate.spawner import Process, Spawner

from testbed.hosts import progress_board as board
from testbed.hosts.shared_times import SharedTimes
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.status import COUNTER_NAMES
from testbed.run_parts.live_view import Work, WorkerTimes
from testbed.workload.wrong_value import WrongValue, WrongValueError

# Long enough for a machine that is busy with other things, short enough to be noticed.
START_TIMEOUT_S = 60
# What a host process calls.
TARGET = "testbed.emulate.child_processes:host"


@dataclass
class HostProcess(Controlled):
    """One role on its host. `done`: its counters, once it is done; `output`: the file with a
    worker's times."""

    spec: HostSpec
    process: Process
    control: socket.socket
    row: np.ndarray
    output: Path
    ready: bool = False
    done: dict | None = None
    counted: bool = False  # True: `done` counts until it was told to stop
    stopping: bool = False
    killed: bool = False  # by a planned fault
    messages: list[dict] = field(default_factory=list)
    joined: bool = False  # its program has joined its job
    disagreed: str | None = None  # why the ranks of its program's job cannot go on
    left_job: int | None = None  # collectives of its job that its program called, if it has left
    left_told: bool = False  # True: the other ranks know that its program has left
    wanted: list[dict] = field(default_factory=list)  # groups of ranks that its program wants
    withdrawn: list[str] = field(default_factory=list)  # keys of those that it wants no more
    made: set[int] = field(default_factory=set)  # numbers of groups for which it has a machine
    left: dict[int, int] = field(default_factory=dict)  # groups left, with the collectives called

    @property
    def title(self) -> str:
        """Name of the host in messages."""
        return self.spec.title

    @property
    def totals(self) -> dict:
        """The host's counters: `done`, or, if the process could not send that, the counters of its
        last sign of life, which are fewer."""
        if self.done is not None:
            return self.done
        row = [int(value) for value in self.row]
        totals = dict(zip(COUNTER_NAMES, row[board.COUNTERS :], strict=False))
        return totals | {
            "packets_sent": row[board.PACKETS_SENT],
            "packets_received": row[board.PACKETS_RECEIVED],
            "bytes_sent": row[board.BYTES_SENT],
            "bytes_received": row[board.BYTES_RECEIVED],
            "still_ns": row[board.STILL_NS],
        }

    def receive(self) -> bool:
        """Take in the process's messages, without waiting; False once it has hung up.

        Raises RunError when it says that it has failed.
        """
        messages, is_open = self.heard()
        for message in messages:
            if "ready" in message:
                self.ready = True
            elif "done" in message:
                self.done = message["done"]
            elif "counted" in message and self.done is not None:
                self.done |= message["counted"]
                self.counted = True
            elif "joined" in message:
                self.joined = True
            elif "wanted" in message:
                self.wanted.append(message["wanted"])
            elif "withdrawn" in message:
                self.withdrawn.append(message["withdrawn"])
            elif "made" in message:
                self.made.add(message["made"])
            elif "dropped" in message:
                self.made.discard(message["dropped"])
            elif "left" in message:
                if message["left"] == self.spec.job.number:
                    self.left_job = message["calls"]
                else:
                    self.left[message["left"]] = message["calls"]
            elif "disagree" in message:
                self.disagreed = message["disagree"]
            elif "failed" in message:
                log = self.process.log_tail(), str(self.process.log)
                if message.get("wrong"):
                    raise WrongValueError(WrongValue.from_json(message["wrong"]), *log)
                raise RunError(message["failed"], *log)
        return is_open


class HostGroup:
    """All host processes of one repetition."""

    def __init__(
        self,
        specs: Sequence[HostSpec],
        spawner: Spawner,
        namespaces: dict[str, int],
        logs: Path,
        repetition: int,
        *,
        socket_settings: tuple[bool, int] | tuple[()] = (),
        watched: bool = False,
    ) -> None:
        """Ask for all processes; does not wait for them.

        specs: of testbed.setup.host_specs. namespaces: holder's process id by host. logs: folder
        for logs and for what the processes hand over at their end. socket_settings: values of
        testbed.hosts.sockets.SocketSettings. watched: `times` is asked for while they run.
        """
        self.spawner = spawner
        self.hosts: list[HostProcess] = []
        self._start_ns = 0
        self._board = os.memfd_create("board", os.MFD_CLOEXEC)
        os.ftruncate(self._board, board.board_bytes(len(specs)))
        self.board = board.open_board(self._board, len(specs))
        shared = SharedTimes(specs)
        descriptors = [self._board]
        self._times: list[WorkerTimes] = []
        self._times_file: int | None = None
        if watched and shared.size:
            memory = os.memfd_create("times", os.MFD_CLOEXEC)
            os.ftruncate(memory, shared.size)
            descriptors.append(memory)
            self._times_file = memory
            for row, spec in enumerate(specs):
                if found := shared.open(memory, row):
                    self._times.append(WorkerTimes(spec.job.number, spec.number, found))
        for row, spec in enumerate(specs):
            own = watched and spec.is_worker and not spec.job.program
            name = spec.host
            log = logs / (f"{name}.log" if repetition == 0 else f"{name}-r{repetition}.log")
            output = log.with_suffix(".npz")
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                process = spawner.spawn(
                    f"{name}-r{repetition}",
                    TARGET,
                    {
                        "spec": spec.to_json(),
                        "output": str(output),
                        "row": row,
                        "rows": len(specs),
                        "socket": socket_settings,
                        "times": shared.place(row) if own else None,
                    },
                    log,
                    namespace=namespaces[name],
                    descriptors=[theirs.fileno(), *descriptors],
                    title=f"host {name}",
                )
            self.hosts.append(HostProcess(spec, process, ours, self.board[row], output))

    def times(self) -> list[WorkerTimes]:
        """The times of the workers so far, where they are watched."""
        return self._times

    def wait_ready(self) -> None:
        """Until every process has said that it is ready. Raises RunError naming one that is not."""

        def all_ready() -> bool:
            for host in self.hosts:
                host.receive()
                if host.process.code is not None:
                    raise process_died(host)
            return all(host.ready and host.process.pid for host in self.hosts)

        missing = "start of the host processes"
        self.spawner.wait(all_ready, START_TIMEOUT_S, missing, self.hosts)

    def start(self, start_ns: int, later: Collection[int] = ()) -> None:
        """Have all begin at this instant of CLOCK_MONOTONIC. later: jobs whose hosts wait for
        `begin`."""
        self._start_ns = start_ns
        for host in self.hosts:
            if host.spec.job.number not in later:
                host.send(start_ns=start_ns)

    def begin(self, job: int, specs: Sequence[HostSpec] = ()) -> None:
        """Have a job's hosts begin, which wait. specs: those that they have instead by now, in the
        same order."""
        hosts = [host for host in self.hosts if host.spec.job.number == job]
        for host, spec in itertools.zip_longest(hosts, specs):
            host.row[board.HEARTBEAT_NS] = time.monotonic_ns()  # from here on silence counts
            if spec is None:
                host.send(start_ns=self._start_ns)
                continue
            host.spec, file = spec, host.output.with_suffix(".json")
            file.write_text(json.dumps(spec.to_json()))  # a message has no room for large ones
            host.send(start_ns=self._start_ns, spec=str(file))

    def of_job(self, job: int, role: str) -> list[HostProcess]:
        """The processes of one job that have this role ("worker" or "ps")."""
        return [
            host for host in self.hosts if host.spec.job.number == job and host.spec.role == role
        ]

    def work(self, job: int) -> Work:
        """Progress of a job's workers."""
        rows = [host.row for host in self.of_job(job, "worker")]
        return Work(
            min((int(row[board.ITERATION]) for row in rows), default=0),
            sum(int(row[board.BYTES_SENT]) for row in rows),
        )

    def jobs(self) -> list[int]:
        """Numbers of all jobs, in order."""
        return sorted({host.spec.job.number for host in self.hosts})

    def close(self) -> None:
        """Kill what still runs and close everything."""
        running = [host for host in self.hosts if host.process.code is None]
        for host in running:
            self.spawner.signal(host.process, 9)
        self.spawner.wait_ended([host.process for host in running], 10, "end of the hosts")
        for host in self.hosts:
            host.control.close()
        os.close(self._board)
        if self._times_file is not None:
            os.close(self._times_file)


def process_died(host: HostProcess) -> RunError:
    """The error for a host process that ended before it was done."""
    return host.process.failure(f"the process of host {host.title}")
