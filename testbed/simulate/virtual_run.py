"""One experiment in virtual time: its repetitions, one after the other.

Needs neither root nor Mininet: everything happens in this process. The results are those of a run
on Mininet; what a real clock alone has (processor time, drops of sockets) is null, and there are no
fidelity marks, since nothing can be late.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from p4fabric.base import units
from p4fabric.base.errors import RunError
from p4fabric.base.steps import step
from p4fabric.simulate.captures import Captures
from rich.console import Console

from testbed import dataplane
from testbed.results.schema import (
    BufferRow,
    CounterRow,
    DepartureRow,
    LinkRow,
    LossRow,
    PauseRow,
)
from testbed.run_parts import result_rows as collect
from testbed.run_parts.request_rows import request_rows
from testbed.run_parts.run import Run
from testbed.setup import Setup
from testbed.simulate.virtual_view import VirtualView

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled
    from p4fabric.base.captured_ports import CapturedPort

    from testbed.results import Writer
    from testbed.run_parts.live_view import Page
    from testbed.simulate.simulation import Simulation

_log = logging.getLogger(__name__)
LOADING = "loading the hosts' protocols, or compiling them if they are new (up to some minutes)"


class VirtualRun:
    """All repetitions of a run in virtual time."""

    def __init__(self, run: Run, captured: Sequence[CapturedPort] = ()) -> None:
        self.run = run
        self._captured = captured

    def versions(self) -> dict[str, str]:
        """Versions of programs beside the testbed: none."""
        return {}

    def repeat(self, writer: Writer) -> None:
        """Run all repetitions, and write their tables. Raises RunError."""
        run = self.run
        with Captures(self._captured, writer.folder / "captures") as captures:
            for setup in run.setups():

                def write(tables: dict[str, Any], number: int = setup.repetition) -> None:
                    for table, rows in tables.items():
                        writer.write(table, rows, repetition=number)

                threads = len(os.sched_getaffinity(0))
                compiled = run.program.compiled
                run_repetition(setup, compiled, run.console, threads, write, run.page, captures)


def run_repetition(
    setup: Setup,
    compiled: Compiled,
    console: Console | None = None,
    threads: int = 1,
    write: Callable[[dict[str, Any]], None] = lambda tables: None,
    page: Page | None = None,
    captures: Captures | None = None,
    sampled: bool = True,
) -> dict[str, Any]:
    """Run one repetition, with at most so many threads; returns the rows of all tables, by table.
    Of jobs whose layers are sampled, smaller sizes are run beside it (layer_times.py).
    `write` takes them, too, before the error that says which job could not finish. page: shows it
    meanwhile. captures: of ports. sampled: False for no samples of the switches' memory. Raises
    RunError."""
    from testbed.simulate import layer_times
    from testbed.simulate.simulation import Simulation

    def ran(size: Setup, tick: Callable[[Simulation], None]) -> layer_times.Ran:
        simulation = Simulation(size, compiled, sampled=False)
        with contextlib.closing(simulation.parts):
            simulation.run(tick)
        found = _tables(simulation)
        return layer_times.Ran(found["jobs"], found["steps"])

    with step(console, LOADING):
        simulation = Simulation(setup, compiled, 1 if setup.smaller else threads, sampled)
    which = ""
    if setup.repetitions > 1:
        which = f", repetition {setup.repetition + 1} of {setup.repetitions}"
    with layer_times.Sizes(setup.smaller, ran, threads) as sizes:
        with (
            contextlib.closing(simulation.parts),
            captures.of(simulation.nodes, which) if captures else contextlib.nullcontext(),
            VirtualView(simulation, console or Console(quiet=True), page) as view,
        ):

            def tick(simulation: Simulation) -> None:
                view.tick(simulation)
                if captures:
                    captures.write(simulation.parts.next_ns)

            began_s = time.monotonic()
            simulation.run(tick)
            took_s = time.monotonic() - began_s
            _log.info("%s of virtual time: %.3f s", units.time(simulation.now_ns), took_s)
            view.last(simulation)
        with step(console, "collecting the results"):
            tables = _tables(simulation)
        if setup.smaller:
            with step(console, "simulating what is left of the smaller sizes of the layers"):
                smaller = sizes.tables()
            layer_times.add(setup, smaller, layer_times.Ran(tables["jobs"], tables["steps"]))
    write(tables)
    for job, why in simulation.unfinished.items():
        raise RunError(f"job {setup.listed[job].name} could not finish: {why}")
    return tables


def _tables(simulation: Simulation) -> dict[str, Any]:
    setup = simulation.setup
    platform = setup.platform
    counters: list[CounterRow] = []
    links: list[LinkRow] = []
    departures: list[DepartureRow] = []
    losses: list[LossRow] = []
    pauses: list[PauseRow] = []
    buffers: list[BufferRow] = []
    notes = []
    known = simulation.cluster.setups if simulation.cluster else setup.jobs
    setups = [*known.values(), *setup.groups.values()]
    for name, switch in simulation.nodes.switches.items():
        switch.advance(simulation.now_ns)
        whole = collect.whole_sums(platform, setups, name)
        counters += [
            {"switch": name, "job": job, "counter": counter, "value": value}
            for job, counter, value in dataplane.counters(platform, switch, whole)
        ]
        stats, left = dataplane.port_counts(platform, switch)
        links += (own := collect.link_rows(platform, name, stats))
        notes.append(dataplane.read_notes(platform, switch))
        losses += collect.loss_rows(platform, name, own, notes[-1:])
        departures += collect.departure_rows(setup, name, left)
        if platform.lossless is not None:
            found = collect.lossless_rows(platform, name, switch, simulation.now_ns)
            pauses += found[0]
            buffers += found[1]
    reports = simulation.reports()
    traces = {number: job.trace() for number, job in enumerate(setup.listed)}
    times = [
        ((report.spec.job.number, report.spec.number), report.times)
        for report in reports
        if report.times is not None
    ]
    shared = simulation.cluster.server_bytes if simulation.cluster else {}
    outcomes = dict.fromkeys(simulation.unfinished, "unfinished")
    job_rows = collect.job_rows(reports, links, traces, outcomes, shared)
    for job in job_rows:
        if not job["exact"]:
            raise RunError(f"job {job['name']}: only {job['values_checked']} values were checked")
    later = simulation.control.roots() if simulation.control else {}
    collect.add_ways(job_rows, platform.system.name, known, later)
    collect.add_mean_rates(links, job_rows)
    more: dict[str, object] = {"flows": simulation.flows()} if setup.flows else {}
    if simulation.rates:
        more["rates"] = simulation.rates
    if sums := collect.sum_rows(reports):
        more["sums"] = sums
    of_nodes = collect.time_tables(times)
    if requests := request_rows(traces, of_nodes):
        more["requests"] = requests
    if platform.lossless is not None:
        more |= {"pauses": pauses, "buffers": buffers}
    return {
        **more,
        "switch_counters": counters,
        "departures": departures,
        "losses": losses,
        "resent": collect.resent_rows(platform, job_rows, reports, notes, lost_unseen=False),
        "links": links,
        **simulation.snapshots.tables(),
        "hosts": collect.host_rows(reports, {}, lambda host: collect.NO_WAIT),
        **of_nodes,
        "jobs": job_rows,
        "faults": simulation.faults(),
        "collectives": [row for each in reports for row in each.done.get("collectives", ())],
    }
