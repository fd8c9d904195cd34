"""One experiment in virtual time, from the experiment to its results folder.

Needs neither root nor Mininet: everything happens in this process. The results are those of a run
on Mininet; what a real clock alone has (processor time, drops of sockets) is null, and there are no
fidelity marks, since nothing can be late.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from testbed import dataplane
from testbed.errors import RunError
from testbed.runtimes import result_rows as collect
from testbed.simulate.virtual_view import VirtualView
from testbed.steps import step

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled

    from testbed.experiment import Experiment
    from testbed.runtimes.live_view import Page
    from testbed.runtimes.program import Program
    from testbed.simulate.simulation import Simulation

LOADING = "loading the hosts' protocols, or compiling them if they are new (up to some minutes)"


def run_experiment(
    experiment: Experiment,
    program: Program,
    results: Path,
    console: Console,
    page: Page | None = None,
) -> Path:
    """Run all repetitions; returns the results folder. The folder is marked with how it ended.
    page: shows the run while it goes on."""
    from testbed.results import Writer, describe

    environment = describe(
        experiment.timestamp_unit_ns, switch=experiment.switch, runtime=experiment.runtime
    )
    yaml = experiment.resolved_yaml()
    with Writer.create(results, experiment.name, yaml, environment) as writer:
        console.print(f"results: {writer.folder}", highlight=False, soft_wrap=True)
        for number in range(experiment.repetitions):

            def write(tables: dict[str, Any], number: int = number) -> None:
                for table, rows in tables.items():
                    writer.write(table, rows, repetition=number)

            threads = len(os.sched_getaffinity(0))
            run_repetition(experiment, program.compiled, number, console, threads, write, page)
        writer.finish()
    return writer.folder


def run_repetition(
    experiment: Experiment,
    compiled: Compiled,
    number: int,
    console: Console | None = None,
    threads: int = 1,
    write: Callable[[dict[str, Any]], None] = lambda tables: None,
    page: Page | None = None,
) -> dict[str, Any]:
    """Run one repetition, with at most so many threads; returns the rows of all tables, by table.
    `write` takes them, too, before the error that says which job could not finish. page: shows it
    meanwhile. Raises RunError."""
    from testbed.simulate.simulation import Simulation

    experiment = experiment.of_repetition(number)
    with step(console, LOADING):
        simulation = Simulation(experiment, compiled, number, threads)
    with (
        contextlib.closing(simulation.parts),
        VirtualView(simulation, number, console or Console(quiet=True), page) as view,
    ):
        simulation.run(view.tick)
        view.last(simulation)
    with step(console, "collecting the results"):
        tables = _tables(simulation)
    for job in tables["jobs"]:
        if not job["exact"]:
            raise RunError(f"job {job['name']}: only {job['values_checked']} values were checked")
    write(tables)
    for job, why in simulation.unfinished.items():
        raise RunError(f"job {experiment.jobs[job].name} could not finish: {why}")
    return tables


def _tables(simulation: Simulation) -> dict[str, Any]:
    experiment = simulation.experiment
    counters: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for name, switch in simulation.nodes.switches.items():
        switch.advance(simulation.now_ns)
        counters += [
            {"switch": name, "job": job, "counter": counter, "value": value}
            for job, counter, value in dataplane.counters(experiment, switch)
        ]
        links += collect.link_rows(experiment, name, dataplane.port_counts(experiment, switch))
    reports = simulation.reports()
    traces = {number: job.trace() for number, job in enumerate(experiment.jobs)}
    times = [
        ((report.spec.job.number, report.spec.number), report.times)
        for report in reports
        if report.times is not None
    ]
    iterations, tensors = collect.time_tables(times)
    shared = simulation.cluster.server_bytes if simulation.cluster else {}
    outcomes = dict.fromkeys(simulation.unfinished, "unfinished")
    job_rows = collect.job_rows(reports, links, traces, outcomes, shared)
    collect.add_mean_rates(links, job_rows)
    flows = {"flows": simulation.flows()} if experiment.background else {}
    return {
        **flows,
        "switch_counters": counters,
        "links": links,
        **simulation.snapshots.tables(),
        "hosts": collect.host_rows(reports, {}, lambda host: collect.NO_WAIT),
        "iterations": iterations,
        "tensors": tensors,
        "jobs": job_rows,
        "faults": simulation.faults(),
    }
