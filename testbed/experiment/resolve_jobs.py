"""Jobs with their names and models: the trace that each replays, or what stands in for a program.

Each way to give a job has keys of its own, so each has its own rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.config.problems import Path as KeyPath
from p4fabric.base.config.problems import Problem, key_path
from p4fabric.base.errors import UserError
from p4fabric.base.topology import Topology

from testbed import systems
from testbed.algorithms.choice import Network
from testbed.experiment.program_jobs import check as check_program
from testbed.experiment.program_jobs import misplaced, round_trace
from testbed.experiment.resolve_placement import ranks_per_server
from testbed.experiment.rules import Known, Rule, arguments, ask_all
from testbed.experiment.schema import VirtualTime
from testbed.experiment.schema_collectives import Collectives
from testbed.experiment.schema_jobs import ALL, GROUPS, Job
from testbed.number_formats import format_of
from testbed.protocols.sizes import MAX_FRAGMENTS
from testbed.traffic.call_algorithms import AlgorithmRules

if TYPE_CHECKING:
    from testbed.experiment.experiment import LinkDirection
    from testbed.traffic.trace import Trace

Loaded = tuple[Job, "Trace | None", list[Problem]]


def loaded(jobs: Sequence[tuple[KeyPath, Job]], known: Known) -> tuple[list[Job], list[Problem]]:
    """Jobs with their names and traces, by the place in the file that each comes from."""
    names: dict[str, KeyPath] = {}
    found: list[Job] = []
    problems: list[Problem] = []
    for number, (path, given) in enumerate(jobs):
        job, trace, wrong = (_program if given.is_program else _replayed)(path, given, known)
        problems += [*wrong, *ask_all(OF_PRIORITIES, path, {**known, "job": job})]
        # A slice of a workload is named in parentheses.
        plain = trace.name.partition(" (")[0] if trace else "job"
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).lstrip("._-")
        name = job.name or f"{plain[:50]}-{number}"
        if name in names:
            message = f"found {name!r}, which is already the name of {key_path(names[name])}"
            problems.append(Problem((*path, "name"), f"{message}; rename one of them"))
        names.setdefault(name, path)
        update: Known = {"name": name, "compute_scale": _compute_scale(job)}
        if trace is not None:
            update["gpu"] = trace.gpu
        found.append(job.model_copy(update=update))
        found[-1]._trace = trace
    return found, problems


def _compute_scale(job: Job) -> float:
    return job.scale if job.compute_scale is None else job.compute_scale


def _why_no_groups(job: Job, known: Known) -> str:
    from testbed.experiment.rank_jobs import why_no_groups

    return why_no_groups(known) if job.parallel is not None else ""


OF_PROGRAM = (
    Rule(
        "command",
        lambda runtime: runtime == "virtual",
        "is for runtime mininet; programs run on a real clock. In virtual time replay a model: a"
        " shipped one, or a trace of your own (docs/models.md)",
    ),
    Rule(
        "numbers",
        lambda job, system: job.numbers == "fixed" and not hasattr(system, "fixed_point_scale"),
        "found fixed; only system atp has it, whose parameter server adds up as floating-point"
        " numbers what does not fit. Take exponents",
    ),
    Rule(
        "parallel",
        lambda job, ranks: ranks not in (0, job.workers),
        "found {ranks} ranks together; the job has {job.workers} workers. Let the product of the"
        " sizes be their number",
    ),
    Rule(
        "groups",
        lambda job, declared: job.groups is not None and job.groups < declared,
        "found {job.groups}; `parallel` needs {declared}. Write at least that",
    ),
    Rule("parallel", _why_no_groups),
)


def _program(path: KeyPath, job: Job, known: Known) -> Loaded:
    """A job with a command."""
    job, problems = check_program(path, job, known["folder"])
    declared = len(job.parallel.groups) if job.parallel is not None else 0
    ranks = math.prod(job.parallel.sizes) if job.parallel is not None else 0
    entry: systems.System | None = known.get("entry")
    if job.groups is None and entry is not None:
        own = entry.divided or entry.managed  # each group has memory of its own
        groups = declared if own else max(GROUPS, declared)
        job = job.model_copy(update={"groups": groups})
    problems += ask_all(
        OF_PROGRAM, path, {**known, "job": job, "declared": declared, "ranks": ranks}
    )
    size = known.get("values_per_packet")
    program = Path(job.command.split()[0]).stem if job.command.split() else "program"
    return job, round_trace(program, job.workers, size) if size else None, problems


OF_PRIORITIES = (
    Rule(
        "priorities",
        lambda job, system: bool(job.priorities) and not hasattr(system, "preempt"),
        "only fragments of system esa have them; take this key out",
    ),
    Rule(
        "priorities",
        lambda job: not job.has_ranks and {*(job.priorities or ())} - {ALL} and ALL,
        "names calls or groups, which only a program of ranks has; name {found} alone",
    ),
)
OF_MODEL = (
    Rule("model", lambda job: not job.model, "missing; a trace, or `command`"),
    Rule("iterations", lambda job: not job.iterations, "missing; how many to replay"),
)
OF_TRACE = (
    Rule(
        "gpu",
        lambda job, trace: job.gpu is not None and trace.gpu is None,
        "found {job.gpu}; {trace.name} has the times of its own hardware ({trace.hardware}). Take"
        " this key out",
    ),
    Rule(
        "iterations",
        lambda job, fragments: (
            fragments > MAX_FRAGMENTS and MAX_FRAGMENTS * job.iterations // fragments
        ),
        "found {job.iterations}, which makes {fragments} fragments; allowed: up to"
        f" {MAX_FRAGMENTS}, so at most {{found}} iterations at this scale",
    ),
)


def _replayed(path: KeyPath, job: Job, known: Known) -> Loaded:
    """A job with its scaled trace, and the name or absolute path by which to find that again."""
    problems = [*misplaced(path, job), *ask_all(OF_MODEL, path, {"job": job})]
    if not job.model or not job.iterations:
        return job, None, problems
    try:
        made, trace, wrong = (_of_ranks if job.has_ranks else _of_trace)(path, job, known)
    except UserError as error:
        return job, None, [*problems, Problem((*path, "model"), str(error))]
    return made, trace, problems + wrong


def _of_trace(path: KeyPath, job: Job, known: Known) -> Loaded:
    from testbed.traffic import recording
    from testbed.traffic.buckets import in_buckets
    from testbed.traffic.trace import has_name

    assert isinstance(job.model, str)
    gpu = job.gpu or known.get("gpu")
    trace = recording.load_model(job.model, known["folder"], gpu, job.iterations)
    model = trace.path.stem if has_name(trace.path) else str(trace.path.absolute())
    scaled = in_buckets(trace, job.buckets).scaled(job.scale, job.compute_scale)
    wrong = recording.check(trace, job.workers, job.iterations, job.buckets)
    problems = [Problem((*path, key), message) for key, message in wrong]
    facts: Known = {"job": job, "trace": trace}
    if size := known.get("values_per_packet"):
        facts["fragments"] = scaled.fragments(size) * job.iterations
    problems += ask_all(OF_TRACE, path, facts)
    return job.model_copy(update={"model": model}), scaled, problems


def _of_ranks(path: KeyPath, job: Job, known: Known) -> Loaded:
    """The same of a job that replays a program of ranks."""
    from testbed.experiment import rank_jobs

    needed = arguments(_routes, known)
    per_server = ranks_per_server(known["network"]) if "network" in known else 1
    routes = _routes(**needed) if needed else None
    if job.sums:
        own = format_of(known.get("system")).name
        sums = tuple((name, "" if each == own else each) for name, each in job.sums.items())
        routes = replace(routes or AlgorithmRules(), sums=sums)
    word = format_of(known.get("system")).bits // 8
    source = rank_jobs.source_of(job, known["folder"], routes, per_server, word)
    trace = rank_jobs.rank_trace(source, _compute_scale(job))
    update: Known = {"model": rank_jobs.resolved_model(job, source, known["folder"])}
    if size := known.get("values_per_packet"):
        update["groups"] = rank_jobs.count_groups(trace, size)
    wrong = rank_jobs.problems_of(trace, job, known)
    problems = [Problem((*path, key), message) for key, message in wrong]
    return job.model_copy(update=update), trace, problems


def _routes(
    collectives: Collectives,
    entry: systems.System,
    network: Topology,
    ways: Sequence[LinkDirection],
    servers: int = 0,
    virtual: VirtualTime | None = None,
) -> AlgorithmRules | None:
    """Carriers of the calls of programs, if not all go by the system."""
    if entry.memory or entry.algorithm:
        servers = 0
    steps = 0 if entry.algorithm else 1 if entry.servers == "none" else 2
    ends = [way for way in ways if way.source in network.hosts]
    virtual = virtual or VirtualTime()
    hop_ns = 2 * max((way.delay_ns for way in ends), default=0)
    hop_ns += virtual.worker_delay_ns + virtual.switch_latency_ns
    rate = min((way.bandwidth_bps for way in ends if way.bandwidth_bps), default=0)
    choice = Network(hop_ns, rate, steps, servers)
    return collectives.routes(entry.name, choice, ranks_per_server(network))
