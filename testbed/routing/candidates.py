"""What there is to choose from: for each worker its ways to each aggregation node, for each switch
its ways onward to the parameter server.

Workers of a job that hang on the same switch by equal links are interchangeable, so planners decide
how many of a *class* take which way, and the first ways of the list go to the first workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import UserError
from testbed.routing.assemble import Choice, Leg
from testbed.routing.network import Network, PlanJob
from testbed.routing.paths import Path, shortest_paths
from testbed.routing.plan import Range

PATHS = 16  # that are looked at between two nodes


@dataclass(frozen=True)
class Way:
    """A way of a class of workers to an aggregation node. `rest` lacks the worker itself."""

    node: str
    rest: Path


@dataclass(frozen=True)
class WorkerClass:
    """Interchangeable workers of a job: their numbers, and their ways, nearest node first."""

    job: int
    workers: tuple[int, ...]
    ways: tuple[Way, ...]


@dataclass(frozen=True)
class Candidates:
    """All ways of all classes. `onward`: for each (job, switch) that may aggregate for it the paths
    to the PS, shortest first."""

    network: Network
    jobs: tuple[PlanJob, ...]
    classes: tuple[WorkerClass, ...]
    onward: dict[tuple[int, str], tuple[Path, ...]]

    def legs(self, counts: Sequence[Sequence[int]], chosen: dict[tuple[int, str], Path]) -> Choice:
        """The choice in which `counts[c][w]` workers of class c take its way w, all fragments of
        each; `chosen`: the path onward from each (job, switch) that aggregates."""
        choice: list[list[tuple[Leg, ...]]] = [[()] * len(job.workers) for job in self.jobs]
        for each, numbers in zip(self.classes, counts, strict=True):
            ways = [
                way for way, count in zip(each.ways, numbers, strict=True) for _ in range(count)
            ]
            for worker, way in zip(each.workers, ways, strict=True):
                host = self.jobs[each.job].workers[worker]
                onward = chosen.get((each.job, way.node), ())
                choice[each.job][worker] = (Leg(Range(), (host, *way.rest), onward),)
        return choice


def candidates(
    network: Network, jobs: Sequence[PlanJob], aggregate: bool = True, paths: int = PATHS
) -> Candidates:
    """The ways of these jobs over up to `paths` loop-free paths between two nodes; without
    `aggregate` those to the PS only. Raises UserError if a worker has none."""
    known: dict[tuple[str, str], list[Path]] = {}

    def between(source: str, target: str) -> list[Path]:
        if (source, target) not in known:
            known[source, target] = shortest_paths(network, source, target, paths)
        return known[source, target]

    classes, onward = [], {}
    for index, job in enumerate(jobs):
        check_reachable(network, job)
        switches = [name for name in network.aggregating if between(name, job.ps)]
        if not aggregate:
            switches = []
        for name in switches:
            onward[index, name] = tuple(between(name, job.ps))
        for numbers in _classes(network, job):
            host = job.workers[numbers[0]]
            ways = [
                Way(node, path[1:]) for node in (*switches, job.ps) for path in between(host, node)
            ]
            # The PS counts as one link further away than its switch, so that of nodes on the same
            # path the first is also the first here.
            ways.sort(key=lambda way: len(way.rest))
            classes.append(WorkerClass(index, numbers, tuple(ways)))
    return Candidates(network, tuple(jobs), tuple(classes), onward)


def _classes(network: Network, job: PlanJob) -> list[tuple[int, ...]]:
    """The numbers of a job's workers, those together that are linked alike."""
    found: dict[tuple, list[int]] = {}
    for number, host in enumerate(job.workers):
        links = [network.link[host, after] for after in network.after[host]]
        alike = tuple((link.target, link.capacity_bps, link.delay_ns) for link in links)
        found.setdefault(alike, []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def check_reachable(network: Network, job: PlanJob) -> None:
    """Raises UserError if a worker has no way to the job's PS."""
    if all(target != job.ps for _, target in network.link):
        raise UserError(
            f"job {job.name}: its parameter server {job.ps} is not connected;"
            f" link it to a switch{_of_failed(network)}"
        )
    for worker in job.workers:
        if not shortest_paths(network, worker, job.ps, 1):
            raise UserError(
                f"job {job.name}: worker {worker} has no path to its parameter server {job.ps}"
                f"{_of_failed(network)}"
            )


def _of_failed(network: Network) -> str:
    return f" (failed: {', '.join(network.failed)})" if network.failed else ""
