"""Planned faults while a run goes on: stopping, slowing, ending and restarting processes on time.

The experiment says what happens to whom and when (testbed/experiment/planned_faults.py); this does
it to the processes and notes when it did. A slow *worker* is not slowed here: its training loop
knows the plan and computes longer (testbed/workload/graph_source.py), which is exact.

The watchdog asks this module before it takes silence for a failure. A process that is paused by the
plan has not failed, and a job without progress that has lost a process has a known cause.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p4fabric.base import units
from p4fabric.base.hops import hops_towards, switch_of

from testbed.emulate.host_group import HostGroup, HostProcess
from testbed.emulate.switch_group import SwitchGroup
from testbed.experiment.planned_faults import NEVER, affected_nodes, title
from testbed.results.schema import FaultRow

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology

    from testbed.dataplane.failover import Failover
    from testbed.experiment.schema_jobs import Fault
    from testbed.setup import Setup

_log = logging.getLogger(__name__)
TIME_SLICE_S = 0.02  # of a slowed process: it runs for a part of it and stands still for the rest
KILL_TIMEOUT_S = 10


@dataclass
class PlannedFault:
    """One fault with its processes. Times are ns since the run's start; `begun_ns` None: not yet,
    or never since no process was left."""

    number: int
    fault: Fault
    hosts: Sequence[HostProcess]
    switches: Sequence[str]
    begun_ns: int | None = None
    ended_ns: int | None = None
    waiting: bool = True
    turns: list[_TimeSlices] = field(default_factory=list)

    @property
    def underway(self) -> bool:
        """True if the fault has begun and will end."""
        return self.begun_ns is not None and self.ended_ns is None

    @property
    def due_ns(self) -> int | None:
        """Time at which the fault is to end. Its duration is the planned one, also where its
        beginning was late. None: never, or it is not underway."""
        if not self.underway or self.begun_ns is None or self.fault.end_ns is None:
            return None
        return self.begun_ns + self.fault.end_ns - self.fault.at_ns

    def __str__(self) -> str:
        return f"faults[{self.number}], {title(self.fault)}"


class Faults:
    """All faults of one repetition; `tick` begins and ends those that are due.

    Attributes: `killed`, the numbers of the jobs that were killed as a whole; `broken`, why a job
    cannot finish any more, by its number; `endangered`, why a job might not; `excused`, names of
    the hosts and switches that could not keep up because of a fault; `uneven`, those of them that
    were slowed, killed or restarted.
    """

    def __init__(
        self,
        setup: Setup,
        hosts: HostGroup,
        switches: SwitchGroup,
        start_ns: int,
        before_loss: Callable[[str], None],
        after_start: Callable[[str], None],
        failover: Failover | None = None,
    ) -> None:
        """start_ns: the run's start on CLOCK_MONOTONIC. before_loss: called with a switch that is
        about to end. after_start: called with a switch whose new process answers. failover: the
        links, if some fail."""
        self._setup = setup
        self._hosts = hosts
        self._switches = switches
        self._start_ns = start_ns
        self._before_loss = before_loss
        self._after_start = after_start
        self._failover = failover
        self._last_ns = start_ns
        self.killed: set[int] = set()
        self.broken: dict[int, str] = {}
        self.endangered: dict[int, str] = {}
        self.excused: set[str] = set()
        self.uneven: set[str] = set()
        by_name = {host.spec.host: host for host in hosts.hosts}
        self._plan = []
        for number, fault in enumerate(setup.faults):
            if fault.of_link:
                continue
            names, nodes = affected_nodes(setup.listed, fault)
            self._plan.append(PlannedFault(number, fault, [by_name[name] for name in names], nodes))

    def next_ns(self) -> int | None:
        """Time of the next step of `tick`, on CLOCK_MONOTONIC; None: never."""
        times = [each.fault.at_ns for each in self._plan if each.waiting]
        times += [each.due_ns for each in self._plan if each.due_ns is not None]
        if self._failover and self._failover.next_ns() < NEVER:
            times.append(self._failover.next_ns())
        return self._start_ns + min(times) if times else None

    def tick(self, now_ns: int) -> None:
        """Begin and end the faults that are due. now_ns: CLOCK_MONOTONIC."""
        elapsed_ns = now_ns - self._start_ns
        for each in self._plan:
            if each.waiting and elapsed_ns >= each.fault.at_ns:
                each.waiting = False
                self._begin(each, elapsed_ns)
            if each.due_ns is not None and elapsed_ns >= each.due_ns:
                self._end(each)
            if each.underway and each.fault.kind == "pause":
                self._last_ns = now_ns
        if self._failover and self._failover.next_ns() <= elapsed_ns:
            self._failover.tick(elapsed_ns, self._ended())
            self._last_ns = time.monotonic_ns()

    def cut_off(self, job: int) -> str:
        """The links without which a job's hosts have no path to each other, in words; ""."""
        return self._failover.cut_off(job) if self._failover else ""

    @property
    def links_return(self) -> bool:
        """True if a link that is down comes up again later."""
        return self._failover is not None and self._failover.returns()

    @property
    def _present(self) -> Setup:
        return self._failover.setup if self._failover else self._setup

    def _ended(self) -> set[int]:
        """The jobs that have ended, or have no process left."""
        going_on = {
            host.spec.job.number
            for host in self._hosts.hosts
            if host.spec.is_worker and host.done is None and not host.killed
        }
        return set(self._setup.jobs) - going_on

    def silent_since_ns(self, since_ns: int) -> int:
        """Time from which a silence that began at `since_ns` counts: not before the last moment at
        which something stood still or was lost by plan."""
        return max(since_ns, self._last_ns)

    def paused_ns(self, name: str, end_ns: int) -> int:
        """Time for which a host or switch was paused by plan. end_ns: when the run ended, on
        CLOCK_MONOTONIC."""
        return sum(
            (end_ns - self._start_ns if each.ended_ns is None else each.ended_ns) - each.begun_ns
            for each in self._plan
            if each.fault.kind == "pause"
            and each.begun_ns is not None
            and (name in each.switches or name in {host.spec.host for host in each.hosts})
        )

    def close(self) -> None:
        """Let everything go on that stands still."""
        for each in self._plan:
            if each.underway:
                self._resume(each)

    def missed(self) -> list[str]:
        """Faults that did not take place, in words."""
        found = [str(each) for each in self._plan if each.begun_ns is None]
        if self._failover:
            took_place = {change.fault for change, _ in self._failover.done}
            found += [
                f"faults[{number}], {title(fault)}"
                for number, fault in enumerate(self._setup.faults)
                if fault.of_link and number not in took_place
            ]
        return found

    def rows(self, end_ns: int) -> list[FaultRow]:
        """Table faults. end_ns: when the run ended, on CLOCK_MONOTONIC."""
        last_ns = end_ns - self._start_ns
        jobs: dict[str | None, int] = {job.name: number for number, job in self._setup.jobs.items()}
        rows: list[FaultRow] = [
            {
                "fault": each.number,
                "kind": each.fault.kind,
                "target": title(each.fault).partition(" of ")[2],
                "job": jobs.get(each.fault.job),
                "at_ns": each.fault.at_ns,
                "begun_ns": each.begun_ns,
                "ended_ns": last_ns if each.underway else each.ended_ns,
                "factor": each.fault.factor,
                "entries": None,
                "rate_bps": None,
            }
            for each in self._plan
        ]
        if self._failover:
            rows += self._failover.rows(last_ns)
        return sorted(rows, key=operator.itemgetter("fault"))

    def _begin(self, each: PlannedFault, elapsed_ns: int) -> None:
        kind = each.fault.kind
        hosts = [host for host in each.hosts if host.done is None and not host.killed]
        if not hosts and not each.switches:
            return  # it had finished
        each.hosts, each.begun_ns = hosts, elapsed_ns
        _log.info("begins at %s: %s", units.time(elapsed_ns), each)
        if kind != "slow" or each.fault.server is not None or each.switches:
            names = {host.spec.host for host in hosts} | set(each.switches)
            self.excused |= names
            self.uneven |= names if kind != "pause" else set()
        for other in self._plan if kind == "kill" else ():
            met = set(each.switches) & set(other.switches) or any(h in hosts for h in other.hosts)
            if other.underway and met:
                self._end(other)
        if kind == "pause":
            for host in hosts:
                self._hosts.spawner.signal(host.process, signal.SIGSTOP)
            for name in each.switches:
                self._switches.pause(name)
        elif kind == "slow" and (each.fault.server is not None or each.switches):
            processes = [host.process for host in hosts]
            processes += [self._switches.processes[name] for name in each.switches]
            factor = each.fault.factor
            assert factor is not None, "an experiment says how slow"
            each.turns = [_TimeSlices(process.pid, factor) for process in processes]
        elif kind == "kill":
            self._kill(each)
            self._end(each)
        elif kind == "restart":
            self._restart(each.switches[0], each)
            self._end(each)

    def _end(self, each: PlannedFault) -> None:
        self._resume(each)
        self._last_ns = time.monotonic_ns()
        each.ended_ns = self._last_ns - self._start_ns
        _log.info("has ended at %s: %s", units.time(each.ended_ns), each)

    def _resume(self, each: PlannedFault) -> None:
        for turns in each.turns:
            turns.stop()
        if each.fault.kind == "pause":
            for host in each.hosts:
                self._hosts.spawner.signal(host.process, signal.SIGCONT)
            for name in each.switches:
                self._switches.resume(name)

    def _kill(self, each: PlannedFault) -> None:
        for host in each.hosts:
            host.killed = True
            self._hosts.spawner.signal(host.process, signal.SIGKILL)
        processes = [host.process for host in each.hosts]
        self._hosts.spawner.wait_ended(processes, KILL_TIMEOUT_S, "end of killed hosts")
        for name in each.switches:
            self._before_loss(name)
            self._switches.kill(name)
            for job in self._jobs_through(name):
                self.broken[job] = f"switch {name} is on its paths and was killed ({each})"
        if each.fault.job is None:
            return
        job = each.hosts[0].spec.job.number
        if each.fault.worker is not None:
            self.broken[job] = f"every sum needs all workers, and one was killed ({each})"
        elif each.fault.server is not None:
            self.broken[job] = f"it gets its sums from its parameter server ({each})"
        else:
            self.killed.add(job)
            gone = self._present.jobs[job]
            for name, client in self._switches.clients.items():
                gone.platform.scheme.release(self._setup.platform, gone, name, client)

    def _restart(self, name: str, each: PlannedFault) -> None:
        self._before_loss(name)
        self._switches.restart(name)
        self._after_start(name)
        platform = self._setup.platform
        for job in self.killed:
            client, gone = self._switches.clients[name], self._present.jobs[job]
            gone.platform.scheme.release(platform, gone, name, client)
        why = platform.system.lost_with_registers
        if why:
            for job in self._jobs_through(name):
                self.endangered[job] = f"{why} ({each})"

    def _jobs_through(self, switch: str) -> list[int]:
        """Numbers of the jobs with a path between two of their hosts that crosses a switch."""
        topology = self._setup.platform.topology
        found = []
        for number, job in self._setup.jobs.items():
            group, hosts = job.group, job.group.hosts
            passed = group.over is not None and switch in group.over.below
            pairs = ((a, b) for a in hosts for b in hosts if a != b)
            if passed or any(switch in _passed(topology, *each, group.spread) for each in pairs):
                found.append(number)
        return found


def _passed(topology: Topology, source: str, target: str, spread: bool) -> set[str]:
    """The switches that a packet passes; spread: that it may pass."""
    ways = hops_towards(topology, [switch_of(topology, source)], target, spread)
    return {switch for switch, _, _ in ways}


class _TimeSlices:
    """Lets a process run for 1/factor of the time, until `stop`."""

    def __init__(self, pid: int, factor: float) -> None:
        self._descriptor = os.pidfd_open(pid)  # the id cannot pass on to another process
        self._on_s = TIME_SLICE_S / factor
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"turns of {pid}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            while not self._stop.wait(self._on_s):
                signal.pidfd_send_signal(self._descriptor, signal.SIGSTOP)
                self._stop.wait(TIME_SLICE_S - self._on_s)
                signal.pidfd_send_signal(self._descriptor, signal.SIGCONT)

    def stop(self) -> None:
        """Let it run as it likes."""
        self._stop.set()
        self._thread.join()
        os.close(self._descriptor)
