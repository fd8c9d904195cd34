"""Jobs that come and go: what happens to hosts and switches when a job begins or ends.

A job begins and ends at an instant. Its hosts and its table entries exist from the event that made
room for it; setting up takes no time. At its end the control plane removes its table entries and
releases its switch memory.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from testbed import dataplane
from testbed.derived.host_specs import plan_job
from testbed.routing.tree import switch_of
from testbed.simulate.event_queue import NEVER
from testbed.simulate.host_totals import Report, report_of

if TYPE_CHECKING:
    from testbed.simulate.admission import Admission
    from testbed.simulate.world import Nodes


class Cluster:
    """`server_bytes`: by job that has ended, what went over its servers' links while it ran, to and
    from the servers; None without servers."""

    def __init__(self, nodes: Nodes, admission: Admission) -> None:
        experiment = admission.experiment
        servers = experiment.system_entry.servers_per_job(experiment.system)
        sizes = [job.workers + servers for job in experiment.jobs]
        ends = list(itertools.accumulate(sizes))
        self._nodes = nodes
        self._admission = admission
        self._numbers = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self._reports: dict[int, list[Report]] = {}
        self._carried: dict[int, tuple[int, int] | None] = {}  # before a job began
        self._told_ns = -1  # up to when it has been asked who may begin
        self.server_bytes: dict[int, tuple[int, int] | None] = {}

    @property
    def reports(self) -> list[Report]:
        """Of each job that has ended, those of its workers, then of its servers."""
        return [report for job in sorted(self._reports) for report in self._reports[job]]

    @property
    def ended(self) -> int:
        """How many jobs have ended."""
        return len(self._reports)

    @property
    def running(self) -> set[int]:
        """Numbers of the jobs that have hosts."""
        return self._admission.running

    @property
    def waiting(self) -> int:
        """Jobs that have not begun."""
        return len(self._admission.waiting)

    def next_ns(self) -> int:
        """When the next job is submitted that may begin then; NEVER if it is one that waits, as it
        does until another ends."""
        due_ns = self._admission.next_ns()
        return NEVER if due_ns is None or due_ns <= self._told_ns else due_ns

    def begin(self, now_ns: int) -> None:
        """Let all jobs begin that can."""
        admission, nodes = self._admission, self._nodes
        self._told_ns = now_ns
        begun = list(iter(lambda: admission.begin(now_ns), None))
        if begun:
            nodes.experiment = admission.experiment
            self._update_tables()
        for job in begun:
            specs = plan_job(nodes.experiment, job, admission.repetition)
            nodes.enter(specs, self._numbers[job][0], now_ns)
            self._carried[job] = self._on_server_links(job)

    def end(self, now_ns: int) -> None:
        """Let the jobs end whose workers have all finished."""
        admission, nodes = self._admission, self._nodes
        rows = nodes.world.hosts
        for job in sorted(admission.running):
            workers = self._numbers[job][: admission.experiment.jobs[job].workers]
            if not all(rows[number].done for number in workers):
                continue
            self._reports[job] = [report_of(nodes, number) for number in self._numbers[job]]
            before, after = self._carried.pop(job), self._on_server_links(job)
            if before is not None and after is not None:
                after = after[0] - before[0], after[1] - before[1]
            self.server_bytes[job] = after
            for number in self._numbers[job]:
                nodes.leave(number)
            with_hosts = admission.experiment
            admission.end(job)
            nodes.experiment = admission.experiment
            self._update_tables()
            for switch in nodes.switches.values():
                dataplane.release(with_hosts, job, switch)

    def _update_tables(self) -> None:
        for name, switch in self._nodes.switches.items():
            dataplane.install_jobs(self._admission.experiment, name, switch)

    def _on_server_links(self, job: int) -> tuple[int, int] | None:
        """Bytes that have gone to and from a job's servers' hosts so far."""
        topology = self._nodes.experiment.topology_object()
        servers = self._nodes.experiment.jobs[job].fixed_placement.servers
        carried = {"egress": 0, "ingress": 0}
        for host in servers:
            switch = switch_of(topology, host)
            port = next(p for p, (other, _, _) in topology.ports(switch).items() if other == host)
            for row in self._nodes.switches[switch].port_stats():
                if row["port"] == port:
                    carried[row["direction"]] += row["bytes"]
        return (carried["egress"], carried["ingress"]) if servers else None
