"""The programs of jobs (`command` in an experiment file): started, watched, ended.

Each worker of such a job has one process, a *rank*, in its host's namespace. Or there is one
process on each server, which makes the ranks (`launch: servers`); what becomes of it becomes of all
of them. It runs as the user behind sudo (program_environment.py), and what it prints goes to a file
of its own. A job is over when all its ranks have ended with exit code 0. If one of them fails, or
the ranks disagree about a collective, or one does not come to it in time, all ranks are told why,
and those that go on are killed.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4engine.module_start import module_command
from p4fabric.base.config import units
from p4fabric.base.errors import RunError, sentence
from p4fabric.base.linux.ownership import hand_over, user_behind
from p4fabric.base.program import pip_install
from p4fabric.emulate.spawner import Process, Spawner

from testbed.collective.tally import GLOO, KEY, SYSTEM
from testbed.emulate.host_group import HostGroup, HostProcess
from testbed.emulate.program_environment import Place, environment_of_rank, environment_of_server
from testbed.experiment.schema_jobs import COLLECTIVE_TIMEOUT_NS, SERVERS
from testbed.hosts import progress_board as board
from testbed.results.schema import CollectiveRow, MeasureRow
from testbed.run_parts.live_view import Called

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology

    from testbed.emulate.communicators import Communicators
    from testbed.experiment.schema_jobs import Job
    from testbed.protocols.host_spec import HostSpec

INA = "ina"  # the job's key `backend`
# What a child of the spawner calls.
TARGET = "testbed.emulate.child_processes:program"
LAST_BYTES = 4096  # of a rank's measures, in which its last report is looked for
LEAVING_NS = 10_000_000_000  # for the process of a rank that has left its job to end
LAST_WORDS_NS = 5_000_000_000  # for the other ranks to say what they were told


@dataclass
class Rank:
    """One rank of a program. `process`: its process, or that of its server; `started`: what that is
    in messages."""

    host: HostProcess
    process: Process
    started: str
    log: Path
    measures: Path
    collectives: Path
    ended_ns: int | None = None  # on CLOCK_MONOTONIC
    left_ns: int | None = None  # when its program was seen to have left the job
    missed: bool = False  # True: it has left, and its process goes on
    counted: dict[tuple, CollectiveRow] = field(default_factory=dict)  # of its collectives,
    read: int = 0  # from so many bytes of the file

    @property
    def number(self) -> int:
        return self.host.spec.number

    @property
    def title(self) -> str:
        return f"rank {self.number} of job {self.host.spec.job.name}"

    def called(self) -> list[CollectiveRow]:
        """Its collectives so far, as rows of table collectives. What is none is left out: the file
        is the program's."""
        with self.collectives.open("rb") as file:
            file.seek(self.read)
            lines, end, _ = file.read().rpartition(b"\n")
        self.read += len(lines) + len(end)
        _add_counts(self.counted, self.host.spec, lines.decode(errors="replace"))
        return [*self.counted.values()]


@dataclass
class _Job:
    command: list[str]
    start_ns: int
    hosts: list[HostProcess]
    timeout_ns: int  # of a collective that some ranks have called
    backend: str | None  # that replaces the program's choice
    env: Mapping[str, str]  # variables of its own
    places: list[Place]  # by rank
    in_servers: bool  # True: a process on each server makes its ranks
    ranks: list[Rank] = field(default_factory=list)
    seen: tuple = ()  # the ranks' calls and results at their last change,
    seen_ns: int = 0  # and the time of that change


