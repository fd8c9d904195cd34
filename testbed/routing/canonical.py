"""An order of a network's nodes, links, jobs and workers that follows from their properties.

Planners decide between equal choices by order. So that neither names nor the order of a file change
a rate, they get networks in a canonical order: two networks that differ only in names and orders
become equal except for their names. The order comes from colour refinement: nodes have the same
colour as long as nothing tells them apart, neither their own properties nor those of their
neighbours. Where equal colours remain, one node is set apart and the rest refined again. All nodes
of that colour are tried, except those that are known to be symmetric to one that was tried, and
the smallest result is taken. Hosts with the same links and the same part in the same jobs are
interchangeable. They count as one, and keep the order that their jobs give them.

The order compares rates with each other only, so that it does not depend on their unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Group, JobPlan, Plan

MAX_REFINEMENTS = 300  # after so many, the next of equal colours is taken: they are nearly always
# symmetric, and if not, a name may decide

Certificate = list[tuple[int, int, int]]


@dataclass(frozen=True)
class Order:
    """A canonical order. `jobs_by_place[p]`: the given number of the job at place p of the order;
    `workers_by_place`: for each given job the same of its workers."""

    given: Network
    given_jobs: tuple[PlanJob, ...]
    ordered: Network
    jobs_by_place: tuple[int, ...]
    workers_by_place: tuple[tuple[int, ...], ...]

    @cached_property
    def network_and_jobs(self) -> tuple[Network, tuple[PlanJob, ...]]:
        """The network and the jobs in canonical order, with their names."""
        jobs = []
        for number in self.jobs_by_place:
            job = self.given_jobs[number]
            workers = tuple(job.workers[worker] for worker in self.workers_by_place[number])
            jobs.append(replace(job, workers=workers))
        return self.ordered, tuple(jobs)

    def restore(self, plan: Plan) -> Plan:
        """A plan of the ordered network, with everything in the given order."""
        if len(plan.jobs) != len(self.given_jobs):
            return plan  # the checker says what is wrong with it
        parts = dict(zip(self.jobs_by_place, plan.jobs, strict=True))
        return replace(
            plan,
            jobs=tuple(self._job(number, parts[number]) for number in sorted(parts)),
            links=_sorted(plan.links, [link.ends for link in self.given.links]),
            switches=_sorted(plan.switches, [each.name for each in self.given.switches]),
            servers=_sorted(plan.servers, [job.ps for job in self.given_jobs]),
        )

    def _job(self, number: int, part: JobPlan) -> JobPlan:
        given = self.workers_by_place[number]
        if len(part.workers) != len(given):
            return part
        switches = {each.name: place for place, each in enumerate(self.given.switches)}

        def workers_of(group: Group) -> tuple[int, ...]:
            return tuple(sorted(given[worker] for worker in group.workers))

        ordered = sorted(
            part.groups,
            key=lambda each: (switches[each.node], each.range.start, workers_of(each)),
        )
        number_of = {0: 0} | {each.number: place for place, each in enumerate(ordered, 1)}
        workers = sorted(
            (replace(each, number=given[each.number]) for each in part.workers),
            key=lambda each: each.number,
        )
        tags: dict[int, int] = {}
        for tag in (
            *(each.tag for worker in workers for each in worker.assignments),
            *(group.tag for group in ordered),
        ):
            tags.setdefault(tag, len(tags) + 1)
        return replace(
            part,
            workers=tuple(
                replace(
                    worker,
                    assignments=tuple(
                        replace(each, tag=tags[each.tag], group=number_of.get(each.group, -1))
                        for each in worker.assignments
                    ),
                )
                for worker in workers
            ),
            groups=tuple(
                replace(
                    each,
                    number=number_of[each.number],
                    tag=tags[each.tag],
                    workers=workers_of(each),
                    parent=number_of.get(each.parent, -1),
                )
                for each in ordered
            ),
        )


K = TypeVar("K")
V = TypeVar("V")


def _sorted(values: Mapping[K, V], keys: Sequence[K]) -> dict[K, V]:
    """A mapping in the order of `keys`, then the other keys."""
    return {key: values[key] for key in (*keys, *values) if key in values}


def canonical_order(network: Network, jobs: Sequence[PlanJob]) -> Order:
    """The canonical order of a network and its jobs."""
    graph = _Graph(network, jobs)
    colors = graph.canonical()
    in_jobs = (worker for job in jobs for worker in job.workers)
    names = dict.fromkeys((*in_jobs, *(host.name for host in network.hosts)))
    host_place = {name: place for place, name in enumerate(names)}
    last = len(colors)

    def rank(node: str) -> tuple[int, int]:
        vertex = graph.vertex.get(node)
        return (last if vertex is None else colors[vertex], host_place.get(node, 0))

    first_job = len(graph.colors) - len(jobs)
    ordered = replace(
        network,
        switches=tuple(sorted(network.switches, key=lambda each: rank(each.name))),
        hosts=tuple(sorted(network.hosts, key=lambda each: rank(each.name))),
        links=tuple(sorted(network.links, key=lambda link: (rank(link.source), rank(link.target)))),
    )
    return Order(
        given=network,
        given_jobs=tuple(jobs),
        ordered=ordered,
        jobs_by_place=tuple(sorted(range(len(jobs)), key=lambda job: colors[first_job + job])),
        workers_by_place=tuple(
            tuple(
                number
                for _, number in sorted(
                    (rank(worker)[0], number) for number, worker in enumerate(job.workers)
                )
            )
            for job in jobs
        ),
    )


class _Graph:
    """The structure that the order depends on. Vertices: switches, bundles of interchangeable hosts
    that have a part in a job, and jobs (last). `colors`: what is known of each vertex by itself, as
    ranks. `edges`: for each vertex (rank of the edge's properties, other vertex)."""

    def __init__(self, network: Network, jobs: Sequence[PlanJob]) -> None:
        parts: dict[str, list[tuple[int, int]]] = {}
        for number, job in enumerate(jobs):
            for host, part in (*((worker, 1) for worker in job.workers), (job.ps, 0)):
                parts.setdefault(host, []).append((number, part))
        ends: dict[str, list[tuple]] = {}
        for link in network.links:
            properties = (link.capacity_bps is None, link.capacity_bps or 0, link.delay_ns)
            ends.setdefault(link.source, []).append((link.target, 0, properties))
            ends.setdefault(link.target, []).append((link.source, 1, properties))
        properties_of: list[tuple] = []
        self.vertex: dict[str, int] = {}
        for switch in network.switches:
            self.vertex[switch.name] = len(properties_of)
            rate, slots = switch.aggregation_bps, switch.slots
            properties_of.append(
                (0, switch.aggregates, rate is None, rate or 0, slots is None, slots or 0)
            )
        bundles: dict[tuple, list[str]] = {}
        for each in network.hosts:
            if each.name in parts:
                around = tuple(sorted(ends.get(each.name, ())))
                key = (tuple(sorted(parts[each.name])), around, each.ingress_bps)
                bundles.setdefault(key, []).append(each.name)
        for (_, _, ingress), hosts in bundles.items():
            self.vertex |= dict.fromkeys(hosts, len(properties_of))
            properties_of.append((1, ingress is None, ingress or 0, len(hosts)))
        first_job = len(properties_of)
        for job in jobs:
            properties_of.append((2, job.max_rate_bps is None, job.max_rate_bps or 0))
        edges: list[list[tuple]] = [[] for _ in properties_of]
        for switch in network.switches:
            self._connect(edges, switch.name, ends.get(switch.name, ()))
        for hosts in bundles.values():
            self._connect(edges, hosts[0], ends.get(hosts[0], ()))
            for number, part in parts[hosts[0]]:
                vertex, job_vertex = self.vertex[hosts[0]], first_job + number
                edges[vertex].append(((2, part), job_vertex))
                edges[job_vertex].append(((3, part), vertex))
        self.colors = _ranks(properties_of)
        kinds = sorted({kind for each in edges for kind, _ in each})
        rank = {kind: place for place, kind in enumerate(kinds)}
        count = len(properties_of)
        # One number for an edge and its vertex's color is faster to sort than a pair.
        self.edges = [[(rank[kind] * count, other) for kind, other in each] for each in edges]
        self.refinements = 0

    def _connect(
        self,
        edges: list[list[tuple]],
        node: str,
        ends: Sequence[tuple],
    ) -> None:
        """Add a node's edges, one for each bundle of hosts."""
        seen = set()
        for other, direction, properties in ends:
            vertex = self.vertex.get(other)
            key = (vertex, direction, properties)
            if vertex is not None and key not in seen:
                seen.add(key)
                edges[self.vertex[node]].append(((direction, properties), vertex))

    def canonical(self) -> list[int]:
        """The vertices' places in the order."""
        return self._best(self._refined(self.colors))[1]

    def _refined(self, colors: list[int]) -> list[int]:
        """Split colors as long as the neighbours of their vertices differ."""
        self.refinements += 1
        count = len(set(colors))
        while True:
            colors = _ranks(
                [
                    (color, tuple(sorted(kind + colors[other] for kind, other in each)))
                    for color, each in zip(colors, self.edges, strict=True)
                ]
            )
            if len(set(colors)) == count:
                return colors
            count = len(set(colors))

    def _apart(self, colors: list[int], vertex: int) -> list[int]:
        """The colors once a vertex is told from the others of its color."""
        return self._refined(
            _ranks([(color, place != vertex) for place, color in enumerate(colors)])
        )

    def _cell(self, colors: list[int]) -> list[int]:
        """The vertices of the first color that several have; [] if each has its own."""
        cells: dict[int, list[int]] = {}
        for vertex, color in enumerate(colors):
            cells.setdefault(color, []).append(vertex)
        several = [color for color, cell in cells.items() if len(cell) > 1]
        return cells[min(several)] if several else []

    def _certificate(self, colors: list[int]) -> Certificate:
        return sorted(
            (color, kind, colors[other])
            for color, each in zip(colors, self.edges, strict=True)
            for kind, other in each
        )

    def _first(self, colors: list[int]) -> tuple[Certificate, list[int]]:
        """The result of taking the first of equal vertices each time."""
        while cell := self._cell(colors):
            colors = self._apart(colors, cell[0])
        return self._certificate(colors), colors

    def _best(self, colors: list[int]) -> tuple[Certificate, list[int]]:
        """The smallest result; of equal ones that in which the first vertices come first."""
        cell = self._cell(colors)
        if not cell:
            return self._certificate(colors), colors
        best = self._best(self._apart(colors, cell[0]))
        known = [best[0]]
        for vertex in cell[1:]:
            if self.refinements > MAX_REFINEMENTS:
                break
            apart = self._apart(colors, vertex)
            certificate, _ = self._first(apart)
            if certificate in known:
                continue  # a symmetry takes a vertex that was tried to this one
            other = self._best(apart)
            known += [certificate, other[0]]
            if other[0] < best[0]:
                best = other
        return best


def _ranks(values: Sequence[tuple]) -> list[int]:
    """The ranks of some values, from 0; equal values have the same."""
    rank = {value: place for place, value in enumerate(sorted(set(values)))}
    return [rank[value] for value in values]
