"""One experiment from its file to its results folder, in order.

Everything that the user can correct is checked before anything is built: the file, the machine, the
P4 program. Then a results folder is made, which says "running" until the end, and a session opens.
Each repetition goes through the same steps: switches and hosts start, tables are filled, all hosts
begin at the same instant, the watchdog watches until the last result, and all counters are
collected.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from testbed import dataplane
from testbed.emulate.captures import CapturedPort, Captures
from testbed.emulate.fault_injection import Faults
from testbed.emulate.flow_group import FlowGroup
from testbed.emulate.host_group import HostGroup
from testbed.emulate.program_group import ProgramGroup
from testbed.emulate.prompt import open_prompt, prompt_beside
from testbed.emulate.samplers import MemorySampler
from testbed.emulate.session import SharedSession
from testbed.emulate.switch_backends import Backend, backend_of
from testbed.emulate.switch_group import SwitchGroup
from testbed.emulate.watchdog import Watch
from testbed.errors import RunError
from testbed.experiment.background_flows import flows_of
from testbed.experiment.link_faults import has_link_faults
from testbed.protocols import has_compiled
from testbed.runtimes import result_rows as collect
from testbed.runtimes.live_view import JobTitle, Page, Progress, Sources, Work
from testbed.runtimes.program import Program
from testbed.steps import quiet_console, step

if TYPE_CHECKING:
    from testbed.dataplane.failover import Failover
    from testbed.derived.rerouting import NewPart
    from testbed.emulate.session import Session
    from testbed.experiment import Experiment
    from testbed.results import Writer

# Imported where results are written and reported, which otherwise would wait for it.
FOR_RESULTS = ("pyarrow.parquet", "pandas", "testbed.analysis.report")
# From telling the hosts to their common start: enough for all of them to read the message.
START_DELAY_NS = 200_000_000


def run_experiment(
    experiment: Experiment,
    program: Program,
    results: Path,
    console: Console,
    captured: Sequence[CapturedPort] = (),
    shared: SharedSession | None = None,
    prompt: str | None = None,
    page: Page | None = None,
) -> Path:
    """Run all repetitions; returns the results folder. The folder is marked with how it ended.

    captured: the ports whose packets are written down. shared: the session of several runs. prompt:
    when Mininet's prompt opens: "before" the jobs, "during" or "after" them; None: it does not.
    page: shows the run while it goes on."""
    from testbed.results import Writer, describe

    backend = backend_of(experiment, program)
    environment = describe(
        experiment.timestamp_unit_ns,
        switch=experiment.switch,
        runtime=experiment.runtime,
        **backend.versions(),
    )
    yaml = experiment.resolved_yaml()
    with Writer.create(results, experiment.name, yaml, environment) as writer:
        console.print(f"results: {writer.folder}", highlight=False, soft_wrap=True)
        topology = experiment.topology_object()
        size = f"{len(topology.hosts)} hosts, {len(topology.switches)} switches"
        starting = "starting switches and host processes"
        if not has_compiled():
            starting = "compiling the hosts' protocols, once (up to some minutes)"
        with contextlib.ExitStack() as stack:
            own = shared or stack.enter_context(shared_session([experiment]))
            title = f"{experiment.name} ({writer.folder})"
            with step(console, f"building the network: {size}"):
                session = stack.enter_context(own.run(title, writer.logs))
                session.build(topology, **backend.network_options())
            library = program.compiled.so_path if program.compiled else None
            with Captures(captured, session, writer.folder / "captures", library):
                for number in range(experiment.repetitions):
                    with contextlib.ExitStack() as inside:
                        with step(console, starting):
                            repetition = inside.enter_context(
                                Repetition(experiment, backend, session, number, page)
                            )
                        if prompt == "before" and number == 0:
                            open_prompt(session.network)
                        repetition.run(console, writer, beside=prompt == "during")
                        if prompt == "after" and number == experiment.repetitions - 1:
                            open_prompt(session.network)
        writer.finish()
    return writer.folder


def shared_session(experiments: Iterable[Experiment]) -> SharedSession:
    """A session in which these experiments can run, one after the other."""
    from testbed.derived.host_specs import host_kinds

    listed = list(experiments)
    kinds = [kind for experiment in listed for kind in host_kinds(experiment)]
    different = {json.dumps(kind.to_json()): kind for kind in kinds}
    return SharedSession(listed[0].name, list(different.values()))


class Repetition:
    """One pass over the experiment in a network that stands. A context manager: inside, switches
    are configured and hosts ready; afterwards their processes are gone.
    """

    def __init__(
        self,
        experiment: Experiment,
        backend: Backend,
        session: Session,
        number: int,
        page: Page | None = None,
    ) -> None:
        """number: which repetition, from 0. page: shows it while it goes on."""
        self._page = page
        self.experiment = experiment
        self.backend = backend
        self.session = session
        self.number = number
        self.topology = session.network.topology
        self._switches: SwitchGroup | None = None
        self._hosts: HostGroup | None = None
        self._flows: FlowGroup | None = None
        self._programs: ProgramGroup | None = None
        self._failover: Failover | None = None  # where links fail
        self._start_ns = 0
        # What switches that have ended had counted: (registers, ports) of each life, by name.
        self.lives: dict[str, list[tuple[list, list]]] = {}
        self.stats: dict[str, list[dict]] = {}

    @property
    def switches(self) -> SwitchGroup:
        assert self._switches is not None, "the repetition has not been entered"
        return self._switches

    @property
    def hosts(self) -> HostGroup:
        assert self._hosts is not None, "the repetition has not been entered"
        return self._hosts

    @property
    def flows(self) -> FlowGroup:
        assert self._flows is not None, "the repetition has not been entered"
        return self._flows

    def __enter__(self) -> Repetition:
        """Start all processes, then do what each is good for while the others still start."""
        from testbed.derived.host_specs import plan

        session, number = self.session, self.number
        seed = self.experiment.repetition_seed(number)
        self._switches = SwitchGroup(
            session.network, self.backend, session.nodes, session.logs, seed, number
        )
        specs = plan(self.experiment, number)
        namespaces = {name: process.pid for name, process in session.network.holders.items()}
        session.pool.wait_ready()
        self._hosts = HostGroup(
            specs,
            session.pool,
            namespaces,
            session.logs,
            number,
            in_trains=self.backend.trains,
            watched=self._page is not None,
        )
        if has_link_faults(self.experiment):
            self._failover = self._new_failover()
            self._failover.compute_ahead()
        self.switches.wait_ready()
        for name in self.switches.clients:
            self._configure(name)
        flows = flows_of(self.experiment, number)
        self._flows = FlowGroup(
            flows, self.topology, session.nodes, namespaces, session.logs, number
        )
        for name in FOR_RESULTS:  # while the hosts get ready
            importlib.import_module(name)
        self.hosts.wait_ready()
        self.flows.wait_ready()
        session.note_processes()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        # After an error the session takes everything away, faster and in any case.
        if kind is None:
            if self._programs is not None:
                self._programs.close()
            self.flows.close()
            self.switches.stop()
            self.hosts.close()

    def _configure(self, name: str) -> None:
        """Links and tables of one switch."""
        with self.switches.asked(name, "cannot be configured") as client:
            self.backend.shape(name, client)
            if self._failover is None:
                dataplane.install(self.experiment, name, client)
            else:
                self._failover.install(name, client)

    def _new_failover(self) -> Failover:
        from testbed.dataplane.failover import Failover

        return Failover(
            self.experiment,
            lambda name: self.switches.asked(name, "cannot follow links that fail"),
            self._tell,
            lambda: time.monotonic_ns() - self._start_ns,
        )

    def _tell(self, parts: Sequence[NewPart]) -> None:
        """Tell hosts the new plan."""
        hosts = {}
        for host in self.hosts.hosts:
            spec = host.spec
            place = spec.number if spec.is_worker else spec.job.workers + spec.number
            hosts[spec.job.number, place] = host
        for new in parts:
            hosts[new.job, new.number].send(planned=new.part.to_json())

    def _keep_counts(self, name: str) -> None:
        """Note what a switch has counted, before it ends."""
        with self.switches.asked(name, "cannot be read") as client:
            counts = (
                dataplane.counters(self.experiment, client),
                dataplane.port_counts(self.experiment, client),
            )
            stats = client.stats()
        self.lives.setdefault(name, []).append(counts)
        self.stats.setdefault(name, []).append(stats)

    def run(self, console: Console, writer: Writer, beside: bool = False) -> None:
        """Start, watch, collect. beside: with Mininet's prompt open while the jobs run. Raises
        RunError with a named cause."""
        switches, hosts = self.switches, self.hosts
        experiment, session = self.experiment, self.session
        jobs = {
            number: JobTitle(job.name, job.iterations, job.start_ns)
            for number, job in enumerate(experiment.jobs)
        }
        title = experiment.name
        if experiment.repetitions > 1:
            title += f", repetition {self.number + 1} of {experiment.repetitions}"
        self._start_ns = start_ns = time.monotonic_ns() + START_DELAY_NS
        namespaces = {name: process.pid for name, process in session.network.holders.items()}
        self._programs = programs = ProgramGroup(
            experiment, hosts, session.nodes, namespaces, session.logs, self.number, start_ns
        )
        look = dataplane.SnapshotTaker(experiment) if experiment.aggregators > 0 else None
        memory = MemorySampler(switches, look, start_ns)
        hosts.start(start_ns)
        self.flows.start(start_ns)
        faults = Faults(
            experiment,
            hosts,
            switches,
            start_ns,
            self._keep_counts,
            self._configure,
            self._failover,
        )
        shown = quiet_console() if beside else console  # the terminal is the prompt's

        def work(job: int) -> Work:
            return hosts.work(job)._replace(said=programs.latest(job))

        if self._page is not None:
            named = [
                {"job": number, "name": job.name, "system": experiment.system_entry.name}
                for number, job in enumerate(experiment.jobs)
            ]
            sources = self._sources(memory, faults, programs, start_ns)
            self._page.begin(named, sources)
        with Progress(jobs, work, title, shown, switches.clients, self._page) as progress:
            watch = Watch(
                hosts,
                switches,
                (session.nodes, session.pool),
                memory,
                progress,
                start_ns,
                {number: job.start_ns for number, job in jobs.items()},
                experiment.timeout_ns,
                faults,
                experiment.system.lossless_reason,
                programs,
            )
            if beside:
                prompt_beside(session.network, watch.run)
            else:
                watch.run()
            progress.last(watch.end_ns - start_ns, memory.latest)
        self.flows.stop()
        with step(console, "collecting the results"):
            tables = self._collect(memory, watch, faults)
            for table, rows in tables.items():
                writer.write(table, rows, repetition=self.number)
        for job in tables["jobs"]:
            if not job["exact"]:
                raise RunError(
                    f"job {job['name']}: only {job['values_checked']} values were checked"
                )
        for number, why in watch.unfinished.items():
            raise RunError(f"job {experiment.jobs[number].name} could not finish: {why}")

    def _sources(
        self, memory: MemorySampler, faults: Faults, programs: ProgramGroup, start_ns: int
    ) -> Sources:
        """What a page's charts are made of."""
        hosts = collect.role_rows(host.spec for host in self.hosts.hosts)
        return Sources(
            self.number,
            memory.snapshots,
            lambda: hosts,
            self.hosts.times,
            functools.partial(collect.link_rows, self.experiment),
            lambda elapsed_ns: faults.rows(start_ns + elapsed_ns),
            programs.said,
        )

    def _collect(self, memory: MemorySampler, watch: Watch, faults: Faults) -> dict[str, Any]:
        """The rows of all tables, by table."""
        from testbed.results import fidelity

        experiment, switches, hosts = self.experiment, self.switches, self.hosts
        for name in switches.clients:
            self._keep_counts(name)
        counters, links = [], []
        for name, lives in self.lives.items():
            registers, stats = collect.together(lives)
            counters += [
                {"switch": name, "job": job, "counter": counter, "value": value}
                for job, counter, value in registers
            ]
            links += collect.link_rows(experiment, name, stats)
        memory.tick(time.monotonic_ns(), last=True)
        peaks, waits = watch.cpu.peaks(), watch.run_queue.of
        host_rows = collect.host_rows(hosts.hosts, peaks, waits)
        switch_rows = collect.switch_rows(self.stats, peaks, waits)
        traces = {number: job.trace() for number, job in enumerate(experiment.jobs)}
        outcomes = dict.fromkeys(faults.killed, "killed")
        outcomes |= dict.fromkeys(watch.unfinished, "unfinished")
        job_rows = collect.job_rows(hosts.hosts, links, traces, outcomes)
        collect.add_mean_rates(links, job_rows)
        iterations, tensors = collect.time_tables(collect.worker_files(hosts.hosts))
        switch_cpu = {name: peaks.get(name) for name in self.lives if name not in faults.excused}
        longest = watch.waits.peaks()
        trusted = fidelity.rows(
            job_rows,
            [row for row in host_rows if row["host"] not in faults.excused],
            [row for row in links if row["node"] not in faults.excused],
            switch_cpu,
            {name: longest[name] for name in switch_cpu if name in longest},
        )
        trusted += fidelity.wait_rows(
            [row for row in host_rows if row["host"] not in faults.excused],
            [row for row in switch_rows if row["switch"] not in faults.excused],
            collect.window_times(experiment, hosts.hosts),
        )
        if experiment.faults:
            trusted.append(fidelity.missed_faults(len(faults.missed())))
        flow_rows = {"flows": self.flows.rows()} if experiment.background else {}
        said = self._programs.rows() if self._programs is not None else []
        measure_rows = {"measures": said} if said else {}
        return {
            **flow_rows,
            **measure_rows,
            "switches": switch_rows,
            "switch_counters": counters,
            "links": links,
            **memory.snapshots.tables(),
            "hosts": host_rows,
            "iterations": iterations,
            "tensors": tensors,
            "jobs": job_rows,
            "faults": faults.rows(watch.end_ns),
            "fidelity": trusted,
        }
