"""The choices of a planner: the routes from each worker to each aggregation node, and the paths
onward from each switch to the parameter server.

Workers of a job on the same switch with equal links are interchangeable. So planners decide how
many workers of a *class* take which route. The first routes of the list go to the first workers. A
worker with several links is a class of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from p4fabric.base.errors import UserError

from testbed.routing.assemble import Choice, Leg
from testbed.routing.loop_free_paths import Path, distances, shortest_paths
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Range
from testbed.routing.planner_options import PATHS


@dataclass(frozen=True)
class Route:
    """A path from a class of workers to an aggregation node. `rest`: the path without the worker
    itself."""

    node: str
    rest: Path


@dataclass(frozen=True)
class WorkerClass:
    """Interchangeable workers of a job: their numbers, and their routes, nearest node first."""

    job: int
    workers: tuple[int, ...]
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class Candidates:
    """All routes of all classes. `onward`: for each (job, switch that may aggregate for it) the
    paths to the PS, shortest first."""

    network: Network
    jobs: tuple[PlanJob, ...]
    classes: tuple[WorkerClass, ...]
    onward: dict[tuple[int, str], tuple[Path, ...]]

    def counted_path(self, worker: str, rest: Path) -> Path:
        """The part of a worker's path whose links programs count. If the worker has one link, that
        is the path without this link, which limits the worker's own rate only."""
        return rest if len(self.network.after[worker]) == 1 else (worker, *rest)

    def legs(self, counts: Sequence[Sequence[int]], chosen: dict[tuple[int, str], Path]) -> Choice:
        """The choice in which `counts[c][r]` workers of class c send all fragments over its route
        r. `chosen`: the path onward from each (job, switch) that aggregates."""
        choice: list[list[tuple[Leg, ...]]] = [[()] * len(job.workers) for job in self.jobs]
        for each, numbers in zip(self.classes, counts, strict=True):
            routes = [
                route
                for route, count in zip(each.routes, numbers, strict=True)
                for _ in range(count)
            ]
            for worker, route in zip(each.workers, routes, strict=True):
                host = self.jobs[each.job].workers[worker]
                onward = chosen.get((each.job, route.node), ())
                choice[each.job][worker] = (Leg(Range(), (host, *route.rest), onward),)
        return choice


def candidates(
    network: Network,
    jobs: Sequence[PlanJob],
    aggregate: bool = True,
    paths: int = PATHS,
    counted: bool = False,
) -> Candidates:
    """The routes of these jobs over up to `paths` loop-free paths between two nodes; without
    `aggregate` only those to the PS; with `counted` only to switches that results reach. Raises
    UserError if a worker has no route."""
    known: dict[tuple[str, str], list[Path]] = {}

    def between(source: str, target: str) -> list[Path]:
        if (source, target) not in known:
            known[source, target] = shortest_paths(network, source, target, paths)
        return known[source, target]

    classes, onward = [], {}
    for index, job in enumerate(jobs):
        switches = list(aggregating_for(network, job, counted)) if aggregate else []
        for name in switches:
            onward[index, name] = tuple(between(name, job.ps))
        for numbers in _classes(network, job):
            host = job.workers[numbers[0]]
            routes = [
                Route(node, path[1:])
                for node in (*switches, job.ps)
                for path in between(host, node)
            ]
            # The PS counts as one link further away than its switch. So nodes on the same path
            # keep the order of that path.
            routes.sort(key=lambda route: len(route.rest))
            classes.append(WorkerClass(index, numbers, tuple(routes)))
    return Candidates(network, tuple(jobs), tuple(classes), onward)


def _classes(network: Network, job: PlanJob) -> list[tuple[int, ...]]:
    """The numbers of a job's workers, grouped by equal links; those with several links alone."""
    found: dict[tuple, list[int]] = {}
    for number, host in enumerate(job.workers):
        links = [network.link[host, after] for after in network.after[host]]
        key = tuple((link.target, link.capacity_bps, link.delay_ns) for link in links)
        found.setdefault(key if len(links) == 1 else (number,), []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def aggregating_for(network: Network, job: PlanJob, counted: bool) -> tuple[str, ...]:
    """The switches that may aggregate for a job: those with a path to its PS and, if results count,
    a path for results back."""
    towards = distances(network, job.ps)
    return tuple(
        name
        for name in network.aggregating
        if name in towards and not (counted and job.ps not in distances(network, name))
    )


def check_reachable(network: Network, job: PlanJob) -> None:
    """Raises UserError if a worker has no route to the job's PS."""
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


def check_results(network: Network, job: PlanJob) -> None:
    """Raises UserError if results have no way from the job's PS to a worker."""
    for worker in job.workers:
        if job.ps not in distances(network, worker):
            raise UserError(
                f"job {job.name}: results have no way from its parameter server {job.ps} to worker"
                f" {worker}{_of_failed(network)}; add a link, or plan with results: ignored"
            )


def _of_failed(network: Network) -> str:
    return f" (failed: {', '.join(network.failed)})" if network.failed else ""
