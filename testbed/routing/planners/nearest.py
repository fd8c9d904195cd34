"""`nearest`: the first aggregating switch on the path, the remainder at the next, finally the PS.
`nearest-anywhere`: before all that, the worker's nearest aggregating switch, wherever it is.

The first is what systems do that aggregate wherever packets pass (ATP, SwitchML per rack): routes
are shortest paths, and a switch takes what its capacity allows. All workers' rates grow together.
While a worker's switch has capacity left, the growth of the worker's rate is aggregated there,
after that at the next aggregating switch on its path. What no switch takes goes to the PS
unaggregated. A worker's rate stops when some resource on its path is full.

If results count, those of a job grow with its rates, over a given tree, and take room from
gradients in the same direction. The trees are first those that suit the plan without results; then
the plan is made again.

The remainder is the end of a worker's fragments, so that the remainders of several workers can meet
at a later switch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import NamedTuple

from p4fabric.base.errors import UserError

from testbed.routing.assemble import Arrangement, Leg, arranged, plan_from
from testbed.routing.candidates import aggregating_for, candidates
from testbed.routing.congestion import Congestion
from testbed.routing.fair import Resource
from testbed.routing.loop_free_paths import Path, distances, shortest_path
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Plan, Range
from testbed.routing.planner_options import Options
from testbed.routing.result_trees import Tree

TRIES = 3  # times that the trees of results are chosen for the plan that was made for other trees


class Stop(NamedTuple):
    """A place on a path from a worker to its PS where a gradient is aggregated."""

    path: Path
    place: int

    @property
    def node(self) -> str:
        return self.path[self.place]


FindStops = Callable[[Network, Collection[str], str, str], list[Stop]]  # of a worker, to its PS


def nearest(network: Network, jobs: Sequence[PlanJob], options: Options) -> Plan:
    """The plan of `nearest`. Raises UserError if a worker has no path to its PS."""
    return _plan(network, jobs, options, "nearest", _straight)


def anywhere(network: Network, jobs: Sequence[PlanJob], options: Options) -> Plan:
    """The plan of `nearest-anywhere`. Raises UserError if a worker has no path to its PS."""
    return _plan(network, jobs, options, "nearest-anywhere", _over_nearest)


def _straight(network: Network, switches: Collection[str], worker: str, ps: str) -> list[Stop]:
    """The aggregating switches on the shortest path to the PS, then the PS."""
    path = shortest_path(network, worker, ps)
    assert path is not None  # checked before
    return [
        Stop(path, place)
        for place, node in enumerate(path)
        if node in switches or place == len(path) - 1
    ]


def _over_nearest(network: Network, switches: Collection[str], worker: str, ps: str) -> list[Stop]:
    """First the aggregating switch with the fewest links to it; of several the one with the fewest
    links from there on."""
    straight = _straight(network, switches, worker, ps)
    ways = [path for each in switches if (path := shortest_path(network, worker, each))]
    if not ways:
        return straight
    towards = distances(network, ps)
    way = min(ways, key=lambda path: (len(path), towards[path[-1]]))
    onward = shortest_path(network, way[-1], ps)
    assert onward is not None  # only such switches aggregate for the job
    return [Stop((*way, *onward[1:]), len(way) - 1), *(s for s in straight if s.node != way[-1])]


def _plan(
    network: Network, jobs: Sequence[PlanJob], options: Options, name: str, find: FindStops
) -> Plan:
    best = _arranged(network, jobs, options, find, None)
    latest = best
    for _ in range(TRIES if options.counted else 0):
        if latest.rates == latest.without_results().rates:
            break  # results cost nothing
        latest = _arranged(network, jobs, options, find, latest.trees)
        best = max(best, latest, key=lambda each: sorted(each.rates))
    made = candidates(network, jobs, paths=options.path_limit, counted=options.counted)
    return plan_from(best, name, Congestion(made, options.counted).bound(), options)


def _arranged(
    network: Network,
    jobs: Sequence[PlanJob],
    options: Options,
    find: FindStops,
    trees: Sequence[Tree] | None,
) -> Arrangement:
    """The plan of the rule if results take these trees; None: no room."""
    filling = _Filling(network, jobs, options.counted, find, trees)
    filling.fill()
    choice: list[list[tuple[Leg, ...]]] = [[] for _ in jobs]
    for flow in filling.flows:
        choice[flow.job].append(flow.legs())
    return arranged(network, jobs, choice, options)


class _Flow:
    """A worker. `stops`: where its gradient is aggregated, one after the other, at last at the PS.
    `at`: the stop that aggregates the growth of its rate. `marks`: the rates at which `at` moved
    on."""

    def __init__(self, number: int, job: int, stops: list[Stop]) -> None:
        self.number = number
        self.job = job
        self.stops = stops
        self.at = 0
        self.marks = [Fraction(0)]
        self.rate: Fraction | None = None

    @property
    def raw(self) -> bool:
        return self.at == len(self.stops) - 1

    def legs(self) -> tuple[Leg, ...]:
        assert self.rate is not None
        ends = [*self.marks, self.rate]
        found = []
        for (path, place), start, end in zip(self.stops, ends, ends[1:], strict=False):
            if start < end:
                part = Range(start / self.rate, end / self.rate)
                onward = path[place:] if place < len(path) - 1 else ()
                found.append(Leg(part, path[: place + 1], onward))
        return tuple(found)


class _Filling:
    def __init__(
        self,
        network: Network,
        jobs: Sequence[PlanJob],
        counted: bool,
        find: FindStops,
        trees: Sequence[Tree] | None,
    ) -> None:
        self.flows: list[_Flow] = []
        self.max_rates: list[int | None] = []
        self.workers = [len(job.workers) for job in jobs]
        self.trees = trees or [()] * len(jobs)
        for index, job in enumerate(jobs):
            switches = aggregating_for(network, job, counted)
            for worker in job.workers:
                stops = find(network, switches, worker, job.ps)
                self.flows.append(_Flow(len(self.flows), index, stops))
                self.max_rates.append(job.max_rate_bps)
        self.left: dict[Resource, Fraction] = {
            ("link", *link.ends): Fraction(link.capacity_bps)
            for link in network.links
            if link.capacity_bps is not None
        }
        for switch in network.switches:
            if switch.aggregation_bps is not None:
                self.left["switch", switch.name] = Fraction(switch.aggregation_bps)
        for job in jobs:
            ingress = network.ingress_bps(job.ps)
            if ingress is not None:
                self.left["PS", job.ps] = Fraction(ingress)

    def users(self, growing: list[_Flow]) -> dict[Resource, dict[tuple, list[_Flow]]]:
        """Users of each resource whose load grows: {flow or aggregate that grows: its workers}. An
        aggregate counts once for all workers that contribute to it."""
        found: dict[Resource, dict[tuple, list[_Flow]]] = {}

        def use(resource: Resource, who: tuple, flow: _Flow) -> None:
            if resource in self.left:
                found.setdefault(resource, {}).setdefault(who, []).append(flow)

        for flow in growing:
            path, stop = flow.stops[flow.at]
            alone = ("worker", flow.number)
            for ends in zip(path[:stop], path[1 : stop + 1], strict=True):
                use(("link", *ends), alone, flow)
            together = alone if flow.raw else ("group", flow.job, path[stop], path[stop:])
            for ends in zip(path[stop:], path[stop + 1 :], strict=False):
                use(("link", *ends), together, flow)
            if not flow.raw:
                use(("switch", path[stop]), alone, flow)
            use(("PS", path[-1]), together, flow)
        for job, tree in enumerate(self.trees):
            of_job = [flow for flow in growing if flow.job == job]
            if len(of_job) == self.workers[job]:  # else its slowest worker has stopped
                for ends in tree:
                    for flow in of_job:
                        use(("link", *ends), ("results", job), flow)
        return found

    def fill(self) -> None:
        """Let all rates grow until all have stopped."""
        level = Fraction(0)
        growing = list(self.flows)
        while growing:
            users = self.users(growing)
            steps = [self.left[resource] / len(who) for resource, who in users.items()]
            steps += [
                most - level
                for most in (self.max_rates[flow.number] for flow in growing)
                if most is not None
            ]
            if not steps:
                raise UserError(
                    "nothing limits the rate of some worker; give the links, the aggregation or a"
                    " parameter server's ingress a capacity"
                )
            step = min(steps)
            level += step
            stopped: set[int] = set()
            waiting: set[int] = set()  # results stop with any worker, so first those that must
            moved: set[int] = set()
            for resource, who in users.items():
                self.left[resource] -= step * len(who)
                if self.left[resource] == 0:
                    ends = moved if resource[0] == "switch" else stopped
                    for key, flows in who.items():
                        into = waiting if key[0] == "results" else ends
                        into.update(flow.number for flow in flows)
            if not stopped and not moved:
                stopped = waiting
            stopped |= {flow.number for flow in growing if self.max_rates[flow.number] == level}
            for flow in growing:
                if flow.number in stopped:
                    flow.rate = level
                elif flow.number in moved:
                    flow.at += 1
                    flow.marks.append(level)
            growing = [flow for flow in growing if flow.number not in stopped]
