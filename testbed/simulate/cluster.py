"""Jobs that come and go: what happens to hosts and switches when a job begins or ends.

A job begins and ends at an instant. Its hosts and its table entries exist from the event that made
room for it; setting up takes no time. At its end the control plane removes its table entries and
releases its switch memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from p4fabric.base.hops import switch_of
from p4fabric.simulate.event_queue import NEVER

from testbed import dataplane
from testbed.setup.host_specs import job_specs
from testbed.simulate.host_totals import Report, report_of

if TYPE_CHECKING:
    from testbed.setup import JobSetup
    from testbed.simulate.admission import Admission
    from testbed.simulate.world import Nodes


class Cluster:
    """`server_bytes`: by job that has ended, what went over its servers' links while it ran, to and
    from the servers; None without servers. `setups`: the jobs that have ended."""

    def __init__(self, nodes: Nodes, admission: Admission) -> None:
        self._nodes = nodes
        self._admission = admission
        self._tables = {
            name: dataplane.JobTables(name, switch) for name, switch in nodes.switches.items()
        }
        self._numbers: dict[int, list[int]] = {}  # of a job's hosts, workers first
        self._working: dict[int, int] = {}  # workers of a job that have not finished
        self._reports: dict[int, list[Report]] = {}
        self._carried: dict[int, tuple[int, int] | None] = {}  # before a job began
        self._told_ns = -1  # up to when it has been asked who may begin
        self.server_bytes: dict[int, tuple[int, int] | None] = {}
        self.setups: dict[int, JobSetup] = {}

    @property
    def reports(self) -> list[Report]:
        """Reports of the jobs that have ended: for each, those of its workers, then of its
        servers."""
        return [report for job in sorted(self._reports) for report in self._reports[job]]

    @property
    def ended(self) -> int:
        """Number of jobs that have ended."""
        return len(self._reports)

    def running_at(self, switch: str) -> list[int]:
        """Numbers of the jobs that have hosts and entries in a switch's tables."""
        return self._tables[switch].jobs

    @property
    def waiting(self) -> int:
        """Jobs that have not begun."""
        return len(self._admission.waiting)

    def next_ns(self) -> int:
        """Time of the next submission of a job that may begin then; NEVER if that job has to wait
        until another ends."""
        due_ns = self._admission.next_ns(self._told_ns)
        return NEVER if due_ns is None else due_ns

    def begin(self, now_ns: int) -> None:
        """Let all jobs begin that can."""
        admission, nodes = self._admission, self._nodes
        self._told_ns = now_ns
        platform = nodes.setup.platform
        for job in list(iter(lambda: admission.begin(now_ns), None)):
            for tables in self._tables.values():
                tables.add(platform, job)
            specs = job_specs(nodes.setup, job)
            numbers = [platform.topology.number(spec.host) - 1 for spec in specs]
            self._numbers[job.number] = numbers
            self._working[job.number] = len(job.group.workers)
            nodes.enter(specs, numbers, now_ns)
            self._carried[job.number] = self._on_server_links(job)

    def worker_finished(self) -> None:
        """Take note of the worker that has finished, and let its job end if it was the last one."""
        admission, nodes = self._admission, self._nodes
        state = nodes.world.state[0]
        number = nodes.present_at(int(state.finished_host)).spec.job.number
        state.finished_host = -1
        self._working[number] -= 1
        if self._working[number]:
            return
        del self._working[number]
        hosts, job = self._numbers.pop(number), admission.running[number]
        self.setups[number] = job
        self._reports[number] = [report_of(nodes, host) for host in hosts]
        now_ns = int(state.now)
        before, after = self._carried.pop(number), self._on_server_links(job)
        if before is not None and after is not None:
            after = after[0] - before[0], after[1] - before[1]
        self.server_bytes[number] = after
        for host in hosts:
            nodes.leave(host)
        admission.end(number)
        platform = nodes.setup.platform
        for tables in self._tables.values():
            tables.remove(number, now_ns)
        for name, switch in nodes.switches.items():
            job.platform.scheme.release(platform, job, name, switch)

    def _on_server_links(self, job: JobSetup) -> tuple[int, int] | None:
        """Bytes that have gone to and from a job's servers' hosts so far."""
        topology, servers = self._nodes.setup.platform.topology, job.group.servers
        to_servers = from_servers = 0
        for host in servers:
            gateway = switch_of(topology, host)
            counted = self._nodes.switches[gateway].port_bytes(topology.port_to(gateway, host))
            to_servers += counted["egress"]
            from_servers += counted["ingress"]
        return (to_servers, from_servers) if servers else None
