"""From `arrivals` to jobs: what a CSV file or a Poisson process submits, and whether it can run.

A job that is submitted has no hosts until some are free, so its placement stays open; what is
checked here is that it would fit an empty network, since one that does not would wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from testbed.config.fields import user_file
from testbed.config.problems import Problem
from testbed.config.units import FieldError
from testbed.config.yaml_document import plain_value
from testbed.errors import UserError
from testbed.experiment.schema_arrivals import Arrivals, Kind, Poisson, Submission
from testbed.experiment.schema_jobs import Job, JobShape
from testbed.experiment.unknown_keys import explain
from testbed.protocols.sizes import MAX_JOBS, bitmap_width, frame_bytes
from testbed.topology import Topology
from testbed.traffic.arrivals import kinds, lengths, poisson, sizes
from testbed.traffic.mix import read_mix

if TYPE_CHECKING:
    from testbed.config.problems import Path as KeyPath

CSV: KeyPath = ("arrivals", "csv")
UNLIMITED_BPS = 10**9  # what a link without a rate counts as


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


def shapes(arrivals: Arrivals) -> list[tuple[KeyPath, JobShape]]:
    """What is submitted, each with the place that says so."""
    place: KeyPath = ("arrivals", "submissions")
    listed: Sequence[JobShape] = arrivals.submissions
    if arrivals.poisson is not None:
        place, listed = ("arrivals", "poisson", "kinds"), arrivals.poisson.kinds
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
    if arrivals.poisson is None:
        return arrivals.model_copy(update={"submissions": listed})
    process = arrivals.poisson.model_copy(update={"kinds": listed})
    return arrivals.model_copy(update={"poisson": process})


def longest(kind: Kind) -> int:
    """The most iterations of a job of this kind."""
    return kind.iterations if kind.longest is None else kind.longest


@dataclass(frozen=True)
class Capacity:
    """What turns a load into an interval: how many hosts there are, how many parameter servers a
    job has, and how long an iteration of a job of each kind takes alone."""

    hosts: int
    servers: int
    iteration_ns: tuple[int, ...]

    @classmethod
    def of(
        cls, hosts: int, servers: int, rate_bps: int, values: int, jobs: Sequence[Job]
    ) -> Capacity:
        """`jobs`: a resolved job of each kind, the largest; `rate_bps`: of the slowest host's link;
        `values`: of a packet."""
        bits = 8 * frame_bytes(values, bitmap_width(max(job.workers for job in jobs)))

        def alone_ns(job: Job) -> int:
            trace = job.trace()
            fragments = sum(-(-layer.values // values) for layer in trace.layers)
            return trace.compute_ns + fragments * bits * 10**9 // rate_bps

        return cls(hosts, servers, tuple(alone_ns(job) for job in jobs))

    def interval_ns(self, load: float, jobs: Sequence[tuple[int, Job]]) -> int:
        """The average gap at which these jobs, given with their kinds, are this load."""
        work = sum(
            self.iteration_ns[kind] * job.iterations * (job.workers + self.servers)
            for kind, job in jobs
        )
        return max(1, round(work / (Fraction(repr(load)) * self.hosts * len(jobs))))


def drawn(
    process: Poisson, of_kind: Sequence[Job], seed: int, capacity: Capacity
) -> tuple[Job, ...]:
    """The jobs that a process submits, in order; `of_kind`: a resolved job of each kind."""
    which = kinds(seed, process.jobs, [kind.weight for kind in process.kinds])
    chosen = [process.kinds[kind] for kind in which]
    ranges = [(kind.iterations, longest(kind), kind.tail) for kind in chosen]
    counts = sizes(seed, [kind.worker_counts for kind in chosen])
    jobs = [
        of_kind[kind].model_copy(
            update={
                "name": f"{of_kind[kind].name[:58]}-{number}",
                "iterations": iterations,
                "workers": workers,
            }
        )
        for number, (kind, iterations, workers) in enumerate(
            zip(which, lengths(seed, ranges), counts, strict=True)
        )
    ]
    interval_ns = process.interval_ns
    if process.load is not None:
        interval_ns = capacity.interval_ns(process.load, list(zip(which, jobs, strict=True)))
    assert interval_ns is not None  # one of the two is given
    times = poisson(seed, process.jobs, interval_ns)
    return tuple(
        job.model_copy(update={"start_ns": time_ns})
        for job, time_ns in zip(jobs, times, strict=True)
    )


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
    """How many of the smallest of these jobs the network's hosts have room for."""
    smallest = min(shape.workers + servers for _, shape in listed)
    return min(len(topology.hosts) // smallest, MAX_JOBS)
