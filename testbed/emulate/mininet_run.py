"""A run on Mininet: its network, and in it one repetition after the other.

A session opens, which builds the network. Each repetition goes through the same steps: switches and
hosts start, tables are filled, all hosts begin at the same instant, the watchdog watches until the
last result, and all counters are collected.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from p4fabric.base.captured_ports import CapturedPort
from p4fabric.base.errors import RunError, UserError
from p4fabric.base.pause_cycles import PauseWatch
from p4fabric.base.steps import quiet_console, step
from p4fabric.emulate.prompt import open_prompt
from rich.console import Console

from testbed import dataplane
from testbed.emulate.captures import Captures
from testbed.emulate.communicators import Communicators
from testbed.emulate.fault_injection import Faults
from testbed.emulate.flow_group import FlowGroup
from testbed.emulate.host_group import HostGroup
from testbed.emulate.program_group import ProgramGroup
from testbed.emulate.prompt_beside import prompt_beside
from testbed.emulate.samplers import MemorySampler
from testbed.emulate.session import SharedSession
from testbed.emulate.switch_backends import Backend, backend_of
from testbed.emulate.switch_group import SwitchGroup
from testbed.emulate.watchdog import Watch
from testbed.machine import kernel_probe
from testbed.protocols import compiled, is_shipped
from testbed.results.schema import (
    BufferRow,
    CounterRow,
    DepartureRow,
    FidelityRow,
    HostRow,
    JobRow,
    LinkRow,
    LossRow,
    PauseRow,
    ResentRow,
)
from testbed.routing.group_server import has_shared_servers
from testbed.run_parts import result_rows as collect
from testbed.run_parts.live_view import JobTitle, Page, Progress, Sources, Work, rows_of, titles_of
from testbed.run_parts.request_rows import request_rows
from testbed.run_parts.run import Run
from testbed.setup import JobSetup, Setup
from testbed.setup.host_specs import host_kinds, host_specs
from testbed.setup.late_trees import asked_again, late_jobs, with_job
from testbed.workload.wrong_value import WrongValueError

if TYPE_CHECKING:
    from p4engine.switch.library import Switch

    from testbed.dataplane.failover import Failover
    from testbed.emulate.session import Session
    from testbed.protocols.host_spec import HostSpec
    from testbed.results import Writer
    from testbed.setup.job_setups import NewPart

# Imported where results are written and reported, which otherwise would wait for it.
FOR_RESULTS = ("pyarrow.parquet", "pandas", "testbed.analysis.report")
# From telling the hosts to their common start: enough for all of them to read the message.
START_DELAY_NS = 200_000_000


class MininetRun:
    """All repetitions of a run on Mininet."""

    def __init__(
        self,
        run: Run,
        captured: Sequence[CapturedPort] = (),
        shared: SharedSession | None = None,
        prompt: str | None = None,
    ) -> None:
        """captured: the ports whose packets are written down. shared: the session of several runs.
        prompt: the time at which Mininet's prompt opens: "before" the jobs, "during" or "after"
        them; None: it does not. Raises UserError for tasks that the machine cannot do."""
        self.run = run
        topology = run.setup.platform.topology
        why_not = kernel_probe.why_no_policy_routing() if has_shared_servers(topology) else ""
        if why_not:
            raise UserError(
                "topology: has servers with several hosts, each with an interface of its own, which"
                f" needs policy routing, and this machine's kernel has none ({why_not}). Use a"
                " kernel with CONFIG_IP_MULTIPLE_TABLES, runtime: virtual, or one host per server"
            )
        self._captured, self._shared, self._prompt = captured, shared, prompt
        self._backend = backend_of(run.setup.platform, run.program)

    def versions(self) -> dict[str, str | None]:
        """Versions of the switch program."""
        return self._backend.versions()

    def repeat(self, writer: Writer) -> None:
        """Run all repetitions, and write their tables. Raises RunError."""
        run, backend, prompt = self.run, self._backend, self._prompt
        topology, console = run.setup.platform.topology, run.console
        size = f"{len(topology.hosts)} hosts, {len(topology.switches)} switches"
        starting = "starting switches and host processes"
        if not (compiled() or is_shipped()):
            starting = "compiling the hosts' protocols, once (up to some minutes)"
        with contextlib.ExitStack() as stack:
            shared = self._shared or stack.enter_context(shared_session([run.setup]))
            title = f"{run.setup.name} ({writer.folder})"
            with step(console, f"building the network: {size}"):
                session = stack.enter_context(shared.run(title, writer.logs))
                session.build(topology, **backend.network_options())
            library = run.program.compiled.so_path if run.program.compiled else None
            with Captures(self._captured, session, writer.folder / "captures", library):
                for setup in run.setups():
                    with contextlib.ExitStack() as inside:
                        with step(console, starting):
                            repetition = inside.enter_context(
                                Repetition(setup, backend, session, run.page)
                            )
                        if prompt == "before" and setup.repetition == 0:
                            open_prompt(session.network)
                        repetition.run(console, writer, beside=prompt == "during")
                        if prompt == "after" and setup.repetition == setup.repetitions - 1:
                            open_prompt(session.network)


def shared_session(setups: Iterable[Setup]) -> SharedSession:
    """A session in which these can run, one after the other."""
    listed = list(setups)
    possible = list(listed)
    for setup in listed:  # what jobs may get that start late
        for number in late_jobs(setup):
            possible.append(asked_again(setup, number, {*setup.jobs} - {number}))
    kinds = [kind for setup in possible for kind in host_kinds(setup)]
    different = {json.dumps(kind.to_json()): kind for kind in kinds}
    return SharedSession(listed[0].name, list(different.values()))


class Repetition:
    """One repetition in a network that stands. A context manager: inside, switches
    are configured and hosts ready; afterwards their processes are gone.
    """

    def __init__(
        self,
        setup: Setup,
        backend: Backend,
        session: Session,
        page: Page | None = None,
    ) -> None:
        """page: shows it while it goes on."""
        self._page = page
        self.setup = setup
        self.backend = backend
        self.session = session
        self.number = setup.repetition
        self.topology = session.network.topology
        self._switches: SwitchGroup | None = None
        self._hosts: HostGroup | None = None
        self._flows: FlowGroup | None = None
        self._programs: ProgramGroup | None = None
        self._communicators: Communicators | None = None  # only if jobs are programs
        # Only if links fail, or jobs start late that may get trees then.
        self._failover: Failover | None = None
        self._titles: dict[int, JobTitle] = {}
        self._start_ns = 0
        # What switches that have ended had counted: (registers, ports) of each life, by name.
        self.lives: dict[str, list[collect.Life]] = {}
        self.stats: dict[str, list[dict]] = {}
        # Of lossless links, by switch.
        self.flow_control: dict[str, tuple[list[PauseRow], list[BufferRow]]] = {}
        self._still_before: dict[str, int] = {}  # standstills of each switch until the run's start

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
        session, number = self.session, self.number
        self._switches = SwitchGroup(
            session.network, self.backend, session.nodes, session.logs, self.setup.seed, number
        )
        specs, lossless = host_specs(self.setup), self.setup.platform.lossless
        namespaces = {name: process.pid for name, process in session.network.holders.items()}
        for name in FOR_RESULTS:  # while the pool loads the protocols, which takes longer
            importlib.import_module(name)
        session.pool.wait_ready()
        self._hosts = HostGroup(
            specs,
            session.pool,
            namespaces,
            session.logs,
            number,
            socket_settings=(self.backend.trains, lossless.tos() if lossless else 0),
            watched=self._page is not None,
        )
        if self.setup.platform.links_fail or late_jobs(self.setup):
            self._failover = self._new_failover()
            self._failover.compute_ahead()
        self.switches.wait_ready()
        for name in self.switches.clients:
            self._configure(name)
        self._flows = FlowGroup(
            self.setup.flows, self.topology, session.nodes, namespaces, session.logs, number
        )
        self.hosts.wait_ready()
        self.flows.wait_ready()
        session.note_processes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *rest: object
    ) -> None:
        if isinstance(error, WrongValueError):
            error.setup = self._failover.setup if self._failover is not None else self.setup
        # After an error the session takes everything away, faster and in any case.
        if kind is None:
            if self._programs is not None:
                self._programs.close()
            self.flows.close()
            self.switches.stop()
            self.hosts.close()

    @contextlib.contextmanager
    def _naming_pauses(self) -> Iterator[None]:
        """An error of a run on lossless links says also who has paused whom."""
        lossless = self.setup.platform.lossless
        try:
            yield
        except RunError as error:
            if lossless is None:
                raise
            clients = cast("dict[str, Switch]", self.switches.clients)
            look = PauseWatch(self.topology, clients, lossless.priority)
            said = look.paused_by_hosts() or [
                f"{each.neighbour} has paused {'-p'.join(map(str, each.place))}, where"
                f" {each.packets} packets wait"
                for each in look.blocked()
            ]
            raise RunError("\n  ".join([str(error), *said]), error.log_tail, error.log) from error

    def _configure(self, name: str) -> None:
        """Links and tables of one switch."""
        with self.switches.asked(name, "cannot be configured") as client:
            self.backend.shape(name, client)
            if self._failover is None:
                dataplane.install(self.setup, name, client)
            else:
                self._failover.install(name, client)
            if self._communicators is not None:
                self._communicators.configure(name, client)

    def _new_failover(self) -> Failover:
        from testbed.dataplane.failover import Failover

        return Failover(
            self.setup,
            lambda name: self.switches.asked(name, "cannot follow the control plane"),
            self._tell,
            self._begin_job,
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

    def _begin_job(self, number: int, made: Setup, specs: list[HostSpec]) -> None:
        """Start the hosts of a job that the manager of trees has been asked about."""
        self.setup = with_job(self.setup, number, made)
        self._titles |= titles_of(self.setup)
        self.hosts.begin(number, specs)

    def _keep_counts(self, name: str) -> None:
        """Note a switch's counters, before it ends."""
        platform = self.setup.platform
        with self.switches.asked(name, "cannot be read") as client:
            stats = client.stats()  # first: reading registers takes a while
            whole = collect.whole_sums(platform, self._setups(), name)
            counters = dataplane.counters(platform, client, whole)
            ports, left = dataplane.port_counts(platform, client)
            counts = counters, ports, left, dataplane.read_notes(platform, client)
            if platform.lossless is not None:  # of its last life, if it was started again
                self.flow_control[name] = collect.lossless_rows(
                    platform, name, cast("Switch", client), time.monotonic_ns()
                )
        self.lives.setdefault(name, []).append(counts)
        self.stats.setdefault(name, []).append(stats)

    def _setups(self) -> list[JobSetup]:
        """All communicators that there have been."""
        made = self._communicators.made if self._communicators is not None else []
        return [*self.setup.jobs.values(), *self.setup.groups.values(), *made]

    def run(self, console: Console, writer: Writer, beside: bool = False) -> None:
        """Start, watch, collect. beside: with Mininet's prompt open while the jobs run. Raises
        RunError with a named cause."""
        switches, hosts = self.switches, self.hosts
        setup, session = self.setup, self.session
        platform = setup.platform
        jobs = self._titles = titles_of(setup)
        title = setup.name
        if setup.repetitions > 1:
            title += f", repetition {self.number + 1} of {setup.repetitions}"
        for name in switches.clients:
            with switches.asked(name, "cannot be read") as client:
                self._still_before[name] = client.stats().get("still_ns", 0)
        self._start_ns = start_ns = time.monotonic_ns() + START_DELAY_NS
        namespaces = {name: process.pid for name, process in session.network.holders.items()}
        if any(job.is_program for job in setup.listed):
            self._communicators = Communicators(
                setup,
                hosts,
                [*switches.clients],
                lambda name: switches.asked(name, "cannot take a group of ranks"),
            )
        self._programs = programs = ProgramGroup(
            setup.listed,
            hosts,
            session.nodes,
            namespaces,
            session.logs,
            self.number,
            start_ns,
            self.topology,
            self._communicators,
        )
        look = dataplane.SnapshotTaker(platform) if platform.aggregators > 0 else None
        memory = MemorySampler(switches, look, start_ns)
        hosts.start(start_ns, late_jobs(setup))
        self.flows.start(start_ns)
        faults = Faults(
            setup,
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
            sources = self._sources(memory, faults, programs, start_ns)
            self._page.begin(rows_of(jobs, platform.system.name), sources)
        with Progress(
            jobs, work, title, shown, switches.clients, self._page, programs.called
        ) as progress:
            watch = Watch(
                hosts,
                switches,
                (session.nodes, session.pool),
                memory,
                progress,
                start_ns,
                {number: job.start_ns for number, job in jobs.items()},
                setup.timeout_ns,
                faults,
                platform.options.lossless_reason,
                programs,
            )
            with self._naming_pauses():
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
            raise RunError(f"job {setup.listed[number].name} could not finish: {why}")

    def _resent(
        self, jobs: list[JobRow], hosts: list[HostRow], links: list[LinkRow]
    ) -> list[ResentRow]:
        """Rows of table resent."""
        notes = [life[3] for lives in self.lives.values() for life in lives]
        unseen = any(row["unmodelled_drops"] for row in links)
        unseen = unseen or any(row["socket_drops"] for row in hosts)
        return collect.resent_rows(self.setup.platform, jobs, self.hosts.hosts, notes, unseen)

    def _sources(
        self, memory: MemorySampler, faults: Faults, programs: ProgramGroup, start_ns: int
    ) -> Sources:
        """Sources of a page's charts."""
        hosts = collect.role_rows(host.spec for host in self.hosts.hosts)
        return Sources(
            self.number,
            memory.snapshots,
            lambda: hosts,
            self.hosts.times,
            functools.partial(collect.link_rows, self.setup.platform),
            lambda elapsed_ns: faults.rows(start_ns + elapsed_ns),
            programs.said,
        )

    def _standstills(self, watch: Watch, faults: Faults) -> list[FidelityRow]:
        """Rows of table fidelity about processes that stood still. BMv2 does not know it."""
        from testbed.results.fidelity import still_row

        still = {
            ("switch", name): sum(life["still_ns"] for life in lives) - self._still_before[name]
            for name, lives in self.stats.items()
            if all("still_ns" in life for life in lives)
        }
        for host in self.hosts.hosts:  # with arrivals, a host has several roles
            key = "host", host.spec.host
            still[key] = max(still.get(key, 0), host.totals["still_ns"])
        found = [
            still_row(scope, name, still_ns, faults.paused_ns(name, watch.end_ns))
            for (scope, name), still_ns in still.items()
            if name not in faults.uneven
        ]
        found.append(still_row("run", "runner", watch.still_ns))
        return found + [still_row("run", title, ns) for title, ns in self.flows.standstills()]

    def _collect(self, memory: MemorySampler, watch: Watch, faults: Faults) -> dict[str, Any]:
        """The rows of all tables, by table."""
        from testbed.results import fidelity

        setup, switches, hosts = self.setup, self.switches, self.hosts
        for name in switches.clients:
            self._keep_counts(name)
        counters: list[CounterRow] = []
        links: list[LinkRow] = []
        departures: list[DepartureRow] = []
        losses: list[LossRow] = []
        for name, lives in self.lives.items():
            registers, stats, left = collect.together(lives)
            departures += collect.departure_rows(setup, name, left)
            counters += [
                {"switch": name, "job": job, "counter": counter, "value": value}
                for job, counter, value in registers
            ]
            links += (own := collect.link_rows(setup.platform, name, stats))
            losses += collect.loss_rows(setup.platform, name, own, [life[3] for life in lives])
        memory.tick(time.monotonic_ns(), last=True)
        peaks, waits = watch.cpu.peaks(), watch.run_queue.of
        host_rows = collect.host_rows(hosts.hosts, peaks, waits)
        switch_rows = collect.switch_rows(self.stats, peaks, waits)
        traces = {number: job.trace() for number, job in enumerate(setup.listed)}
        outcomes = dict.fromkeys(faults.killed, "killed")
        outcomes |= dict.fromkeys(watch.unfinished, "unfinished")
        job_rows = collect.job_rows(hosts.hosts, links, traces, outcomes)
        later = self._failover.roots() if self._failover is not None else {}
        collect.add_ways(job_rows, setup.platform.system.name, setup.jobs, later)
        collect.add_mean_rates(links, job_rows)
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
            collect.window_times(setup.platform, hosts.hosts),
        )
        trusted += self._standstills(watch, faults)
        if setup.faults:
            trusted.append(fidelity.missed_faults(len(faults.missed())))
        flow_rows: dict[str, Any] = {"flows": self.flows.rows()} if setup.flows else {}
        if controlled := self.flow_control.values():
            flow_rows["pauses"] = [row for pauses, _ in controlled for row in pauses]
            flow_rows["buffers"] = [row for _, buffers in controlled for row in buffers]
        said = self._programs.rows() if self._programs is not None else []
        measure_rows = {"measures": said} if said else {}
        called = self._programs.collectives() if self._programs is not None else []
        called += [row for host in hosts.hosts for row in host.totals.get("collectives", ())]
        collective_rows = {"collectives": called} if called else {}
        of_nodes = collect.time_tables(collect.worker_files(hosts.hosts))
        requests = request_rows(traces, of_nodes)
        return {
            **({"requests": requests} if requests else {}),
            **flow_rows,
            **measure_rows,
            **collective_rows,
            "switches": switch_rows,
            "switch_counters": counters,
            "departures": departures,
            "losses": losses,
            "resent": self._resent(job_rows, host_rows, links),
            "links": links,
            **memory.snapshots.tables(),
            "hosts": host_rows,
            **of_nodes,
            "jobs": job_rows,
            "faults": faults.rows(watch.end_ns),
            "fidelity": trusted,
        }
