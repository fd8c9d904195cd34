"""One experiment from its file to its results folder, in order.

Everything that the user can put right is looked at before anything is built: the file, the machine,
the P4 program. Then a results folder opens, which says "running" until the end, a session takes
hold of the machine, and each repetition goes through the same steps: switches and hosts start,
tables go in, all begin at one instant, the watch lasts until the last result, and what was counted
is collected.
"""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from testbed import dataplane
from testbed.errors import RunError, UserError
from testbed.network import registry
from testbed.p4engine.diagnostics import P4Error
from testbed.run import collect
from testbed.run.hosts import HostGroup
from testbed.run.preflight import require_machine
from testbed.run.progress import JobTitle, Progress
from testbed.run.samples import MemorySampler
from testbed.run.session import Session
from testbed.run.switches import Program, SwitchGroup, shape_links
from testbed.run.watch import Watch

if TYPE_CHECKING:
    from testbed.experiment import Experiment
    from testbed.results import Writer

RESULTS = Path("results")
# P4 timestamps count microseconds on a real clock, as BMv2's do.
TIMESTAMP_UNIT_NS = 1000
# From telling the hosts to their common start: enough for all of them to read the message.
START_DELAY_NS = 200_000_000


def run_file(path: Path) -> int:
    """Run the experiment in a file; returns the exit code. Raises UserError and RunError."""
    from testbed.experiment import load

    experiment = load(path)
    for warning in experiment.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    require_machine()
    for line in registry.clean():
        print(f"removed what a killed run had left: {line}", file=sys.stderr)
    program = compile_program(experiment)
    folder = run_experiment(experiment, program, Console())
    from analysis.report import after_run

    after_run(folder)
    return 0


def compile_program(experiment: Experiment) -> Program:
    """The switches' program, compiled (into the cache). Raises UserError with the compiler's words.
    XXX
    """
    from testbed.p4engine import compile_program

    path, defines, include_dirs = dataplane.program(experiment)
    program = Program(path, defines, tuple(include_dirs))
    try:
        compile_program(program.path, program.defines, program.include_dirs)
    except P4Error as error:
        raise UserError(str(error)) from error
    return program


def run_experiment(experiment: Experiment, program: Program, console: Console) -> Path:
    """Run all repetitions; returns the results folder. The folder is marked with how it ended."""
    from testbed.results import Writer, describe

    environment = describe(TIMESTAMP_UNIT_NS, switch=experiment.switch, runtime=experiment.runtime)
    yaml = experiment.resolved_yaml()
    with Writer.create(RESULTS, experiment.name, yaml, environment) as writer:
        console.print(f"results: {writer.folder}", highlight=False, soft_wrap=True)
        topology = experiment.topology_object()
        with Session(f"{experiment.name} ({writer.folder})", writer.logs) as session:
            session.start()
            session.build(topology)
            session.pool.wait_ready()
            for repetition in range(experiment.repetitions):
                Repetition(experiment, program, session, writer, repetition).run(console)
        writer.finish()
    return writer.folder


class Repetition:
    """One pass over the experiment in a network that stands."""

    def __init__(
        self,
        experiment: Experiment,
        program: Program,
        session: Session,
        writer: Writer,
        repetition: int,
    ) -> None:
        self.experiment = experiment
        self.program = program
        self.session = session
        self.writer = writer
        self.repetition = repetition
        self.topology = session.network.topology

    def run(self, console: Console) -> None:
        """Start, watch, collect, stop. Raises RunError with a named cause."""
        from testbed.workload.plan import plan

        session, repetition = self.session, self.repetition
        logs, network = session.logs, session.network
        seed = self.experiment.repetition_seed(repetition)
        switches = SwitchGroup(network, self.program, session.nodes, logs, seed, repetition)
        namespaces = {name: process.pid for name, process in network.holders.items()}
        specs = plan(self.experiment, repetition)
        hosts = HostGroup(specs, session.pool, namespaces, logs, session.scratch, repetition)
        try:
            switches.wait_ready()
            self._configure(switches)
            hosts.wait_ready()
            session.note_processes()
            self._watch_and_collect(switches, hosts, console)
        finally:
            switches.stop()
            hosts.close()

    def _configure(self, switches: SwitchGroup) -> None:
        """Links and tables of every switch."""
        for name, client in switches.clients.items():
            try:
                shape_links(self.experiment, self.topology, name, client)
                dataplane.install(self.experiment, name, client)
            except P4Error as error:
                raise RunError(f"switch {name} cannot be configured: {error}") from error

    def _watch_and_collect(self, switches: SwitchGroup, hosts: HostGroup, console: Console) -> None:
        experiment, session = self.experiment, self.session
        jobs = {
            number: JobTitle(job.name, job.iterations, job.start_ns)
            for number, job in enumerate(experiment.jobs)
        }
        title = experiment.name
        if experiment.repetitions > 1:
            title += f", repetition {self.repetition + 1} of {experiment.repetitions}"
        start_ns = time.monotonic_ns() + START_DELAY_NS
        read = functools.partial(dataplane.occupancy, experiment)
        memory = MemorySampler(switches, read, experiment.memory.aggregators, start_ns)
        hosts.start(start_ns)
        with Progress(jobs, hosts, title, console) as progress:
            watch = Watch(
                hosts,
                switches,
                (session.nodes, session.pool),
                memory,
                progress,
                start_ns,
                {number: job.start_ns for number, job in jobs.items()},
                experiment.timeout_ns,
            )
            watch.run()
        memory.tick(time.monotonic_ns(), last=True)
        self._collect(switches, hosts, memory, watch)

    def _collect(
        self, switches: SwitchGroup, hosts: HostGroup, memory: MemorySampler, watch: Watch
    ) -> None:
        from testbed.results import fidelity

        experiment = self.experiment
        counters, links = [], []
        for name, client in switches.clients.items():
            counters += [
                {"switch": name, "job": job, "counter": counter, "value": value}
                for job, counter, value in dataplane.counters(experiment, client)
            ]
            ports = self.topology.ports(name)
            neighbours = {port: neighbour for port, (neighbour, _, _) in ports.items()}
            links += collect.link_rows(name, client.port_stats(), neighbours)
        peaks = watch.cpu.peaks()
        host_rows = collect.host_rows(hosts, peaks)
        models = {number: job.model for number, job in enumerate(experiment.jobs)}
        job_rows = collect.job_rows(hosts, links, models)
        iterations, tensors = collect.time_tables(hosts)
        switch_cpu = {name: peaks.get(name) for name in switches.processes}
        tables = {
            "switch_counters": counters,
            "links": links,
            "memory": memory.rows,
            "hosts": host_rows,
            "iterations": iterations,
            "tensors": tensors,
            "jobs": job_rows,
            "fidelity": fidelity.rows(job_rows, host_rows, links, switch_cpu),
        }
        for table, rows in tables.items():
            self.writer.write(table, rows, repetition=self.repetition)