class ProgramGroup:
    """All programs of one repetition."""

    def __init__(
        self,
        jobs: Sequence[Job],
        hosts: HostGroup,
        spawner: Spawner,
        namespaces: Mapping[str, int],
        logs: Path,
        repetition: int,
        start_ns: int,
        topology: Topology,
        communicators: Communicators | None = None,
    ) -> None:
        """namespaces: holder's process id by host. start_ns: the common start, on CLOCK_MONOTONIC.
        communicators: of the groups of ranks that the programs make."""
        self._communicators = communicators
        self._spawner = spawner
        self._namespaces = namespaces
        self._logs = logs
        self._repetition = repetition
        self._start_ns = start_ns
        self._jobs: dict[int, _Job] = {}
        masters: list[str] = []  # servers of the jobs' first ranks, where their ports are taken
        for number, job in enumerate(jobs):
            if not job.is_program:
                continue
            workers = hosts.of_job(number, "worker")
            ranks = [host.spec.host for host in workers]
            first = topology.server_of(ranks[0])
            self._jobs[number] = _Job(
                shlex.split(job.command),
                start_ns + job.start_ns,
                workers,
                job.collective_timeout_ns or COLLECTIVE_TIMEOUT_NS,
                job.backend,
                job.env or {},
                Place.of_all(topology, ranks, workers[0].spec.address, masters.count(first)),
                job.launch == SERVERS,
            )
            masters.append(first)

    def ranks(self, job: int) -> list[Rank]:
        """A job's ranks that have been started."""
        return self._jobs[job].ranks if job in self._jobs else []

    def tick(self, now_ns: int) -> None:
        """Start the jobs that are due, and look for ranks that have ended. Raises RunError when a
        job has failed."""
        if self._communicators is not None:
            self._communicators.tick(now_ns)
        for job in self._jobs.values():
            if not job.ranks and now_ns >= job.start_ns:
                for ranks in self._started_together(job):
                    job.ranks += self._start(job, ranks)
                job.ranks.sort(key=lambda rank: rank.number)
            self._check_waiting(job, now_ns)
            for host in job.hosts:
                if host.disagreed is not None:
                    self._abort(job, host.disagreed, None)
            for rank in job.ranks:
                if rank.process.code is None or rank.ended_ns is not None:
                    continue
                rank.ended_ns = now_ns
                if rank.process.code != 0:
                    why = f"{rank.started} {rank.process.how_it_ended}"
                    gone = next((each for each in job.ranks if each.missed), None)
                    if gone is not None:
                        why = f"{gone.title} has left the job before its end, and {why}"
                    self._abort(job, why, gone or rank)
                rank.host.send(ended=True)
            for rank in job.ranks:
                self._tell_left(job, rank, now_ns)

    def _tell_left(self, job: _Job, rank: Rank, now_ns: int) -> None:
        """Tell the other ranks that one has left. A rank that fails leaves before its process has
        ended, and they are told why, then; so the process has some time to end."""
        host = rank.host
        if host.left_job is not None and rank.left_ns is None:
            rank.left_ns = now_ns
        calls = None
        if rank.ended_ns is not None and host.done is not None:
            calls = host.done["calls"]
        elif rank.left_ns is not None and now_ns - rank.left_ns > LEAVING_NS:
            calls = host.left_job
            rank.missed = rank.ended_ns is None
        if calls is None or host.left_told:
            return
        host.left_told = True
        if job.backend == INA and not host.joined:
            self._abort(job, _never_joined(rank, job.command), rank)
        for other in job.hosts:
            if other is not host and other.done is None:
                other.send(left=[rank.number, calls], group=other.spec.job.number)

    def _check_waiting(self, job: _Job, now_ns: int) -> None:
        """Fail if a rank waits for one that will never come.

        A collective that all ranks have called is done soon, so who is late has no open calls."""
        seen = tuple(
            (host.joined, int(host.row[board.OPEN_CALLS]), int(host.row[board.FINISHED]))
            for host in job.hosts
        )
        if seen != job.seen:
            job.seen, job.seen_ns = seen, now_ns
        if not job.ranks or now_ns - job.seen_ns <= job.timeout_ns:
            return
        running = [rank for rank in job.ranks if rank.ended_ns is None]
        waiting = [rank for rank in running if rank.host.row[board.OPEN_CALLS] > 0]
        late = [rank for rank in running if rank.host.row[board.OPEN_CALLS] == 0]
        what = "has not called the collective that they wait in"
        if not waiting:
            waiting = [rank for rank in running if rank.host.joined]
            late = [rank for rank in running if not rank.host.joined]
            what = "has not joined the job, which they have"
        if not waiting or not late:
            return
        limit = units.show(job.timeout_ns, units.TIME)
        numbers = ", ".join(str(rank.number) for rank in waiting)
        why = (
            f"{late[0].title} {what}: rank{'s' if len(waiting) > 1 else ''} {numbers} for {limit},"
            " the job's collective_timeout"
        )
        self._abort(job, why, late[0])

    def is_over(self, job: int) -> bool:
        """True if a job is no program, or all its ranks have ended."""
        entry = self._jobs.get(job)
        if entry is None:
            return True
        over = bool(entry.ranks) and all(rank.ended_ns is not None for rank in entry.ranks)
        if over:
            for rank in entry.ranks:
                if rank.host.done is not None and rank.ended_ns is not None:
                    rank.host.done["end_ns"] = rank.ended_ns - self._start_ns
        return over

    def latest(self, job: int) -> str:
        """Last report of rank 0 of a job, for display, or how far its ranks are; "" if it is no
        program, or has not begun."""
        if not self.ranks(job):
            return ""
        with self.ranks(job)[0].measures.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = file.read().split(b"\n")[:-1]
        if not lines or not (said := _read(lines[-1])):
            hosts = self._jobs[job].hosts
            joined = sum(host.joined for host in hosts)
            if joined < len(hosts):
                return f"{joined} of {len(hosts)} ranks have joined"
            return "all ranks have joined"
        parts = [f"{name} {float(value):.3g}" for name, value in said["values"].items()]
        return ", ".join([f"step {said['step']}", *parts])

    def rows(self) -> list[MeasureRow]:
        """Table measures; the ranks' files go. Lines that are no report are left out: the file is
        the program's."""
        rows = self.said()
        for job in self._jobs.values():
            for rank in job.ranks:
                rank.measures.unlink()
        return rows

    def said(self) -> list[MeasureRow]:
        """The same so far."""
        rows: list[MeasureRow] = []
        for number, job in self._jobs.items():
            for rank in job.ranks:
                said = [_read(line) for line in rank.measures.read_bytes().split(b"\n")]
                for i, each in enumerate(entry for entry in said if entry):
                    for name, value in each["values"].items():
                        rows.append(
                            {
                                "job": number,
                                "worker": rank.number,
                                "number": i,
                                "name": name,
                                "step": each["step"],
                                "time_ns": max(0, each["time_ns"] - self._start_ns),
                                "value": float(value) if math.isfinite(float(value)) else None,
                            }
                        )
        return rows

    def collectives(self) -> list[CollectiveRow]:
        """Table collectives; the ranks' files go."""
        rows: list[CollectiveRow] = []
        for job in self._jobs.values():
            for rank in job.ranks:
                rows += rank.called()
                rank.collectives.unlink()
        return rows

    def called(self) -> list[Called]:
        """Calls of programs so far, for the live view; those with most bytes first."""
        found: dict[tuple[str, str, str], tuple[set[str], list[int]]] = {}
        for rank in (rank for job in self._jobs.values() for rank in job.ranks):
            for row in rank.called():
                key = rank.host.spec.job.name, row["collective"], row["route"]
                groups, sums = found.setdefault(key, (set(), [0, 0]))
                groups.add(row["communicator"])
                sums[0] += row["calls"]
                sums[1] += row["bytes"]
        rows = [Called(*key, len(groups), *sums) for key, (groups, sums) in found.items()]
        return sorted(rows, key=lambda row: -row.bytes)

    def kill(self, ranks: Sequence[Rank]) -> None:
        """End these ranks."""
        for rank in ranks:
            self._spawner.signal(rank.process, 9)

    def close(self) -> None:
        """Kill what still runs."""
        running = [rank for job in self._jobs.values() for rank in job.ranks]
        running = [rank for rank in running if rank.process.code is None]
        self.kill(running)
        self._spawner.wait_ended([rank.process for rank in running], 10, "end of the programs")

    @staticmethod
    def _started_together(job: _Job) -> list[list[int]]:
        """The ranks that each process of a job is for."""
        if not job.in_servers:
            return [[rank] for rank in range(len(job.hosts))]
        servers: dict[str, list[int]] = {}
        for rank, place in enumerate(job.places):
            servers.setdefault(place.server, []).append(rank)
        return [*servers.values()]

    def _start(self, job: _Job, ranks: list[int]) -> list[Rank]:
        """Start a process, for one rank, or for those of a server."""
        hosts = [job.hosts[rank] for rank in ranks]
        places = [job.places[rank] for rank in ranks]
        spec, place = hosts[0].spec, places[0]
        suffix = "" if self._repetition == 0 else f"-r{self._repetition}"
        own = [self._logs / f"{spec.job.name}-rank{rank}{suffix}.log" for rank in ranks]
        log, key = own[0], f"{spec.job.name}-{spec.number}"
        if job.in_servers:
            log = self._logs / f"{spec.job.name}-{place.server}{suffix}.log"
            key = f"{spec.job.name}-{place.server}"
        measures = [path.with_suffix(".jsonl") for path in own]
        collectives = [path.with_suffix(".collectives") for path in own]
        for path in (log, *measures, *collectives):
            path.touch()
            hand_over(path)
        make = environment_of_server if job.in_servers else environment_of_rank
        common = job.timeout_ns, job.backend, job.env
        arguments = {
            "command": command_line(job.command),
            "environment": make(
                [host.spec for host in hosts], places, measures, collectives, *common
            ),
            "folder": str(Path.cwd()),
            "user": user_behind(),
            "node": self._namespaces[spec.host],
            "number": spec.number,
        }
        process = self._spawner.spawn(
            f"{key}-r{self._repetition}",
            TARGET,
            arguments,
            log,
            namespace=self._namespaces[spec.host],
        )
        started = f"rank {spec.number} of job {spec.job.name}"
        if job.in_servers:
            numbers = ", ".join(map(str, ranks))
            started = (
                f"the process on server {place.server} of job {spec.job.name} (rank"
                f"{'s' * (len(ranks) > 1)} {numbers})"
            )
        files = zip(hosts, measures, collectives, strict=True)
        return [Rank(host, process, started, log, said, called) for host, said, called in files]

    def _abort(self, job: _Job, why: str, failed: Rank | None) -> None:
        """Tell all ranks why the job is over, give them a moment, and end them."""
        for host in job.hosts:
            host.send(abort=why)
        deadline_ns = time.monotonic_ns() + LAST_WORDS_NS
        while time.monotonic_ns() < deadline_ns:
            self._spawner.pump()
            if all(rank.process.code is not None for rank in job.ranks):
                break
            time.sleep(0.02)
        self.kill([rank for rank in job.ranks if rank.process.code is None])
        shown = failed or (job.ranks[0] if job.ranks else None)
        if shown is None:
            raise RunError(why)
        tail = shown.process.log_tail()
        raise RunError(sentence(why, missing_package(tail)), tail, str(shown.log))


