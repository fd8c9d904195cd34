"""The live view of a run in virtual time: the picture of `progress`, with the run's own clock.

The simulation calls the view now and then and stands still meanwhile. So the picture uses only data
that is there already: the last sample of the switches' memory, and the hosts' counters. Drops alone
are read from the switches, for a hundredth of the time at most."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from testbed.experiment.planned_faults import title
from testbed.results.schema import FaultRow
from testbed.run_parts import result_rows as collect
from testbed.run_parts.live_view import (
    Page,
    Progress,
    Sources,
    Work,
    WorkerTimes,
    rows_of,
    titles_of,
)
from testbed.simulate.host_totals import times_of

if TYPE_CHECKING:
    from testbed.simulate.simulation import Simulation

_NOTHING = Work(0, 0)


class VirtualView:
    """Use as a context manager around a simulation's run, and have it call `tick`."""

    def __init__(
        self,
        simulation: Simulation,
        console: Console,
        page: Page | None = None,
    ) -> None:
        """page: shows it, too."""
        setup = simulation.setup
        self._titles = titles_of(setup)
        self._repetition = ""
        if setup.repetitions > 1:
            self._repetition = f"repetition {setup.repetition + 1} of {setup.repetitions}, "
        self._work: dict[int, Work] = {}
        self._ended: set[int] = set()
        self._view = Progress(
            self._titles,
            lambda job: self._work.get(job, _NOTHING),
            setup.name,
            console,
            simulation.nodes.switches,
            page,
        )
        if page is not None:
            jobs = rows_of(self._titles, setup.platform.system.name)
            page.begin(jobs, _sources(simulation))
        self._began_ns = self._last_ns = time.monotonic_ns()
        self._events = 0

    def __enter__(self) -> VirtualView:
        self._view.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._view.__exit__(*exception)

    def tick(self, simulation: Simulation) -> None:
        """Show how far the simulation is, if it is time to."""
        now_ns = time.monotonic_ns()
        if not self._view.due(now_ns - self._began_ns):
            return
        per_s = (simulation.events - self._events) * 1e9 / (now_ns - self._last_ns)
        self._last_ns, self._events = now_ns, simulation.events
        self._view.remark = f"{self._repetition}virtual time, {per_s / 1e3:.0f} thousand events/s"
        self._read_state(simulation)
        self._view.tick(simulation.now_ns, simulation.snapshots.latest, now_ns - self._began_ns)

    def last(self, simulation: Simulation) -> None:
        """Show how it has ended, on a page."""
        self._view.remark = f"{self._repetition}virtual time"
        self._read_state(simulation)
        self._view.last(simulation.now_ns, simulation.snapshots.latest)

    def _read_state(self, simulation: Simulation) -> None:
        """Read the progress of the workers that are there, the jobs that there are, and those that
        have ended."""
        rows = simulation.nodes.world.hosts
        sent: dict[int, int] = {}
        for number, node in simulation.nodes.present:
            if node.is_worker:
                job = node.spec.job.number
                sent[job] = sent.get(job, 0) + int(rows[number].bytes_sent)
        done = simulation.iterations()
        self._work = {job: Work(done[job], count) for job, count in sent.items()}
        if cluster := simulation.cluster:
            titles = self._titles | titles_of(simulation.setup, cluster.setups)
            self._view.jobs = {job: titles[job] for job in sorted(sent)}
            self._view.remark += f", {cluster.ended} jobs have ended, {cluster.waiting} wait"
            return
        self._view.jobs = titles_of(simulation.setup)
        for job, end_ns in simulation.finished().items():
            if job not in self._ended:
                self._ended.add(job)
                self._view.job_ended(job, end_ns)


def _sources(simulation: Simulation) -> Sources:
    """Sources of a page's charts."""

    def workers() -> Iterator[WorkerTimes]:
        for _, node in simulation.nodes.present:
            if node.is_worker:
                yield WorkerTimes(node.spec.job.number, node.spec.number, times_of(node.machine))

    def faults(elapsed_ns: int) -> list[FaultRow]:
        rows: list[FaultRow] = []
        numbers = {job.name: number for number, job in enumerate(simulation.setup.listed)}
        for number, fault in enumerate(simulation.setup.faults):
            if fault.at_ns <= elapsed_ns:
                over = fault.end_ns is not None and fault.end_ns <= elapsed_ns
                rows.append(
                    {
                        "fault": number,
                        "kind": fault.kind,
                        "target": title(fault).partition(" of ")[2],
                        "job": numbers.get(str(fault.job)),
                        "at_ns": fault.at_ns,
                        "begun_ns": fault.at_ns,
                        "ended_ns": fault.end_ns if over else None,
                        "factor": fault.factor,
                        "entries": None,
                        "rate_bps": None,
                    }
                )
        return rows

    return Sources(
        simulation.setup.repetition,
        simulation.snapshots,
        lambda: collect.role_rows(node.spec for _, node in simulation.nodes.present),
        workers,
        functools.partial(collect.link_rows, simulation.setup.platform),
        faults,
    )
