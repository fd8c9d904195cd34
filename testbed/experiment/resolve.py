"""Valid sections resolved to an experiment: defaults of open settings, and checks across keys.

These checks need more than one key: hosts for all roles, links that exist, jitter against delay,
files that the experiment names, fragment numbers that fit the packet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import systems
from testbed.algorithms.choice import Network
from testbed.config.fields import NAME, user_file
from testbed.config.problems import Path as KeyPath
from testbed.config.problems import Problem, key_path
from testbed.config.units import TIME, FieldError, show
from testbed.errors import UserError, did_you_mean, sentence
from testbed.experiment.background_flows import check as check_background
from testbed.experiment.background_flows import warnings as flow_warnings
from testbed.experiment.drawn_jobs import UNLIMITED_BPS, Capacity, Source, workers_of
from testbed.experiment.experiment import Experiment, LinkDirection, bitmap_bits
from testbed.experiment.lossless_checks import lossy_links, restarts, short_queues
from testbed.experiment.placement import choose
from testbed.experiment.planned_faults import check as check_faults
from testbed.experiment.printing import shown
from testbed.experiment.program_jobs import check as check_program
from testbed.experiment.program_jobs import misplaced, round_trace
from testbed.experiment.resolve_arrivals import (
    job_of,
    read_csv,
    read_trace,
    room,
    shapes,
    too_large,
    trace_too_large,
    with_resolved,
)
from testbed.experiment.resolve_links import packet_ns, resolve_links, unmarked
from testbed.experiment.resolve_switches import resolve_switches
from testbed.experiment.scaling import scaled_count, scaled_ns, why_not
from testbed.experiment.schema import (
    MAX_AGGREGATORS,
    ExperimentFile,
    Memory,
    VirtualTime,
)
from testbed.experiment.schema_arrivals import Arrivals
from testbed.experiment.schema_collectives import Collectives
from testbed.experiment.schema_jobs import GROUPS, Fault, Job, Placement, RankModel
from testbed.experiment.schema_links import Links
from testbed.experiment.schema_switches import Switches
from testbed.protocols.sizes import MAX_FRAGMENTS, MAX_JOBS, frame_bytes
from testbed.routing.group_server import has_shared_servers, nearest
from testbed.systems import SystemOptions
from testbed.topology import Topology
from testbed.traffic.call_routes import AUTO, algorithm_of

if TYPE_CHECKING:
    from testbed.traffic.call_routes import Routes
    from testbed.traffic.cluster_traces import TracedJob
    from testbed.traffic.trace import Trace


def resolve(
    parts: dict[str, Any],
    topology: Topology | None,
    folder: Path,
    stem: str,
    system: systems.System | None,
    servers_reserved: int = 0,
) -> tuple[Experiment | None, list[Problem]]:
    """Build the experiment from the sound sections `parts` (by attribute name).

    Returns it, or None and the problems that stand in the way. Sections that are missing from
    `parts` were not sound; what needs them is not checked. `system` is the one that the file names,
    whether or not its options are sound; None: no such system. `servers_reserved`: a job that is
    placed here takes hosts for at least so many servers, where the topology has them.
    """
    resolver = _Resolver(dict(parts), topology, folder, system, servers_reserved)
    resolver.name(stem)
    resolver.links()
    resolver.switches()
    resolver.arrivals()
    resolver.jobs()
    resolver.collectives()
    resolver.scale_windows()
    resolver.memory()
    resolver.program()
    resolver.faults()
    resolver.virtual()
    resolver.offload()
    resolver.value_bits()
    resolver.bmv2()
    resolver.losses()
    resolver.background()
    if not resolver.complete:
        return None, resolver.problems
    experiment = resolver.experiment()
    if problems := short_queues(experiment):
        return None, problems
    return experiment, []


class _Resolver:
    def __init__(
        self,
        parts: dict[str, Any],
        topology: Topology | None,
        folder: Path,
        system: systems.System | None,
        servers_reserved: int,
    ) -> None:
        self.parts = parts
        self.servers_reserved = servers_reserved
        self.topology = topology
        self.folder = folder
        self.system = system
        self.problems: list[Problem] = []
        self.directions: list[tuple[LinkDirection, LinkDirection]] = []
        self.kinds: tuple[Job, ...] = ()
        self.traced: tuple[TracedJob, ...] = ()
        self.source: Source | None = None
        self.links_sound = False

    def add_problem(self, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(path, message))

    @property
    def complete(self) -> bool:
        """True if no problem has been found so far."""
        return not self.problems and len(self.parts) == len(ExperimentFile.model_fields)

    def experiment(self) -> Experiment:
        assert self.topology is not None  # the experiment is complete
        made = Experiment.model_construct(**self.parts)
        made._topology = self.topology
        made._directions = tuple(self.directions)
        made._source = self.source
        made._warnings = (
            *_mixed_hardware([job.trace() for job in made.jobs if not job.is_program]),
            *unmarked(made),
            *flow_warnings(made),
        )
        return made

    def name(self, stem: str) -> None:
        if self.parts.get("name") != "":
            return
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64]
        self.parts["name"] = plain if re.fullmatch(NAME.pattern, plain) else "experiment"

    def links(self) -> None:
        links: Links | None = self.parts.get("links")
        if links is not None:
            values = self.parts.get("values_per_packet")
            virtual = None
            if self.parts.get("runtime") == "virtual":
                virtual = self.parts.get("virtual") or VirtualTime()
            seed = self.parts.get("seed", 0)
            found = resolve_links(links, self.topology, values, virtual, seed)
            self.directions, failed, problems = found
            self.problems += problems
            self.links_sound = not problems
            if failed and not problems and self.topology is not None:
                self.topology = self.topology.failing(failed)

    def switches(self) -> None:
        switches: Switches | None = self.parts.get("switches")
        if switches is None or self.topology is None:
            return
        found = resolve_switches(switches, self.topology, self.system)
        self.parts["switches"], self.topology, problems = found
        self.problems += problems

    # -- jobs

    def arrivals(self) -> None:
        """Jobs that come and go become jobs, without hosts."""
        if "jobs" not in self.parts:
            return
        if "arrivals" not in self.parts:  # unsound, so nobody knows which jobs there are
            del self.parts["jobs"]
            return
        arrivals: Arrivals | None = self.parts["arrivals"]
        if arrivals is None:
            if not self.parts["jobs"]:
                del self.parts["jobs"]
                self.problems.append(Problem.missing(("jobs",), "the training jobs, or arrivals"))
            return
        path: KeyPath = ("arrivals",)
        if self.parts["jobs"]:
            self.add_problem(path, "there are jobs, too; an experiment has one of the two")
        if self.parts.get("runtime") == "mininet":
            self.add_problem(
                path,
                "is for runtime virtual; on Mininet hosts belong to a job for the whole run: name"
                " jobs with a start in `jobs`",
            )
        if self.system is not None and self.system.planned:
            self.add_problem(
                path,
                f"{self.system.title} plans for jobs that have their hosts from the start; take"
                " another system, or name `jobs`",
            )
        if self.parts.get("faults"):
            self.add_problem(
                ("faults",), "cannot be planned for jobs that come and go; take them out"
            )
        arrivals, problems = read_csv(arrivals, self.folder)
        arrivals, self.traced, more = read_trace(arrivals, self.folder)
        problems += more
        self.problems += problems
        if problems:
            del self.parts["jobs"]
            return
        self.submitted(arrivals)

    def submitted(self, arrivals: Arrivals) -> None:
        """The jobs of `arrivals`, resolved; their hosts are found when they are free."""
        listed = shapes(arrivals)
        trace = arrivals.cluster_trace
        if trace is not None:  # the smallest and the largest job
            counts = [workers_of(trace, job) for job in self.traced]
            listed = [
                (path, shape.model_copy(update={"workers": min(counts)})) for path, shape in listed
            ]
        made = [(path, job_of(shape)) for path, shape in listed]
        if trace is not None:
            made = [(path, job.model_copy(update={"workers": max(counts)})) for path, job in made]
        jobs = self.resolved(made)
        arrivals = with_resolved(arrivals, jobs)
        each = self.servers_per_job
        if self.topology is not None and each is not None:
            problems = too_large(listed, self.topology, each)
            self.problems += problems
            if not problems:
                most = min(room(listed, self.topology, each), arrivals.at_once or MAX_JOBS)
                arrivals = arrivals.model_copy(update={"at_once": most})
        if arrivals.poisson is not None or arrivals.cluster_trace is not None:
            self.kinds = tuple(jobs)
            self.source = self.source_of(arrivals)
            if "seed" in self.parts and self.source is not None:
                jobs = list(self.source.jobs(arrivals, self.parts["seed"]))
        self.parts["arrivals"] = arrivals
        self.parts["jobs"] = tuple(jobs)

    def source_of(self, arrivals: Arrivals) -> Source | None:
        """Source from which jobs are drawn; None where something that it depends on is not
        sound."""
        values, servers = self.parts.get("values_per_packet"), self.servers_per_job
        if self.problems or self.topology is None or values is None or servers is None:
            return None
        if not self.directions:  # of links that are not sound
            return None
        hosts = set(self.topology.hosts)
        ways = [way for both in self.directions for way in both]
        rates = [
            way.bandwidth_bps or UNLIMITED_BPS for way in ways if hosts & {way.source, way.target}
        ]
        capacity = Capacity.of(len(hosts), servers, min(rates), values, self.kinds)
        source = Source(self.kinds, capacity, self.traced)
        counts = [job.trace().fragments(values) for job in self.kinds]
        self.problems += trace_too_large(arrivals, source, counts, len(hosts), servers)
        return None if self.problems else source

    def jobs(self) -> None:
        jobs: tuple[Job, ...] | None = self.parts.get("jobs")
        if jobs is None or self.parts.get("arrivals") is not None:
            return
        resolved = self.resolved([(("jobs", number), job) for number, job in enumerate(jobs)])
        self.place(resolved)
        groups = sum(job.groups or 0 for job in resolved)
        if groups and len(resolved) + groups > MAX_JOBS:
            self.add_problem(
                ("jobs",),
                f"found {len(resolved)} jobs with {groups} groups of ranks (`groups`); allowed:"
                f" {MAX_JOBS} together",
            )
        self.parts["jobs"] = tuple(resolved)

    def resolved(self, jobs: list[tuple[KeyPath, Job]]) -> list[Job]:
        """Jobs with their names and traces, by the place in the file that each comes from."""
        names: dict[str, KeyPath] = {}
        found = []
        for number, (path, job) in enumerate(jobs):
            if job.is_program:
                job, trace = self.program_job(path, job)
                model = job.model
            else:
                self.problems += misplaced(path, job)
                trace, model = self.load_model(path, job)
            # A slice of a workload is named in parentheses.
            plain = trace.name.partition(" (")[0] if trace else "job"
            plain = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).lstrip("._-")
            name = job.name or f"{plain[:50]}-{number}"
            if name in names:
                message = f"found {name!r}, which is already the name of {key_path(names[name])}"
                self.add_problem((*path, "name"), f"{message}; rename one of them")
            names.setdefault(name, path)
            compute_scale = job.scale if job.compute_scale is None else job.compute_scale
            update: dict[str, Any] = {"name": name, "model": model, "compute_scale": compute_scale}
            if trace is not None:
                update["gpu"] = trace.gpu
                if job.has_ranks and (size := self.parts.get("values_per_packet")):
                    from testbed.experiment.rank_jobs import count_groups

                    update["groups"] = count_groups(trace, size)
            found.append(job.model_copy(update=update))
            found[-1]._trace = trace
        return found

    def program_job(self, path: KeyPath, job: Job) -> tuple[Job, Trace | None]:
        """A job with a command, and what stands in for its model."""
        job, problems = check_program(path, job, self.folder)
        self.problems += problems
        if self.parts.get("runtime") == "virtual":
            self.add_problem(
                (*path, "command"),
                "is for runtime mininet; programs run on a real clock. In virtual time replay a"
                " model: a shipped one, or a trace of your own (docs/models.md)",
            )
        system: SystemOptions | None = self.parts.get("system")
        if job.numbers == "fixed" and system and not hasattr(system, "fixed_point_scale"):
            self.add_problem(
                (*path, "numbers"),
                "found fixed; only system atp has it, whose parameter server adds up as"
                " floating-point numbers what does not fit. Take exponents",
            )
        declared = len(job.parallel.groups) if job.parallel is not None else 0
        if job.groups is None and self.system is not None:
            own = self.system.divided or self.system.managed  # each group has memory of its own
            groups = declared if own else max(GROUPS, declared)
            job = job.model_copy(update={"groups": groups})
        for key, message in self.problems_of_groups(job, declared):
            self.add_problem((*path, key), message)
        size = self.parts.get("values_per_packet")
        program = Path(job.command.split()[0]).stem if job.command.split() else "program"
        return job, round_trace(program, job.workers, size) if size else None

    def problems_of_groups(self, job: Job, declared: int) -> list[tuple[str, str]]:
        """Keys of a program's job that do not fit its declared groups: (key, message)."""
        if job.parallel is None:
            return []
        from testbed.experiment.rank_jobs import why_no_groups

        found = []
        ranks = math.prod(job.parallel.sizes)
        if ranks != job.workers:
            message = f"found {ranks} ranks together; the job has {job.workers} workers"
            found.append(("parallel", f"{message}. Let the product of the sizes be their number"))
        if job.groups is not None and job.groups < declared:
            message = f"found {job.groups}; `parallel` needs {declared}. Write at least that"
            found.append(("groups", message))
        if why := why_no_groups(self.parts):
            found.append(("parallel", why))
        return found

    def load_model(self, place: KeyPath, job: Job) -> tuple[Trace | None, RankModel | str]:
        """The scaled trace of a job, and the name or absolute path by which to find it again;
        (None, what the file says) if there is no such trace."""
        from testbed.traffic import recording
        from testbed.traffic.buckets import in_buckets
        from testbed.traffic.trace import has_name

        path = (*place, "model")
        missing = [name for name in ("model", "iterations") if not getattr(job, name)]
        for name in missing:
            what = "a trace, or `command`" if name == "model" else "how many to replay"
            self.problems.append(Problem.missing((*place, name), what))
        if missing:
            return None, job.model
        if not isinstance(job.model, str) or job.has_ranks:
            return self.load_ranks(place, job)
        try:
            gpu = job.gpu or self.parts.get("gpu")
            trace = recording.load_model(job.model, self.folder, gpu, job.iterations)
            model = trace.path.stem if has_name(trace.path) else str(trace.path.absolute())
            scaled = in_buckets(trace, job.buckets).scaled(job.scale, job.compute_scale)
        except UserError as error:
            self.add_problem(path, str(error))
            return None, job.model
        for key, message in recording.check(trace, job.workers, job.iterations, job.buckets):
            self.add_problem((*place, key), message)
        if job.gpu is not None and trace.gpu is None:
            self.add_problem(
                (*place, "gpu"),
                f"found {job.gpu}; {trace.name} has the times of its own hardware"
                f" ({trace.hardware}). Take this key out",
            )
        size = self.parts.get("values_per_packet")
        if size:
            count = scaled.fragments(size) * job.iterations
            if count > MAX_FRAGMENTS:
                self.add_problem(
                    (*place, "iterations"),
                    f"found {job.iterations}, which makes {count} fragments; allowed: up to"
                    f" {MAX_FRAGMENTS}, so at most {MAX_FRAGMENTS * job.iterations // count}"
                    " iterations at this scale",
                )
        return scaled, model

    def load_ranks(self, place: KeyPath, job: Job) -> tuple[Trace | None, RankModel | str]:
        """The same of a job that replays a program of ranks."""
        from testbed.experiment.rank_jobs import (
            count_groups,
            problems_of,
            rank_trace,
            resolved_model,
            source_of,
        )

        scale = job.scale if job.compute_scale is None else job.compute_scale
        source = source_of(job, self.folder, self.routes())
        try:
            trace = rank_trace(source, scale)
            if size := self.parts.get("values_per_packet"):
                count_groups(trace, size)
        except UserError as error:
            self.add_problem((*place, "model"), str(error))
            return None, job.model
        for key, message in problems_of(trace, job, self.parts):
            self.add_problem((*place, key), message)
        return trace, resolved_model(job, source)

    def routes(self) -> Routes | None:
        """Carriers of the calls of programs, if not all go by the system."""
        collectives, system = self.parts.get("collectives"), self.system
        if collectives is None or system is None or self.topology is None:
            return None
        servers = 0 if system.memory or system.algorithm else self.servers_per_job or 0
        steps = 0 if system.algorithm else 1 if system.servers == "none" else 2
        hosts = self.topology.hosts
        ends = [way for both in self.directions for way in both if way.source in hosts]
        virtual = self.parts.get("virtual") or VirtualTime()
        hop_ns = 2 * max((way.delay_ns for way in ends), default=0)
        hop_ns += virtual.worker_delay_ns + virtual.switch_latency_ns
        rate = min((way.bandwidth_bps for way in ends if way.bandwidth_bps), default=0)
        network = Network(hop_ns, rate, steps, servers)
        return collectives.routes(system.name, network, self.ranks_per_server)

    @property
    def ranks_per_server(self) -> int:
        """Hosts for workers of each server, if all servers have as many; else 1."""
        assert self.topology is not None
        kept, servers = self.topology.ps_hosts, self.topology.servers.values()
        sizes = {sum(host not in kept for host in hosts) for hosts in servers}
        return sizes.pop() if len(sizes) == 1 else 1

    def fit_servers(self, jobs: list[Job]) -> None:
        """Add a problem where calls go in steps inside servers, and jobs do not fill these."""
        collectives: Collectives | None = self.parts.get("collectives")
        topology = self.topology
        if collectives is None or topology is None:
            return
        places = [
            ("collectives", kind, place, "inside")
            for kind, place, route in collectives.each()
            if route.inside
        ]
        if not places:
            return
        size = self.ranks_per_server
        if size < 2:
            self.add_problem(
                places[0],
                "needs servers with equally many ranks, two or more; take it out, or take such a"
                " topology (rails, or per_server)",
            )
            return
        for job in jobs:
            workers = job.fixed_placement.workers
            for first in range(0, len(workers), size):
                found = {topology.server_of(host) for host in workers[first : first + size]}
                if len(found) > 1:
                    last = min(first + size, len(workers)) - 1
                    self.add_problem(
                        places[0],
                        f"needs jobs that fill servers of {size} ranks, but ranks {first} to {last}"
                        f" of {job.name} are on {len(found)} servers; place whole servers",
                    )
                    return

    def collectives(self) -> None:
        """Check what carries which call."""
        collectives: Collectives | None = self.parts.get("collectives")
        jobs: tuple[Job, ...] = self.parts.get("jobs", ())
        if collectives is None or self.system is None:
            return
        hosts = [each.name for each in systems.SYSTEMS.values() if each.algorithm]
        known = tuple(dict.fromkeys([self.system.name, *hosts, AUTO]))
        for kind, place, route in collectives.each():
            if route.use not in known:
                hint = did_you_mean(route.use, known) or "take one of them"
                self.add_problem(
                    ("collectives", kind, place, "use"),
                    sentence(f"found {route.use!r}; allowed: {', '.join(known)}", hint),
                )
        if any(True for _ in collectives.each()) and not all(job.has_ranks for job in jobs):
            other = next(job.name for job in jobs if not job.has_ranks)
            self.add_problem(
                ("collectives",),
                f"is for jobs that replay a program of ranks, and {other} does not; take it out, or"
                " replay a program (docs/workloads.md)",
            )

    def place(self, jobs: list[Job]) -> None:
        """Give every role a host, those that are named first; `jobs` is changed in place."""
        topology = self.topology
        taken: dict[str, str] = {}
        sound = True
        for number, job in enumerate(jobs):
            placement = job.placement
            if not isinstance(placement, Placement):
                continue
            path = ("jobs", number, "placement")
            count = len(placement.workers)
            if count != job.workers:
                message = f"found {count} host{'s' if count != 1 else ''}; the job has"
                self.add_problem((*path, "workers"), f"{message} {job.workers} workers")
                sound = False
            roles: list[tuple[KeyPath, str]] = [
                ((*path, "workers", i), host) for i, host in enumerate(placement.workers)
            ]
            several = len(placement.servers) > 1
            for i, host in enumerate(placement.servers):
                roles.append(((*path, "ps", i) if several else (*path, "ps"), host))
            sound &= self.servers_fit((*path, "ps"), placement)
            for role, host in roles:
                if topology is not None and host not in topology.hosts:
                    near = did_you_mean(host, topology.hosts)
                    what = "is a switch" if host in topology.switches else "is not in the topology"
                    self.add_problem(role, sentence(f"{host} {what}", near))
                    sound = False
                elif host in taken:
                    message = f"{host} already has a role in {taken[host]}; a host has one role"
                    self.add_problem(role, message)
                    sound = False
                taken.setdefault(host, f"jobs[{number}]")
        if topology is None or not sound:
            return
        each = 1 if self.servers_per_job is None else self.servers_per_job
        needed = sum(job.workers + each for job in jobs)
        if needed > len(topology.hosts):
            servers = each * len(jobs)
            found = f"found {needed - servers} workers"
            if servers:
                found += f" and {servers} parameter server{'s' * (servers > 1)}"
                found += f", together {needed} roles"
            self.add_problem(
                ("jobs",),
                f"{found}; the topology has {len(topology.hosts)} hosts, and each takes one role",
            )
            return
        extra = max(each, self.servers_reserved)
        if sum(job.workers + extra for job in jobs) > len(topology.hosts):
            extra = each
        by_word = []
        for number, job in enumerate(jobs):
            if isinstance(job.placement, str):
                free = [host for host in topology.hosts if host not in taken]
                seed = self.parts.get("seed", 0)
                hosts = choose(job.placement, topology, free, job.workers, extra, seed, number)
                if hosts is None:
                    return  # a system that is not sound has its own error, and unknown needs
                taken |= dict.fromkeys(hosts, "")
                placement = Placement.of(hosts[: job.workers + each], job.workers)
                jobs[number] = job.model_copy(update={"placement": placement})
                by_word.append(number)
        self.fit_servers(jobs)
        for number in by_word if self.serves_groups else ():
            jobs[number] = self.serve_groups(jobs[number], taken)

    @property
    def servers_per_job(self) -> int | None:
        """Parameter servers of each job; None where the file does not say it soundly."""
        if self.system is None or self.system.servers == "many" and "system" not in self.parts:
            return None
        return self.system.servers_per_job(self.parts.get("system"))

    @property
    def serves_groups(self) -> bool:
        """True if groups of ranks may have parameter servers of their own."""
        if self.system is None or self.system.servers != "one" or self.system.planned:
            return False
        return self.topology is not None and has_shared_servers(self.topology)

    def serve_groups(self, job: Job, taken: dict[str, str]) -> Job:
        """The job with further parameter servers, on free hosts, for groups of its ranks that are
        known before the run: for each the nearest, if it is nearer than the job's."""
        assert self.topology is not None
        placement = job.fixed_placement
        found = placement.servers
        for group in self.known_groups(job):
            workers = [placement.workers[rank] for rank in group]
            known = [host for host in self.topology.hosts if host not in taken or host in found]
            host = nearest(self.topology, workers, known)
            if host not in found:
                found = (*found, host)
                taken[host] = ""
        served = Placement.of((*placement.workers, *found), job.workers)
        return job.model_copy(update={"placement": served})

    def known_groups(self, job: Job) -> Sequence[Sequence[int]]:
        """Ranks of the groups of a job that are known before the run."""
        if job.parallel is not None:
            return job.parallel.groups
        if job.has_ranks and job._trace is not None and "values_per_packet" in self.parts:
            groups = job.rank_groups(self.parts["values_per_packet"])
            return [group.ranks for group in groups if not algorithm_of(group.name)]
        return ()

    def servers_fit(self, path: KeyPath, placement: Placement) -> bool:
        """True if a job names as many servers as its system has; otherwise adds a problem."""
        wanted, found = self.servers_per_job, len(placement.servers)
        if self.system is None or wanted is None or found == wanted:
            return True
        if wanted == 1 < found and self.serves_groups:  # further ones are for groups of ranks
            return True
        title = self.system.title
        if not found:
            self.problems.append(Problem.missing(path, f"{title} needs a parameter server"))
        elif not wanted:
            self.add_problem(
                path,
                f"{title} has no parameter server; its workers exchange gradients without one. Take"
                " this key out",
            )
        else:
            hosts = f"found {found} host{'s' if found != 1 else ''}"
            allowed = "one parameter server per job"
            if self.system.servers == "many":
                allowed = f"{wanted}, as system.servers says"
            self.add_problem(path, f"{hosts}; allowed for {title}: {allowed}")
        return False

    # -- scale

    def scale_windows(self) -> None:
        """Add a problem where the network cannot be scaled along with the jobs."""
        if not self.parts.get("scale_windows"):
            return
        jobs = (*self.parts.get("jobs", ()), *self.kinds)
        if why := why_not(self.parts.get("runtime"), jobs):
            self.add_problem(("scale_windows",), why)
            return
        ways = [way for both in self.directions for way in both if way.reorder]
        if not ways or not jobs or "values_per_packet" not in self.parts:
            return
        scale = jobs[0].scale
        for way in ways:
            delay_ns = scaled_ns(way.reorder_delay_ns, scale)
            if delay_ns <= (frame_ns := packet_ns(way, self.parts["values_per_packet"])):
                self.add_problem(
                    ("scale_windows",),
                    f"makes the reorder_delay from {way.source} to {way.target}"
                    f" {show(delay_ns, TIME)} at a scale of {scale:g}, so that no packet would"
                    f" overtake another; allowed: more than {show(frame_ns, TIME)}, a packet's time"
                    " on the link",
                )
                return

    # -- memory and program

    def memory(self) -> None:
        memory: Memory | None = self.parts.get("memory")
        if self.system is not None and "memory" in self.parts:
            if memory is None and self.system.memory:
                meaning = "Memory of each switch for aggregation"
                self.problems.append(Problem.missing(("memory",), meaning))
                return
            if memory is not None and not self.system.memory:
                self.add_problem(
                    ("memory",),
                    f"{self.system.title} does not aggregate in the switch and has no use for its"
                    " memory. Take this key out",
                )
                return
        if memory is None:
            return
        if memory.size_bytes is None:
            self.enough_for_all(("memory", "aggregators"), memory.aggregators or 0)
            return
        needs = ("system", "values_per_packet", "jobs")
        if self.system is None or any(name not in self.parts for name in needs):
            return
        bits = bitmap_bits((*self.parts["jobs"], *self.kinds))
        each_bytes = self.system.aggregator_bytes(self.parts["values_per_packet"], bits)
        count = memory.size_bytes // each_bytes
        if not 1 <= count <= MAX_AGGREGATORS:
            self.add_problem(
                ("memory", "size"),
                f"found {shown(memory, 'size_bytes')}, which is room for {count} aggregators of"
                f" {each_bytes} B; allowed: 1 to {MAX_AGGREGATORS} aggregators",
            )
            return
        self.enough_for_all(("memory", "size"), count)
        self.parts["memory"] = memory.model_copy(update={"aggregators": count, "size_bytes": None})

    def enough_for_all(self, path: KeyPath, aggregators: int) -> None:
        """Add a problem where every job has memory of its own, and there is not enough for each."""
        if self.system is None or "jobs" not in self.parts or "system" not in self.parts:
            return
        scaled = ""
        if self.parts.get("scale_windows"):
            scale = self.parts["jobs"][0].scale
            aggregators, scaled = scaled_count(aggregators, scale), f" at a scale of {scale:g}"
        jobs = len(self.parts["jobs"])
        each = self.system.aggregators_per_job(self.parts["system"])
        who = f"{jobs} job{'s' if jobs > 1 else ''}"
        if groups := sum(job.groups or 0 for job in self.parts["jobs"]):
            jobs += groups
            who += f" with {groups} groups of ranks"
        if arrivals := self.parts.get("arrivals"):
            jobs = arrivals.at_once or 1
            who = f"{jobs} at once (arrivals.at_once)"
        if aggregators < jobs * each:
            self.add_problem(
                path,
                f"found {aggregators} aggregators{scaled}; {self.system.title} divides them among"
                f" the jobs, and {who} need at least {jobs * each}",
            )

    def program(self) -> None:
        system: SystemOptions | None = self.parts.get("system")
        if system is None or system.program == "default":
            return
        try:
            file = user_file(system.program, self.folder)
        except FieldError as error:
            self.problems.append(Problem.of(("system", "program"), error))
            return
        self.parts["system"] = system.model_copy(update={"program": str(file)})

    def faults(self) -> None:
        faults: tuple[Fault, ...] = self.parts.get("faults", ())
        # A job that is not sound has its own errors.
        jobs = self.parts.get("jobs") if not self.problems else None
        self.problems += check_faults(faults, jobs, self.topology)
        self.parts["faults"] = tuple(fault.with_failover() for fault in faults)
        zeros = getattr(self.parts.get("system"), "zeros", "")
        if self.system is not None and self.system.managed and zeros == "header_only":
            lost = next((fault for fault in faults if fault.loses_memory), None)
            if lost is not None:
                self.add_problem(
                    ("system", "zeros"),
                    f"found header_only; with the fault {lost.kind} workers ask each other for"
                    " results, of which each must have all values. Take sent, or auto",
                )
        for number, fault in enumerate(faults):
            if fault.of_link and self.system is not None and not self.system.reroutes:
                self.add_problem(
                    ("faults", number, "fault"),
                    f"found {fault.kind}; the system {self.system.name} does not say what becomes"
                    " of its jobs when routes change (`reroutes`, docs/architecture.md)",
                )

    # -- virtual time

    def virtual(self) -> None:
        """Add problems with settings that are for virtual time alone, or that virtual time cannot
        honour."""
        if "runtime" not in self.parts or "virtual" not in self.parts:
            return
        if self.parts["runtime"] != "virtual":
            if self.parts["virtual"] is not None:
                self.add_problem(
                    ("virtual",),
                    f"is for runtime virtual, not {self.parts['runtime']}, where hosts and switches"
                    " take the time that they take. Take this key out",
                )
            return
        if self.parts["virtual"] is None:
            self.parts["virtual"] = VirtualTime()
        for number, fault in enumerate(self.parts.get("faults", ())):
            if fault.needs_processes:
                self.add_problem(
                    ("faults", number, "fault"),
                    f"found {fault.kind}; allowed with runtime virtual: pause of a job, worker or"
                    " server, slow of workers; there are no processes to end or to slow down",
                )

    # -- trains

    def offload(self) -> None:
        """Only our own switch takes packets in trains from a kernel."""
        if self.parts.get("offload") != "on":
            return
        for key, allowed in (("runtime", "mininet"), ("switch", "embedded")):
            if key in self.parts and self.parts[key] != allowed:
                self.add_problem(
                    ("offload",),
                    f"found on; allowed with {key} {self.parts[key]}: auto, off (only the embedded"
                    " switch on Mininet takes packets in trains)",
                )

    # -- values of 16 bits

    def value_bits(self) -> None:
        """Add problems with settings that exclude 16-bit values."""
        if self.parts.get("value_bits") != 16:
            return
        if self.parts.get("values_per_packet") == 1:
            self.add_problem(
                ("value_bits",), "found 16 with values_per_packet 1; allowed: 2 values or more"
            )
        system: SystemOptions | None = self.parts.get("system")
        if system is not None:
            entry = systems.SYSTEMS[system.name]
            if not entry.memory and entry.servers == "none":
                self.add_problem(
                    ("value_bits",),
                    f"found 16 with system {system.name}, whose workers pass on sums of some"
                    " workers, which need more bits. Take it out",
                )
        for number, job in enumerate(self.parts.get("jobs", ())):
            if job.numbers == "fixed":
                self.add_problem(
                    ("jobs", number, "numbers"),
                    "found fixed with value_bits 16, where values have the exponents of their"
                    " blocks. Take exponents",
                )

    # -- BMv2

    def bmv2(self) -> None:
        """Add problems with settings that BMv2 cannot honour."""
        if self.parts.get("switch") != "bmv2":
            return
        from testbed.experiment.bmv2_limits import check as check_bmv2
        from testbed.experiment.bmv2_limits import growing_packets

        frame = None
        if "values_per_packet" in self.parts and "jobs" in self.parts:
            frame = frame_bytes(self.parts["values_per_packet"], bitmap_bits(self.parts["jobs"]))
        ways = [way for both in self.directions for way in both]
        self.problems += check_bmv2(self.parts.get("runtime"), ways, frame)
        system: SystemOptions | None = self.parts.get("system")
        limited = any(way.bandwidth_bps for way in ways)
        if system is not None and "values_per_packet" in self.parts:
            jobs = self.parts.get("jobs", ())
            programs = not limited and any(job.is_program or job.has_ranks for job in jobs)
            values = self.parts["values_per_packet"]
            self.problems += growing_packets(system, values, programs)
        if limited and getattr(system, "zeros", "auto") == "header_only":
            self.add_problem(
                ("system", "zeros"),
                "found header_only with switch bmv2, whose queues take as long for a header as for"
                " a full packet; take it out, or use switch embedded, or bandwidth: unlimited",
            )
        if limited and self.parts.get("value_bits") == 16:
            self.add_problem(
                ("value_bits",),
                "found 16 with switch bmv2, whose queues take as long for a short packet as for a"
                " full one; take it out, or use switch embedded, or bandwidth: unlimited",
            )
        for number, fault in enumerate(self.parts.get("faults", ())):
            if fault.of_link:
                self.add_problem(
                    ("faults", number, "fault"),
                    f"found {fault.kind} with switch bmv2, whose links cannot fail during a run;"
                    " take the fault out, or use switch embedded",
                )

    # -- losses

    def losses(self) -> None:
        """Check that nothing loses packets on purpose if no packet may be lost."""
        options: SystemOptions | None = self.parts.get("system")
        if options is None or not options.lossless_reason:
            return
        if self.links_sound and self.topology is not None:
            links, topology = self.parts["links"], self.topology
            self.problems += lossy_links(links, topology, self.directions, options.lossless_reason)
        self.problems += restarts(self.parts.get("faults", ()), options.lossless_reason)

    # -- background traffic

    def background(self) -> None:
        """Add problems with background flows that cannot be honoured."""
        flows, system = self.parts.get("background"), self.parts.get("system")
        if not flows or self.topology is None:
            return
        frame = None
        limited = any(way.bandwidth_bps for both in self.directions for way in both)
        known = "values_per_packet" in self.parts and "jobs" in self.parts
        if self.parts.get("switch") == "bmv2" and limited and known:
            frame = frame_bytes(self.parts["values_per_packet"], bitmap_bits(self.parts["jobs"]))
        reason = system.lossless_reason if system is not None else ""
        virtual = self.parts.get("runtime") == "virtual"
        self.problems += check_background(flows, self.topology, reason, frame, virtual)


def _mixed_hardware(traces: list[Trace]) -> list[str]:
    hardware: dict[str, list[str]] = {}
    for trace in traces:
        names = hardware.setdefault(trace.hardware, [])
        if trace.name not in names:
            names.append(trace.name)
    if len(hardware) < 2:
        return []
    groups = "; ".join(f"{where}: {', '.join(names)}" for where, names in hardware.items())
    return [f"the compute times of these jobs' models belong to different hardware ({groups})"]
