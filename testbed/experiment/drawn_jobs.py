"""Jobs that are drawn anew for each repetition: by a Poisson process, or from a cluster trace.

A job's *work* is the time that it takes alone, times its hosts. Alone means computation and
communication of all iterations, one after the other, on the slowest host's link. So a load is a
property of the drawn jobs and the network, the same for every system with as many servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from testbed.experiment.schema_arrivals import Arrivals, ClusterTrace, Kind, Poisson
from testbed.experiment.schema_jobs import Job
from testbed.protocols.sizes import bitmap_width, frame_bits
from testbed.traffic.arrivals import kinds, lengths, poisson, sizes
from testbed.traffic.cluster_traces import TracedJob, sampled

UNLIMITED_BPS = 10**9  # assumed rate of a link without one


def longest(kind: Kind) -> int:
    """The most iterations of a job of this kind."""
    return kind.iterations if kind.longest is None else kind.longest


@dataclass(frozen=True)
class Capacity:
    """Numbers that turn a load into an interval: the number of hosts, the number of parameter
    servers of a job, and the time that an iteration of a job of each kind takes alone."""

    hosts: int
    servers: int
    iteration_ns: tuple[int, ...]

    @classmethod
    def of(
        cls, hosts: int, servers: int, rate_bps: int, values: int, jobs: Sequence[Job]
    ) -> Capacity:
        """`jobs`: a resolved job of each kind, the largest; `rate_bps`: of the slowest host's link;
        `values`: of a packet."""
        bits = frame_bits(values, bitmap_width(max(job.workers for job in jobs)))

        def alone_ns(job: Job) -> int:
            trace = job.trace()
            return trace.compute_ns + trace.fragments(values) * bits * 10**9 // rate_bps

        return cls(hosts, servers, tuple(alone_ns(job) for job in jobs))

    def interval_ns(self, load: float, jobs: Sequence[tuple[int, Job]]) -> int:
        """The average gap at which these jobs, given with their kinds, are this load."""
        work = sum(
            self.iteration_ns[kind] * job.iterations * (job.workers + self.servers)
            for kind, job in jobs
        )
        return max(1, round(work / (Fraction(repr(load)) * self.hosts * len(jobs))))


@dataclass(frozen=True)
class Source:
    """The material that jobs are drawn from: a resolved job of each kind or model, the largest, and
    for a cluster trace its jobs that have enough GPUs."""

    of_kind: tuple[Job, ...]
    capacity: Capacity
    traced: tuple[TracedJob, ...] = field(default=(), repr=False)

    def jobs(self, arrivals: Arrivals, seed: int) -> tuple[Job, ...]:
        """The jobs of a repetition with this seed, in the order of their submission."""
        if arrivals.cluster_trace is not None:
            return self._of_trace(arrivals.cluster_trace, seed)
        assert arrivals.poisson is not None
        return _of_process(arrivals.poisson, self.of_kind, seed, self.capacity)

    def iterations(self, trace: ClusterTrace, job: TracedJob, kind: int) -> int:
        """The number of iterations of a model that take as long as a job of the trace did,
        scaled."""
        duration_ns = job.duration_ns * Fraction(repr(trace.time_scale))
        return max(1, round(duration_ns / self.capacity.iteration_ns[kind]))

    def _of_trace(self, trace: ClusterTrace, seed: int) -> tuple[Job, ...]:
        chosen = [self.traced[place] for place in sampled(seed, len(self.traced), trace.jobs)]
        which = kinds(seed, trace.jobs, [model.weight for model in trace.models])
        jobs = [
            self.of_kind[kind].model_copy(
                update={
                    "name": f"{self.of_kind[kind].name[:50]}-{job.number}",
                    "iterations": self.iterations(trace, job, kind),
                    "workers": workers_of(trace, job),
                }
            )
            for job, kind in zip(chosen, which, strict=True)
        ]
        first_ns, last_ns = chosen[0].submit_ns, chosen[-1].submit_ns
        stretch = Fraction(repr(trace.time_scale))
        if trace.load is not None and last_ns > first_ns:
            interval_ns = self.capacity.interval_ns(trace.load, list(zip(which, jobs, strict=True)))
            stretch = Fraction(interval_ns * len(jobs), last_ns - first_ns)
        return tuple(
            job.model_copy(update={"start_ns": round((traced.submit_ns - first_ns) * stretch)})
            for job, traced in zip(jobs, chosen, strict=True)
        )


def workers_of(trace: ClusterTrace, job: TracedJob) -> int:
    """The number of workers of a job of the trace."""
    count = -(-job.gpus // trace.gpus_per_worker)
    return count if trace.most_workers is None else min(count, trace.most_workers)


def _of_process(
    process: Poisson, of_kind: Sequence[Job], seed: int, capacity: Capacity
) -> tuple[Job, ...]:
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
