"""Which job runs where, and from when, if jobs come and go.

The default is first come, first served: the job that was submitted first gets hosts as soon as
enough are free, and no other job overtakes it. This is the simplest rule of a real scheduler, and a
job's waiting depends only on the jobs before it. With `queue: first_fit` a job that fits overtakes
those that do not, which keeps more hosts busy and lets large jobs wait longer. An admission has no
clock: it is told that a job has ended, and says which job may begin.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from testbed.experiment.placement import choose
from testbed.experiment.schema_jobs import Job, Placement

if TYPE_CHECKING:
    from testbed.experiment import Experiment


class Admission:
    """The jobs of an experiment with `arrivals`. `experiment` is the same with the hosts that jobs
    have at the moment."""

    def __init__(self, experiment: Experiment, repetition: int) -> None:
        assert experiment.arrivals is not None
        self._policy = experiment.arrivals.placement
        self._overtaking = experiment.arrivals.queue == "first_fit"
        self.experiment = experiment
        self.repetition = repetition
        self._seed = experiment.repetition_seed(repetition)
        self._servers = experiment.system_entry.servers_per_job(experiment.system)
        # By submission; of jobs submitted at one time the first in the list.
        numbers = range(len(experiment.jobs))
        self.waiting = sorted(numbers, key=lambda number: experiment.jobs[number].start_ns)
        self.running: set[int] = set()
        self.ended = 0
        self._hosts = experiment.topology_object().hosts
        self._free = list(range(len(self._hosts)))  # numbers of hosts, in order
        self._parts = list(range(experiment.memory_parts))

    def next_ns(self, after_ns: int = -1) -> int | None:
        """When the next job is submitted, later than `after_ns`, that may begin then. None: nobody
        is left, or the head of the queue was submitted before and no job overtakes it."""
        for number in self.waiting:
            submitted_ns = self.experiment.jobs[number].start_ns
            if submitted_ns > after_ns:
                return submitted_ns
            if not self._overtaking:
                return None
        return None

    def begin(self, now_ns: int) -> int | None:
        """The number of a job that begins at `now_ns`; None: none can. Call it until then."""
        if not self._parts:
            return None
        for number in self.waiting:
            if self.experiment.jobs[number].start_ns > now_ns:
                return None
            if self._begun(number, now_ns):
                return number
            if not self._overtaking:
                return None
        return None

    def _begun(self, number: int, now_ns: int) -> bool:
        """Let a job begin if there are hosts for it; returns whether it did."""
        job = self.experiment.jobs[number]
        if len(self._free) < job.workers + self._servers:
            return False
        hosts = choose(
            self._policy,
            self.experiment.topology_object(),
            [self._hosts[number] for number in self._free],
            job.workers + self._servers,
            self._seed,
            number,
        )
        if hosts is None:
            return False
        self.waiting.remove(number)
        self.running.add(number)
        topology = self.experiment.topology_object()
        taken = {topology.number(host) - 1 for host in hosts}
        self._free = [each for each in self._free if each not in taken]
        placement = Placement.of(hosts, job.workers)
        self._replace(number, job.started(now_ns, placement, self._parts.pop(0)))
        return True

    def end(self, number: int) -> None:
        """A running job is over: its hosts and its part of the memory are free."""
        job = self.experiment.jobs[number]
        self.running.remove(number)
        self.ended += 1
        topology = self.experiment.topology_object()
        for host in (*job.fixed_placement.workers, *job.fixed_placement.servers):
            bisect.insort(self._free, topology.number(host) - 1)
        self._parts = sorted([*self._parts, self.experiment.memory_part(number)])
        self._replace(number, job.ended())

    def _replace(self, number: int, job: Job) -> None:
        jobs = list(self.experiment.jobs)
        jobs[number] = job
        self.experiment = self.experiment.with_hosts(tuple(jobs))
