"""A run in virtual time: from time 0 to the last worker's last result, or to an error.

The loop returns here from time to time, to sample the switches' memory, to check for progress, and
to allow Ctrl-C. This does not change the simulated events.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
from p4engine.backend.build import Compiled
from p4fabric.base.errors import RunError
from p4fabric.base.pause_cycles import PauseWatch
from p4fabric.simulate import loop
from p4fabric.simulate.event_queue import NEVER
from p4fabric.simulate.flow_machine import sending_bps

from testbed import dataplane
from testbed.experiment.planned_faults import affected_nodes, title
from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.results.schema import FaultRow, FlowRow, RateRow
from testbed.setup import Setup
from testbed.setup.late_trees import late_jobs
from testbed.simulate import background, world
from testbed.simulate.admission import Admission
from testbed.simulate.cluster import Cluster
from testbed.simulate.control_plane import ControlPlane
from testbed.simulate.host_totals import Report, report_of
from testbed.simulate.parts import EVENTS_AT_ONCE, Parts
from testbed.simulate.waiting import waiting
from testbed.workload.wrong_value import WrongValueError, described, wrong_value

FIRST_SAMPLE_STEP_NS = 1000
MAX_SAMPLES = 1000
MIN_SAMPLES = 100
SAMPLED_JOBS = 2_000_000  # a sample looks at every job at every switch; so many looks, about
PAUSES_NS = 1_000_000  # between two looks at pauses
POOL_STEPS = 4  # of samples to one that looks at places in the pool


class Simulation:
    """One repetition of an experiment.

    Attributes: `nodes` (world.Nodes), `now_ns`, `snapshots` (of the switches' memory), `rates`
    (rows of that table), `cluster`
    (where jobs come and go), `control` (where links fail, or jobs start late that may get trees
    then), `unfinished` (why a job could not finish, by its number)."""

    def __init__(
        self, setup: Setup, compiled: Compiled, threads: int = 1, sampled: bool = True
    ) -> None:
        """`threads`: at most so many work on it; the results do not depend on it. `sampled`: False
        for no samples of the switches' memory and of rates."""
        platform = setup.platform
        self.nodes = world.build(setup, compiled)
        self.parts = Parts(self.nodes, threads)
        self.snapshots = dataplane.SnapshotHistory()
        self._connections = [flow for flow in setup.flows if flow.keys.is_rc]
        self.rates: list[RateRow] = []
        memory = platform.aggregators > 0
        self._sampled = sampled and (memory or bool(self._connections))
        self._look = dataplane.SnapshotTaker(platform) if memory else None
        self.cluster = None
        if platform.arrivals:
            self.cluster = Cluster(self.nodes, Admission(setup))
            self.cluster.begin(0)
        looks = platform.job_count * len(self.nodes.switches)
        most = min(max(SAMPLED_JOBS // looks, MIN_SAMPLES), MAX_SAMPLES)
        acts = platform.links_fail or late_jobs(setup)
        self.control = ControlPlane(self.nodes) if acts else None
        self.unfinished: dict[int, str] = {}
        self._pauses: PauseWatch | None = None  # of lossless links
        if platform.lossless is not None:
            priority = platform.lossless.priority
            switches = self.nodes.switches
            self._pauses = PauseWatch(platform.topology, switches, priority, self._packet)
        self._max_samples = most - most % 2  # every second one goes
        self._samples = 0
        self._step_ns = self._first_step_ns()
        self._progress: dict[int, tuple[int, int]] = {}  # by job: (progress, when it was new)

    @property
    def setup(self) -> Setup:
        """Of the repetition; it changes with jobs that get a tree when others have ended."""
        return self.nodes.setup

    @property
    def now_ns(self) -> int:
        return self.parts.now_ns

    @property
    def events(self) -> int:
        """Handled so far."""
        return self.parts.events

    def run(self, tick: Callable[[Simulation], None] = lambda simulation: None) -> None:
        """Run to the end; `tick` is called now and then. Raises RunError with a named cause."""
        sample_ns = 0 if self._sampled else NEVER
        check_ns = self.setup.timeout_ns
        pauses_ns = PAUSES_NS if self._pauses else NEVER
        while True:
            submitted_ns = self.cluster.next_ns() if self.cluster else NEVER
            control_ns = self.control.next_ns() if self.control else NEVER
            stop_ns = min(sample_ns, check_ns, submitted_ns, control_ns, pauses_ns, NEVER - 1)
            reason = self.parts.run(stop_ns, EVENTS_AT_ONCE)
            if reason == loop.NO_EVENTS and min(submitted_ns, control_ns) < NEVER:
                reason = loop.TIME_REACHED  # nothing but the next job, or the control plane
            if reason == loop.FINISHED:
                if self.cluster:
                    self.cluster.worker_finished()
                break
            if reason == loop.FAILED:
                node = self.nodes.present_at(self.parts.failed_host)
                wrong = wrong_value(*node.failed_role)
                if wrong is not None:
                    now = self.control.setup if self.control else self.setup
                    raise WrongValueError(wrong, setup=now, events=self.events)
                raise RunError(described(*node.failed_role)[0])
            if reason == loop.HOST_FINISHED and self.cluster:
                self.cluster.worker_finished()
                self.cluster.begin(self.now_ns)
            if reason == loop.TIME_REACHED and stop_ns == submitted_ns and self.cluster:
                self.cluster.begin(stop_ns)
            if reason == loop.TIME_REACHED and stop_ns == control_ns and self.control:
                self.control.tick(stop_ns, self.finished())
            if reason == loop.NO_EVENTS:
                self._fail(f"at {_seconds(self.now_ns)} nothing more can happen")
            if reason == loop.TIME_REACHED and stop_ns == pauses_ns:
                self._look_for_deadlock()
                pauses_ns += PAUSES_NS
            if reason == loop.TIME_REACHED and stop_ns == sample_ns:
                self._sample(sample_ns)
                sample_ns += self._step_ns - sample_ns % self._step_ns
                tick(self)
            if reason == loop.EVENTS_HANDLED or reason == loop.TIME_REACHED and stop_ns == check_ns:
                now_ns = self.now_ns if reason == loop.EVENTS_HANDLED else stop_ns
                self._check_progress(now_ns)
                check_ns = now_ns + self.setup.timeout_ns
                tick(self)
        if self._sampled:
            self._sample(self.now_ns, last=True)

    # -- samples

    def _first_step_ns(self) -> int:
        """The time between the first samples: no longer than between the last ones, of which there
        are `_max_samples`. A run goes on until its last job has been submitted, and takes at least
        as long as the bound of each job that has hosts from the beginning; killed jobs do not
        count."""
        jobs = self.setup.listed
        killed = {fault.job for fault in self.setup.faults if fault.kind == "kill"}
        ends_ns = [job.start_ns for job in jobs if job.name not in killed]
        for _, node in self.nodes.present:
            job = node.spec.job
            if jobs[job.number].name not in killed:
                ends_ns.append(job.start_ns + job.iterations * (job.bound_ns or 0))
        least_ns = max(ends_ns, default=0)
        step_ns = FIRST_SAMPLE_STEP_NS
        while step_ns * self._max_samples < least_ns:
            step_ns *= 2
        return step_ns

    def _sample(self, time_ns: int, last: bool = False) -> None:
        """A sample of each switch. When there are many, every second one goes and the step doubles,
        so that a run of any length gets between half of the largest number and that."""
        if self._samples == self._max_samples:
            self._step_ns *= 2
            self.snapshots.keep_every_second()
            self.rates = [row for row in self.rates if row["time_ns"] % self._step_ns == 0]
            self._samples //= 2
        if time_ns % self._step_ns and not last:
            return
        self._samples += 1
        # The places in the pool make a picture; they need fewer samples, and are dearer.
        at_pool = time_ns % (POOL_STEPS * self._step_ns) == 0
        if look := self._look:
            for name, switch in self.nodes.switches.items():
                running = self.cluster.running_at(name) if self.cluster else None
                self.snapshots.add(name, time_ns, look(switch, at_pool, running))
        told = self.rates and self.rates[-1]["time_ns"] == time_ns
        for flow in () if told else self._connections:
            rate_bps = sending_bps(self.nodes.background[flow.source][0].part, flow)
            self.rates.append({"flow": flow.number, "time_ns": time_ns, "sending_bps": rate_bps})

    # -- what went wrong

    def _check_progress(self, now: int) -> None:
        """A job without a result for as long as `timeout` says has stalled; a planned pause does
        not count, and nor does computation, which has an end here."""
        pauses = np.concatenate([each.part.pauses for each in self.nodes.worlds])
        resumed = int(pauses[pauses[:, 0] <= now, 1].max(initial=0))
        if self.control:
            resumed = max(resumed, self.control.last_ns)
        progress: dict[int, int] = {}
        starts: dict[int, int] = {}
        going_on = {*self.finished(), *self.unfinished}
        for _, node in self.nodes.present:
            if node.is_worker:
                done = int(node.machine.counters[0].results + node.machine.status[0].iterations)
                job = node.spec.job.number
                progress[job] = progress.get(job, 0) + done
                starts[job] = node.spec.job.start_ns
                computes = node.machine.source.graph.state
                if computes.running >= 0 and computes.end_ns > now:
                    going_on.add(job)
        for job, value in progress.items():
            start = starts[job]
            before, since = self._progress.get(job, (0, start))
            if value != before or job in going_on:
                self._progress[job] = value, max(now, start)
            elif now - max(since, resumed) < self.setup.timeout_ns:
                continue
            elif self.control and (cut := self.control.cut_off(job)):
                if not self.control.returns():
                    self._give_up(job, f"its hosts have no path to each other without {cut}")
            else:
                name = self.setup.listed[job].name
                waited = _seconds(now - since)
                what = f"at {_seconds(now)} job {name} has received no result for {waited}"
                lossless_reason = self.setup.platform.options.lossless_reason
                if lossless_reason and (lost := self._lost_packets()):
                    what += f", and links have lost {lost} packets; {lossless_reason}"
                self._fail(what)

    def _give_up(self, job: int, why: str) -> None:
        """A job will never finish, since a planned fault has cut it off; the others go on."""
        self.unfinished[job] = why
        self.nodes.stop(job)

    def _lost_packets(self) -> int:
        """Packets that links have lost, by chance or for want of room in their queues."""
        return sum(
            row["queue_drops"] + row["losses"]
            for switch in self.nodes.switches.values()
            for row in switch.port_stats()
        )

    def iterations(self) -> dict[int, int]:
        """Iterations that the slowest worker has finished, of each job that is there."""
        found: dict[int, int] = {}
        for _, node in self.nodes.present:
            if node.is_worker:
                job, done = node.spec.job.number, int(node.machine.status[0].iterations)
                found[job] = min(found.get(job, done), done)
        return found

    def finished(self) -> dict[int, int]:
        """Jobs that are there and whose workers have all finished, each with the time of the last
        one's end."""
        rows = self.nodes.world.hosts
        ends: dict[int, int] = {}
        going_on: set[int] = set()
        for number, node in self.nodes.present:
            job = node.spec.job.number
            if not node.is_worker or job in self.unfinished:
                continue
            if rows[number].done:
                ends[job] = max(ends.get(job, 0), int(node.machine.source.end_ns[-1]))
            else:
                going_on.add(job)
        return {job: end_ns for job, end_ns in ends.items() if job not in going_on}

    def _look_for_deadlock(self) -> None:
        if self._pauses and (found := self._pauses.deadlock()):
            raise RunError(f"at {_seconds(self.now_ns)} {found}")

    def _packet(self, frame: bytes) -> str:
        """A packet that waits, in words."""
        header = frame[FRAME_OVERHEAD:]
        number, fragment = int.from_bytes(header[4:6], "big"), int.from_bytes(header[8:12], "big")
        if number >= self.setup.platform.numbers:
            return f"a packet of {len(frame)} B"
        job = self.setup.listed[int(self.setup.platform.owners[number])].name
        return f"fragment {fragment} of job {job}"

    def _fail(self, what: str) -> None:
        if self._pauses and (hosts := self._pauses.paused_by_hosts()):
            what = "; ".join([what, *hosts])
        raise RunError("\n".join([f"{what}. Who waits for what:", *waiting(self.nodes)]))

    # -- what has been counted

    def faults(self) -> list[FaultRow]:
        """Rows of table faults. What a fault was for may have finished before it."""
        rows: list[FaultRow] = []
        numbers = {job.name: number for number, job in enumerate(self.setup.listed)}
        for number, fault in enumerate(self.setup.faults):
            if fault.of_link:
                continue
            job = numbers[str(fault.job)]
            hosts = affected_nodes(self.setup.listed, fault)[0]
            ends = [
                int(node.machine.source.end_ns[-1])
                for _, node in self.nodes.present
                if node.is_worker
                and node.spec.job.number == job
                and (fault.server is not None or node.spec.host in hosts)
            ]
            begun = fault.at_ns < max(ends)
            end_ns = self.now_ns if fault.end_ns is None else min(fault.end_ns, self.now_ns)
            rows.append(
                {
                    "fault": number,
                    "kind": fault.kind,
                    "target": title(fault).partition(" of ")[2],
                    "job": job,
                    "at_ns": fault.at_ns,
                    "begun_ns": fault.at_ns if begun else None,
                    "ended_ns": end_ns if begun else None,
                    "factor": fault.factor,
                    "entries": None,
                    "rate_bps": None,
                }
            )
        if self.control:
            rows += self.control.rows(self.now_ns)
            rows.sort(key=operator.itemgetter("fault"))
        return rows

    def flows(self) -> list[FlowRow]:
        """Rows of table flows."""
        machines = {host: placed.part for host, (placed, _) in self.nodes.background.items()}
        return background.rows(self.setup.flows, machines, self.now_ns)

    def reports(self) -> list[Report]:
        """Counters and times of each role, in the order of the plan."""
        if self.cluster:
            return self.cluster.reports
        return [report_of(self.nodes, number) for number, _ in self.nodes.present]


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.6f} s"
