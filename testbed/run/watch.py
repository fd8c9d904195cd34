"""From the common start to the last result of one repetition: listening, sampling, and the
watchdog.

A run that cannot end well must end soon, and say why. Three things are watched: processes that end
before their time, hosts that give no sign of life, and jobs that make no progress although their
hosts live (a lost packet that nobody asks for again looks like that).
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence

import numpy as np

from testbed.errors import RunError
from testbed.network.spawner import Spawner
from testbed.run.hosts import FINISHED, HEARTBEAT, ITERATION, HostGroup, HostProcess, died
from testbed.run.progress import Progress
from testbed.run.samples import CpuSampler, MemorySampler
from testbed.run.switches import SwitchGroup

SELECT_S = 0.05


class Watch:
    """The middle of a repetition; `run` returns when all jobs are done."""

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
    ) -> None:
        """start_ns: the common start, on CLOCK_MONOTONIC. job_start_ns: after it, by job.
        timeout_ns: how long a job may make no progress, and a host give no sign of life.
        """
        self.hosts = hosts
        self.switches = switches
        self.spawners = spawners
        self.memory = memory
        self.progress = progress
        self.start_ns = start_ns
        self.job_start_ns = job_start_ns
        self.timeout_ns = timeout_ns
        processes = {host.spec["host"]: host.process.pid for host in hosts.hosts}
        processes |= {name: process.pid for name, process in switches.processes.items()}
        self.cpu = CpuSampler(processes, time.monotonic_ns())
        self._seen: dict[int, tuple[int, int]] = {}  # job -> (progress, when it was new)

    def run(self) -> None:
        """Until every host is done. Raises RunError with a named cause."""
        with selectors.DefaultSelector() as selector:
            for spawner in self.spawners:
                selector.register(spawner, selectors.EVENT_READ)
            for host in self.hosts.hosts:
                selector.register(host, selectors.EVENT_READ, host)
            open_jobs = set(self.hosts.jobs())
            while open_jobs:
                for key, _ in selector.select(SELECT_S):
                    if key.data is not None and not key.data.hear():
                        selector.unregister(key.data)
                now_ns = time.monotonic_ns()
                self._check_processes()
                for job in sorted(open_jobs):
                    if self._job_done(job):
                        open_jobs.discard(job)
                        self.progress.job_ended(job, now_ns - self.start_ns)
                    else:
                        self._check_progress(job, now_ns)
                self.cpu.tick(now_ns)
                self.memory.tick(now_ns)
                self.progress.tick(now_ns - self.start_ns, self.memory.latest)

    def _check_processes(self) -> None:
        for spawner in self.spawners:
            spawner.pump()
        self.switches.check()
        for host in self.hosts.hosts:
            if host.process.code is not None and host.done is None:
                # What it said last may say more than its exit code.
                host.hear()
                if host.done is None:
                    raise died(host)

    def _job_done(self, job: int) -> bool:
        """Whether a job is done; once all its workers are, its server and they are told to stop."""
        workers, servers = self.hosts.of_job(job, "worker"), self.hosts.of_job(job, "ps")
        if not all(host.done for host in workers):
            return False
        if not workers[0].stopping:
            self.cpu.tick(time.monotonic_ns(), last=True)
            for host in (*workers, *servers):
                host.stopping = True
                host.say(stop=True)
        return all(host.done for host in servers)

    def _check_progress(self, job: int, now_ns: int) -> None:
        workers = self.hosts.of_job(job, "worker")
        members = [*workers, *self.hosts.of_job(job, "ps")]
        begin_ns = self.start_ns + self.job_start_ns[job]
        if now_ns < begin_ns:
            return
        for host in members:
            silent_ns = now_ns - max(int(host.row[HEARTBEAT]), self.start_ns)
            if host.done is None and silent_ns > self.timeout_ns:
                raise self._stalled(host, f"gave no sign of life for {silent_ns / 1e9:.0f} s")
        progress = int(sum(np.sum(host.row[[ITERATION, FINISHED]]) for host in workers))
        before, since_ns = self._seen.get(job, (-1, begin_ns))
        if progress != before:
            self._seen[job] = progress, now_ns
        elif now_ns - since_ns > self.timeout_ns:
            slowest = min(workers, key=lambda host: tuple(host.row[[ITERATION, FINISHED]]))
            raise self._stalled(
                slowest,
                f"stalled: its job received no result for {(now_ns - since_ns) / 1e9:.0f} s, "
                f"and this worker is the furthest behind, in iteration {slowest.row[ITERATION]}",
            )

    def _stalled(self, host: HostProcess, how: str) -> RunError:
        tail, log = host.process.log_tail(), str(host.process.log)
        return RunError(f"host {host.title} {how}", tail, log)