def missing_package(tail: str) -> str:
    """Advice to install a package, if a program's last line reports a missing Python module; else
    ""."""
    *_, last = tail.strip().splitlines() or [""]
    found = re.search(r"^ModuleNotFoundError: No module named '(\w+)", last)
    if not found:
        return ""
    module = found[1]
    extra = {"torch": "torch", "sklearn": "torch", "jax": "jax"}.get(module)
    if extra is None:
        return f"its Python has no module {module}: {pip_install()} {module}"
    return (
        f"its Python has no module {module}: in the testbed's checkout,"
        f" {pip_install()} '.[{extra}]'"
    )


def _never_joined(rank: Rank, command: Sequence[str]) -> str:
    program = command_line(command)[0]
    return (
        f"{rank.title} has ended and never joined the job, although the experiment says"
        f" `backend: ina`. Either it makes no process group of torch.distributed, or the testbed is"
        f" not installed for the Python that runs it ({program}): install it there, or let the"
        " program `import testbed.torch`"
    )


def command_line(command: Sequence[str]) -> list[str]:
    """Command line of a program; this Python runs a Python file, and has a torchrun if the path has
    none."""
    if command[0].endswith(".py"):
        return [sys.executable, "-u", *command]
    if command[0] == "torchrun" and shutil.which("torchrun") is None:
        return module_command("torch.distributed.run", *command[1:])
    return list(command)


