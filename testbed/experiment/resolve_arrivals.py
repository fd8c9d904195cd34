"""Jobs of the key `arrivals`: the submissions of a CSV file or a Poisson process, and their checks.

A job that is submitted has no hosts until some are free, so its placement stays open; what is
checked here is that it would fit an empty network, since one that does not would wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.config.fields import user_file
from p4fabric.base.config.problems import Problem
from p4fabric.base.config.units import FieldError
from p4fabric.base.config.yaml_document import plain_value
from p4fabric.base.errors import UserError
from p4fabric.base.topology import Topology
from pydantic import ValidationError

from testbed.experiment.drawn_jobs import UNLIMITED_BPS, Capacity, Source, longest, workers_of
from testbed.experiment.resolve_jobs import loaded
from testbed.experiment.rules import Found, Known
from testbed.experiment.schema import explain
from testbed.experiment.schema_arrivals import Arrivals, Kind, Submission
from testbed.experiment.schema_jobs import Job, JobShape
from testbed.protocols.sizes import MAX_FRAGMENTS, MAX_JOBS
from testbed.traffic.arrivals import read_mix
from testbed.traffic.cluster_traces import TracedJob, read_cluster_trace

if TYPE_CHECKING:
    from p4fabric.base.config.problems import Path as KeyPath

    from testbed.experiment.experiment import LinkDirection

UNSOUND = {"submitted": None, "jobs": None}
CSV: KeyPath = ("arrivals", "csv")
TRACE: KeyPath = ("arrivals", "cluster_trace")


def submitted(jobs: Sequence[Job], arrivals: Arrivals | None) -> Found:
    """Jobs that come and go, if there are any."""
    if arrivals is None and not jobs:
        yield Problem.missing(("jobs",), "the training jobs, or arrivals")
        yield {"jobs": None}
    yield {"submitted": arrivals}


def read_csv(submitted: Arrivals, folder: Path) -> Found:
    """The same with the lines of their CSV file, if they name one, as submissions."""
    if submitted.csv is None:
        return
    found: list[Submission] = []
    problems: list[Problem] = []
    try:
        file = user_file(submitted.csv, folder)
        lines = read_mix(file)
        if len(lines) > MAX_JOBS:
            message = f"{file}: found {len(lines)} jobs; allowed: at most {MAX_JOBS}"
            lines, problems = [], [Problem(CSV, message)]
    except FieldError as error:
        lines, problems = [], [Problem.of(CSV, error)]
    except UserError as error:
        lines, problems = [], [Problem(CSV, str(error))]
    for line in lines:
        data = {name: plain_value(cell) for name, cell in line.cells.items()}
        try:
            found.append(Submission.model_validate(data))
        except ValidationError as error:
            for each in explain(error, (), Submission):
                place = f"{file}, line {line.number}, column {each.path[-1]}"
                problems.append(Problem(CSV, f"{place}: {each.message}"))
    yield from problems
    read = submitted.model_copy(update={"csv": None, "submissions": tuple(found)})
    yield UNSOUND if problems else {"submitted": read}


def read_trace(submitted: Arrivals, folder: Path) -> Found:
    """The same with the absolute path of their cluster trace, if they have one, and its jobs that
    have enough GPUs."""
    trace = submitted.cluster_trace
    if trace is None:
        return
    try:
        file = user_file(trace.file, folder)
        found = read_cluster_trace(file, trace.format)
    except FieldError as error:
        yield from (Problem.of((*TRACE, "file"), error), UNSOUND)
        return
    except UserError as error:
        yield from (Problem((*TRACE, "file"), str(error)), UNSOUND)
        return
    usable = tuple(job for job in found if workers_of(trace, job) >= trace.fewest_workers)
    if len(usable) < trace.jobs:
        have = (
            f"{len(usable)} of its {len(found)} jobs have at least {trace.fewest_workers} workers"
        )
        message = f"found {trace.jobs}; in {file}, {have} (fewest_workers)"
        yield Problem((*TRACE, "jobs"), message)
        yield UNSOUND
        return
    absolute = trace.model_copy(update={"file": str(file)})
    yield {"submitted": submitted.model_copy(update={"cluster_trace": absolute}), "traced": usable}


def submitted_jobs(
    submitted: Arrivals,
    known: Known,
    traced: Sequence[TracedJob],
    network: Topology | None = None,
    servers: int | None = None,
) -> Found:
    """Jobs that come and go become jobs, without hosts; these are found when they are free."""
    listed = shapes(submitted)
    trace = submitted.cluster_trace
    counts = [workers_of(trace, job) for job in traced] if trace is not None else []
    if counts:  # the smallest and the largest job
        smallest = {"workers": min(counts)}
        listed = [(path, shape.model_copy(update=smallest)) for path, shape in listed]
    made = [(path, job_of(shape)) for path, shape in listed]
    if counts:
        made = [(path, job.model_copy(update={"workers": max(counts)})) for path, job in made]
    jobs, problems = loaded(made, known)
    yield from problems
    submitted = with_resolved(submitted, jobs)
    if network is not None and servers is not None:
        problems = too_large(listed, network, servers)
        yield from problems
        if not problems:
            most = min(room(listed, network, servers), submitted.at_once or MAX_JOBS)
            submitted = submitted.model_copy(update={"at_once": most})
    yield {"submitted": submitted, "arrivals": submitted, "jobs": tuple(jobs)}
    if not submitted.submissions:
        yield {"kinds": tuple(jobs)}


def drawn_jobs(
    submitted: Arrivals,
    kinds: tuple[Job, ...],
    ways: Sequence[LinkDirection],
    traced: tuple[TracedJob, ...],
    network: Topology,
    values_per_packet: int,
    servers: int,
    problems: Sequence[Problem],
    seed: int | None = None,
) -> Found:
    """Jobs that are drawn, unless something that they depend on is not sound."""
    if not kinds or problems or not ways:
        return
    hosts = set(network.hosts)
    rates = [way.bandwidth_bps or UNLIMITED_BPS for way in ways if hosts & {way.source, way.target}]
    capacity = Capacity.of(len(hosts), servers, min(rates), values_per_packet, kinds)
    source = Source(kinds, capacity, traced)
    counts = [job.trace().fragments(values_per_packet) for job in kinds]
    found = trace_too_large(submitted, source, counts, len(hosts), servers)
    yield from found
    if not found:
        yield {"source": source}
        if seed is not None:
            yield {"jobs": source.jobs(submitted, seed)}


def trace_too_large(
    arrivals: Arrivals, source: Source, fragments: Sequence[int], hosts: int, servers: int
) -> list[Problem]:
    """Jobs of a cluster trace that do not fit the network, or the numbers of fragments.
    `fragments`: of an iteration of each model."""
    trace = arrivals.cluster_trace
    if trace is None:
        return []
    problems = []
    largest = max(source.traced, key=lambda job: job.gpus)
    workers = workers_of(trace, largest)
    if workers + servers > hosts:
        problems.append(
            Problem(
                (*TRACE, "most_workers"),
                f"job {largest.number} of the trace has {largest.gpus} GPUs, so {workers} workers;"
                f" the topology has {hosts} hosts, and each takes one role. Set most_workers to"
                f" at most {hosts - servers}, or take more gpus_per_worker",
            )
        )
    slowest = max(source.traced, key=lambda job: job.duration_ns)
    for kind, count in enumerate(fragments):
        iterations = source.iterations(trace, slowest, kind)
        most = min(MAX_FRAGMENTS // count, 10**6)
        if iterations > most:
            problems.append(
                Problem(
                    (*TRACE, "time_scale"),
                    f"found {trace.time_scale:g}; job {slowest.number} of the trace, of"
                    f" {slowest.duration_ns / 1e9:g} s, becomes {iterations} iterations of"
                    f" {trace.models[kind].model}; allowed: up to {most}, so at most"
                    f" {trace.time_scale * most / iterations:.3g}",
                )
            )
            break
    return problems


def shapes(arrivals: Arrivals) -> list[tuple[KeyPath, JobShape]]:
    """Shapes of the submitted jobs, each with its place in the file."""
    place: KeyPath = ("arrivals", "submissions")
    listed: Sequence[JobShape] = arrivals.submissions
    if arrivals.poisson is not None:
        place, listed = ("arrivals", "poisson", "kinds"), arrivals.poisson.kinds
    if arrivals.cluster_trace is not None:
        place, listed = (*TRACE, "models"), arrivals.cluster_trace.models
    return [((*place, number), shape) for number, shape in enumerate(listed)]


def job_of(shape: JobShape) -> Job:
    """A job of this shape, without hosts; of a kind, the largest."""
    parts: Known = {name: getattr(shape, name) for name in JobShape.model_fields}
    if isinstance(shape, Kind):
        parts |= {"workers": shape.worker_counts[-1], "iterations": longest(shape)}
    start_ns = shape.submit_ns if isinstance(shape, Submission) else 0
    return Job.model_construct(**parts, start_ns=start_ns, placement="packed")


def with_resolved(arrivals: Arrivals, jobs: Sequence[Job]) -> Arrivals:
    """The same with all that was left open in its shapes, of which `jobs` were made in order."""
    known = "name", "model", "gpu", "compute_scale"
    listed = tuple(
        shape.model_copy(update={name: getattr(job, name) for name in known})
        for (_, shape), job in zip(shapes(arrivals), jobs, strict=True)
    )
    if arrivals.cluster_trace is not None:
        trace = arrivals.cluster_trace.model_copy(update={"models": listed})
        return arrivals.model_copy(update={"cluster_trace": trace})
    if arrivals.poisson is None:
        return arrivals.model_copy(update={"submissions": listed})
    process = arrivals.poisson.model_copy(update={"kinds": listed})
    return arrivals.model_copy(update={"poisson": process})


def too_large(
    listed: Sequence[tuple[KeyPath, JobShape]], topology: Topology, servers: int
) -> list[Problem]:
    """Jobs that have more roles than the whole network has hosts."""
    hosts = len(topology.hosts)
    found = []
    for path, shape in listed:
        key, workers = "workers", shape.workers
        if isinstance(shape, Kind) and shape.worker_counts[-1] > workers:
            key, workers = "most_workers", shape.worker_counts[-1]
        if workers + servers <= hosts:
            continue
        also = f" and {servers} parameter server{'s' if servers > 1 else ''}" if servers else ""
        message = f"found {workers} workers{also}; the topology has {hosts} hosts"
        found.append(Problem((*path, key), f"{message}, and each takes one role"))
    return found


def room(listed: Sequence[tuple[KeyPath, JobShape]], topology: Topology, servers: int) -> int:
    """Number of the smallest of these jobs for which the network's hosts have room."""
    smallest = min(shape.workers + servers for _, shape in listed)
    return min(len(topology.hosts) // smallest, MAX_JOBS)
