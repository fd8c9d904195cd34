"""Jobs of the key `arrivals`: the submissions of a CSV file or a Poisson process, and their checks.

A job that is submitted has no hosts until some are free, so its placement stays open; what is
checked here is that it would fit an empty network, since one that does not would wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from testbed.config.fields import user_file
from testbed.config.problems import Problem
from testbed.config.units import FieldError
from testbed.config.yaml_document import plain_value
from testbed.errors import UserError
from testbed.experiment.drawn_jobs import Source, longest, workers_of
from testbed.experiment.schema_arrivals import Arrivals, Kind, Submission
from testbed.experiment.schema_jobs import Job, JobShape
from testbed.experiment.unknown_keys import explain
from testbed.protocols.sizes import MAX_FRAGMENTS, MAX_JOBS
from testbed.topology import Topology
from testbed.traffic.arrivals import read_mix
from testbed.traffic.cluster_traces import TracedJob, read_cluster_trace

if TYPE_CHECKING:
    from testbed.config.problems import Path as KeyPath

CSV: KeyPath = ("arrivals", "csv")
TRACE: KeyPath = ("arrivals", "cluster_trace")


def read_csv(arrivals: Arrivals, folder: Path) -> tuple[Arrivals, list[Problem]]:
    """The same arrivals with the lines of their CSV file, if they name one, as submissions."""
    if arrivals.csv is None:
        return arrivals, []
    try:
        file = user_file(arrivals.csv, folder)
        lines = read_mix(file)
    except FieldError as error:
        return arrivals, [Problem.of(CSV, error)]
    except UserError as error:
        return arrivals, [Problem(CSV, str(error))]
    if len(lines) > MAX_JOBS:
        message = f"{file}: found {len(lines)} jobs; allowed: at most {MAX_JOBS}"
        return arrivals, [Problem(CSV, message)]
    found: list[Submission] = []
    problems: list[Problem] = []
    for line in lines:
        data = {name: plain_value(cell) for name, cell in line.cells.items()}
        try:
            found.append(Submission.model_validate(data))
        except ValidationError as error:
            for each in explain(error, (), Submission):
                place = f"{file}, line {line.number}, column {each.path[-1]}"
                problems.append(Problem(CSV, f"{place}: {each.message}"))
    return arrivals.model_copy(update={"csv": None, "submissions": tuple(found)}), problems


def read_trace(
    arrivals: Arrivals, folder: Path
) -> tuple[Arrivals, tuple[TracedJob, ...], list[Problem]]:
    """The same arrivals with the absolute path of their cluster trace, if they have one, and its
    jobs that have enough GPUs."""
    trace = arrivals.cluster_trace
    if trace is None:
        return arrivals, (), []
    try:
        file = user_file(trace.file, folder)
        found = read_cluster_trace(file, trace.format)
    except FieldError as error:
        return arrivals, (), [Problem.of((*TRACE, "file"), error)]
    except UserError as error:
        return arrivals, (), [Problem((*TRACE, "file"), str(error))]
    usable = tuple(job for job in found if workers_of(trace, job) >= trace.fewest_workers)
    problems = []
    if len(usable) < trace.jobs:
        have = (
            f"{len(usable)} of its {len(found)} jobs have at least {trace.fewest_workers} workers"
        )
        message = f"found {trace.jobs}; in {file}, {have} (fewest_workers)"
        problems.append(Problem((*TRACE, "jobs"), message))
    absolute = trace.model_copy(update={"file": str(file)})
    return arrivals.model_copy(update={"cluster_trace": absolute}), usable, problems


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
    parts: dict[str, Any] = {name: getattr(shape, name) for name in JobShape.model_fields}
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