def _add_counts(rows: dict[tuple, CollectiveRow], rank: HostSpec, text: str) -> None:
    """Add what the processes of a rank have written of its collectives (collective/tally.py), by
    the fields of KEY."""
    for line in text.splitlines():
        try:
            said = json.loads(line)
            key = tuple(str(said[name]) for name in KEY)
            row: CollectiveRow = {
                "job": rank.job.number,
                "worker": rank.number,
                "communicator": str(said["communicator"]),
                "collective": str(said["collective"]),
                "dtype": str(said["dtype"]),
                "route": str(said["route"]),
                "calls": int(said["calls"]),
                "bytes": int(said["bytes"]),
                "time_ns": None if said["time_ns"] is None else int(said["time_ns"]),
            }
        except (ValueError, TypeError, KeyError):
            continue
        if row["route"] not in (SYSTEM, GLOO):
            continue
        before = rows.setdefault(key, row)
        if before is not row:
            before["calls"] += row["calls"]
            before["bytes"] += row["bytes"]
            took, more = before["time_ns"], row["time_ns"]
            before["time_ns"] = None if took is None or more is None else took + more


def _read(line: bytes) -> dict[str, Any] | None:
    """A line of a rank's measures (collective/measures.py); None if it is none."""
    try:
        said = json.loads(line)
        whole = isinstance(said["step"], int) and isinstance(said["time_ns"], int)
        if not whole or not 0 <= said["step"] < 1 << 63:
            return None
        return {**said, "values": {str(k): float(v) for k, v in said["values"].items()}}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
