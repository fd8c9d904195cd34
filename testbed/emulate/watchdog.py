"""The main part of a repetition, from the common start to the last result: listening, sampling, and
the watchdog.

A run that cannot end well must end soon, and say why. Three things are watched: processes that end
before their time, hosts that give no sign of life, and jobs that make no progress although their
hosts live (a lost packet that nobody asks for again looks like that). What a planned fault has
caused is told apart: it never ends the run of the other jobs.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence

import numpy as np
from p4fabric.base.errors import RunError
from p4fabric.emulate.spawner import Spawner

from testbed.emulate.fault_injection import Faults
from testbed.emulate.host_group import HostGroup, HostProcess, process_died
from testbed.emulate.program_group import ProgramGroup
from testbed.emulate.samplers import CpuSampler, MemorySampler, RunQueueDelay, WaitSampler
from testbed.emulate.switch_group import SwitchGroup
from testbed.hosts import progress_board as board
from testbed.run_parts.live_view import Progress

SELECT_S = 0.05
STILL_NS = 1_000_000_000  # that a turn of the watchdog may begin late before that is a standstill
# A job that has lost a process for good ends after so long without progress, if not sooner.
BROKEN_NS = 3_000_000_000
STOP_NS = 5_000_000_000  # for its other processes to say what they have counted


class Watch:
    """The middle of a repetition; `run` returns when all jobs are done, or will never be.

    `unfinished` says of the jobs that could not finish because of a planned fault, or of a lost
    packet that their system cannot make up for, why. `still_ns`: how long the runner stood still,
    all times of more than STILL_NS."""

    def __init__(
        self,
        hosts: HostGroup,
        switches: SwitchGroup,
        spawners: Sequence[Spawner],
        memory: MemorySampler,
        progress: Progress,
        start_ns: int,
        job_start_ns: dict[int, int],
        timeout_ns: int,
        faults: Faults | None = None,
        lossless_reason: str = "",
        programs: ProgramGroup | None = None,
    ) -> None:
        """start_ns: the common start, on CLOCK_MONOTONIC. job_start_ns: after it, by job.
        timeout_ns: longest time in which a job may make no progress, and a host give no sign of
        life. lossless_reason: the reason why the system cannot recover from a lost packet; "" if it
        can."""
        self.hosts = hosts
        self.switches = switches
        self.spawners = spawners
        self.memory = memory
        self.progress = progress
        self.start_ns = start_ns
        self.job_start_ns = job_start_ns
        self.timeout_ns = timeout_ns
        self.faults = faults
        self.lossless_reason = lossless_reason
        self.programs = programs
        self.unfinished: dict[int, str] = {}
        self.end_ns = start_ns
        self.still_ns = 0
        self._went_on_ns = start_ns
        processes = {host.spec.host: host.process.pid for host in hosts.hosts}
        processes |= {name: process.pid for name, process in switches.processes.items()}
        self.cpu = CpuSampler(processes, time.monotonic_ns(), switches.by_thread)
        threaded = {name: processes[name] for name in switches.by_thread}
        self.waits = WaitSampler(threaded, time.monotonic_ns())
        self.run_queue = RunQueueDelay(processes, time.monotonic_ns())
        self._seen: dict[int, tuple[int, int]] = {}  # job -> (progress, when it was new)

    def run(self) -> None:
        """Until every host is done. Raises RunError with a named cause."""
        with selectors.DefaultSelector() as selector:
            for spawner in self.spawners:
                selector.register(spawner, selectors.EVENT_READ)
            for host in self.hosts.hosts:
                selector.register(host, selectors.EVENT_READ, host)
            open_jobs = set(self.hosts.jobs())
            self._went_on_ns = time.monotonic_ns()
            try:
                while open_jobs:
                    due_ns = self._went_on_ns + self._listen(selector)
                    now_ns = time.monotonic_ns()
                    if now_ns - due_ns > STILL_NS:
                        self.still_ns += now_ns - due_ns
                    self._step(open_jobs, now_ns)
            finally:
                self.end_ns = time.monotonic_ns()
                if self.faults is not None:
                    self.faults.close()
            self._receive_remaining(selector)

    def _listen(self, selector: selectors.BaseSelector) -> int:
        """Wait until a message arrives, or there is something to do; returns the longest time that
        this was to take, in ns."""
        pause_s = SELECT_S
        due_ns = self.faults.next_ns() if self.faults is not None else None
        if due_ns is not None:
            pause_s = min(max((due_ns - time.monotonic_ns()) / 1e9, 0), SELECT_S)
        for key, _ in selector.select(pause_s):
            if key.data is not None and not key.data.receive():
                selector.unregister(key.data)
        return int(pause_s * 1e9)

    def _step(self, open_jobs: set[int], now_ns: int) -> None:
        """Look at everything once; jobs that are over leave `open_jobs`."""
        if self.faults is not None:
            self.faults.tick(now_ns)
        self._went_on_ns = time.monotonic_ns()
        self._check_processes()
        if self.programs is not None:
            self.programs.tick(now_ns)
        for job in sorted(open_jobs):
            if not self._job_over(job, now_ns):
                continue
            open_jobs.discard(job)
            self.progress.job_ended(job, now_ns - self.start_ns)
        for name, process in self.switches.processes.items():
            self.cpu.watch_process(name, process.pid)
            if name in self.switches.by_thread:
                self.waits.watch_process(name, process.pid)
            self.run_queue.watch_process(name, process.pid, now_ns)
        self.cpu.tick(now_ns)
        self.waits.tick(now_ns)
        self.run_queue.tick(now_ns)
        self.memory.tick(now_ns)
        self.progress.tick(now_ns - self.start_ns, self.memory.latest)

    def _job_over(self, job: int, now_ns: int) -> bool:
        """True if a job is done, was killed, or will never be done."""
        if self.faults is not None and job in self.faults.killed:
            return True
        if self._job_done(job):
            return True
        why = self._check_progress(job, now_ns)
        if why is None:
            return False
        self.unfinished[job] = why
        self._tell_to_stop(job)
        return True

    def _receive_remaining(self, selector: selectors.BaseSelector) -> None:
        """Receive the last counters of the processes that were told to stop, as far as they arrive
        within STOP_NS."""
        deadline_ns = time.monotonic_ns() + STOP_NS
        waiting = [host for host in self.hosts.hosts if host.stopping]
        while time.monotonic_ns() < deadline_ns:
            waiting = [host for host in waiting if not (host.counted or host.killed)]
            for spawner in self.spawners:
                spawner.pump()
            if not any(host.process.code is None or host.receive() for host in waiting):
                return
            self._listen(selector)

    def _check_processes(self) -> None:
        for spawner in self.spawners:
            spawner.pump()
        self.switches.check()
        for host in self.hosts.hosts:
            if host.process.code is not None and host.done is None and not host.killed:
                # What it said last may say more than its exit code.
                host.receive()
                if host.done is None:
                    raise process_died(host)

    def _job_done(self, job: int) -> bool:
        """True if a job is done. Once all its workers are, its server and they are told to stop."""
        workers, servers = self.hosts.of_job(job, "worker"), self.hosts.of_job(job, "ps")
        if not all(host.done for host in workers):
            return False
        if self.programs is not None and not self.programs.is_over(job):
            return False
        if not workers[0].stopping:
            self.cpu.tick(time.monotonic_ns(), last=True)
            self.run_queue.tick(time.monotonic_ns())
            self._tell_to_stop(job)
        return all(host.done or host.killed for host in servers)

    def _tell_to_stop(self, job: int) -> None:
        for host in (*self.hosts.of_job(job, "worker"), *self.hosts.of_job(job, "ps")):
            host.stopping = True
            host.send(stop=True)

    def _check_progress(self, job: int, now_ns: int) -> str | None:
        """Reason why a job will never be done, if a planned fault or a lost packet is the cause.
        Raises RunError if it stands still for another reason."""
        workers = self.hosts.of_job(job, "worker")
        members = [*workers, *self.hosts.of_job(job, "ps")]
        begin_ns = self.start_ns + self.job_start_ns[job]
        if now_ns < begin_ns:
            return None
        for host in members:
            silent_ns = now_ns - self._without_pauses(
                max(int(host.row[board.HEARTBEAT_NS]), self.start_ns)
            )
            if host.done is None and not host.killed and silent_ns > self.timeout_ns:
                raise self._stalled(host, f"gave no sign of life for {silent_ns / 1e9:.0f} s")
        progress = int(sum(np.sum(host.row[[board.ITERATION, board.FINISHED]]) for host in workers))
        before, since_ns = self._seen.get(job, (-1, begin_ns))
        # A program that computes makes no progress that could be seen here.
        computes = workers[0].spec.job.program and any(
            host.row[board.OPEN_CALLS] == 0 for host in workers
        )
        if progress != before or computes:
            self._seen[job] = progress, now_ns
            return None
        still_ns = now_ns - self._without_pauses(since_ns)
        if self.faults is not None and job in self.faults.broken:
            late = still_ns > min(self.timeout_ns, BROKEN_NS)
            return self.faults.broken[job] if late else None
        if still_ns <= self.timeout_ns:
            return None
        if self.faults is not None and (cut := self.faults.cut_off(job)):
            # A link that returns ends the silence that counts; until then the job waits.
            without = f"its hosts have no path to each other without {cut}"
            return None if self.faults.links_return else without
        if self.faults is not None and job in self.faults.endangered:
            return self.faults.endangered[job]
        if self.lossless_reason:
            return (
                f"it received no result for {still_ns / 1e9:.0f} s, so a packet was probably lost"
                f" (tables links and hosts count what was dropped); {self.lossless_reason}"
            )
        slowest = min(workers, key=lambda host: tuple(host.row[[board.ITERATION, board.FINISHED]]))
        raise self._stalled(
            slowest,
            f"stalled: its job received no result for {still_ns / 1e9:.0f} s, "
            f"and this worker is the furthest behind, in iteration {slowest.row[board.ITERATION]}",
        )

    def _without_pauses(self, since_ns: int) -> int:
        """Time from which a silence that began then counts."""
        return since_ns if self.faults is None else self.faults.silent_since_ns(since_ns)

    def _stalled(self, host: HostProcess, how: str) -> RunError:
        tail, log = host.process.log_tail(), str(host.process.log)
        return RunError(f"host {host.title} {how}", tail, log)
