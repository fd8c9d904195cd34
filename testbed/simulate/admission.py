"""Placement and start of each job, if jobs come and go.

The default is first come, first served: the job that was submitted first gets hosts as soon as
enough are free, and no other job overtakes it. This is the simplest rule of a real scheduler, and a
job's waiting time depends only on the jobs before it. With `queue: first_fit` a job that fits
overtakes those that do not, which keeps more hosts busy and lets large jobs wait longer. An
admission has no clock: it is told that a job has ended, and returns the job that may begin."""

from __future__ import annotations

import bisect
from dataclasses import replace

from testbed.experiment.placement import choose
from testbed.experiment.schema_jobs import Placement
from testbed.routing.forest import Forest, without
from testbed.setup import JobSetup, Setup
from testbed.setup.build import forest_of, start_job


class Admission:
    """The jobs of an experiment with `arrivals`. `running`: those that have hosts."""

    def __init__(self, setup: Setup) -> None:
        assert setup.arrivals is not None
        self._policy = setup.arrivals.placement
        self._overtaking = setup.arrivals.queue == "first_fit"
        self._setup = setup
        platform = setup.platform
        self._servers = platform.system.servers_per_job(platform.options)
        # By submission; of jobs submitted at one time the first in the list.
        numbers = range(len(setup.listed))
        self.waiting = sorted(numbers, key=lambda number: setup.listed[number].start_ns)
        self.running: dict[int, JobSetup] = {}
        self.ended = 0
        self._hosts = platform.topology.hosts
        self._free = list(range(len(self._hosts)))  # numbers of hosts, in order
        self._free_parts = list(range(platform.memory_parts))
        self._parts: dict[int, int] = {}  # of running jobs
        self._forest: Forest | None = None  # the trees of running jobs, where a manager has them

    def next_ns(self, after_ns: int = -1) -> int | None:
        """Time after `after_ns` at which the next job is submitted that may begin then. None: no
        job is left, or the head of the queue was submitted before and no job overtakes it."""
        for number in self.waiting:
            submitted_ns = self._setup.listed[number].start_ns
            if submitted_ns > after_ns:
                return submitted_ns
            if not self._overtaking:
                return None
        return None

    def begin(self, now_ns: int) -> JobSetup | None:
        """A job that begins at `now_ns`; None: none can. Call it until then."""
        if not self._free_parts:
            return None
        for number in self.waiting:
            if self._setup.listed[number].start_ns > now_ns:
                return None
            if begun := self._begin(number, now_ns):
                return begun
            if not self._overtaking:
                return None
        return None

    def _begin(self, number: int, now_ns: int) -> JobSetup | None:
        """Let a job begin if there are hosts for it."""
        job, topology = self._setup.listed[number], self._setup.platform.topology
        if len(self._free) < job.workers + self._servers:
            return None
        hosts = choose(
            self._policy,
            topology,
            [self._hosts[number] for number in self._free],
            job.workers,
            self._servers,
            self._setup.seed,
            number,
        )
        if hosts is None:
            return None
        self.waiting.remove(number)
        taken = {topology.number(host) - 1 for host in hosts}
        self._free = [each for each in self._free if each not in taken]
        part = self._parts[number] = self._free_parts.pop(0)
        started = job.started(now_ns, Placement.of(hosts, job.workers))
        setup = self._setup
        if setup.platform.system.managed:
            forest = forest_of(setup.platform, {number: started}, self._forest)
            self._forest = forest
            setup = replace(setup, platform=replace(setup.platform, forest=forest))
        self.running[number] = start_job(setup, number, started, part)
        return self.running[number]

    def end(self, number: int) -> None:
        """A running job is over: its hosts and its part of the memory are free."""
        self.ended += 1
        if self._forest is not None:
            self._forest = without(self._forest, number)
        topology = self._setup.platform.topology
        for host in self.running.pop(number).group.hosts:
            bisect.insort(self._free, topology.number(host) - 1)
        bisect.insort(self._free_parts, self._parts.pop(number))
