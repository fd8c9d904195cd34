"""`two-level`: a switch may add up the sums of other switches, and the PS gets the total (ours).

Where every aggregate goes to the PS, each costs it a full rate, so few switches are worth opening.
With a second level, the switches near the workers add up what passes, and one further on adds their
subtotals. All fragments of a worker take one path, as with `grid-links`, and there are at most two
levels.

The search starts from the plan of `grid-links`, and from trees: for each switch that may be the
second level, the workers' shortest paths to it, with a subtotal at the first switch that can add.
From the best start it moves workers and groups away from what is fullest, as long as the loads of
the fullest resources become smaller. So a plan is never worse than that of `grid-links`, and it is
the best one only where the search finds it. The number of steps has a limit, not their time, so a
plan is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from p4fabric.base.errors import UserError

from testbed.routing.assemble import Arrangement, Leg, arranged, plan_from
from testbed.routing.candidates import aggregating_for, candidates
from testbed.routing.congestion import Congestion
from testbed.routing.fair import Resource
from testbed.routing.loop_free_paths import Path, shortest_paths
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Plan, Range
from testbed.routing.planner_options import Options
from testbed.routing.planners.whole import whole_choice

WORK = 60_000  # workers x evaluations that the search may take
EVALUATIONS = 100, 1500  # at least and at most
ROOTS = 64  # switches that are tried as second level
WAYS = 2  # paths from a worker or switch to a switch that are tried
FULLEST = 12  # resources by which two arrangements are compared

Legs = list[Leg]  # of one job: one for each worker


def plan(network: Network, jobs: Sequence[PlanJob], options: Options) -> Plan:
    """Raises UserError if a worker has no path to its PS."""
    made = candidates(network, jobs, True, options.path_limit, options.counted)
    choice, trees = whole_choice(Congestion(made, options.counted), options)
    best = arranged(network, jobs, choice, options)
    if trees is not None and sorted((other := best.with_trees(trees)).rates) > sorted(best.rates):
        best = other
    search = _Search(network, jobs, options)
    found = search.run([[legs[0] for legs in workers] for workers in choice])
    if found is not None and sorted(found.rates) > sorted(best.rates):
        best = found
    return plan_from(best, "two-level", _bound(network, jobs, options), options)


def _bound(network: Network, jobs: Sequence[PlanJob], options: Options) -> Fraction | None:
    """The bound by the hosts' links: each worker sends all its fragments, and each PS gets at least
    one worker's worth of each of its jobs; results the other way. None: unlimited."""
    roles: dict[str, list[PlanJob]] = {}
    for job in jobs:
        for host in (*job.workers, job.ps):
            roles.setdefault(host, []).append(job)
    bounds = [Fraction(job.max_rate_bps) for job in jobs if job.max_rate_bps is not None]
    for host, uses in roles.items():
        out = [each.capacity_bps for each in network.links if each.source == host]
        servers = sum(1 for job in uses if job.ps == host)
        workers = len(uses) - servers
        into = network.ingress_bps(host)
        sent = None if None in out else sum(each for each in out if each is not None)
        results = options.counted
        for capacity, load in (
            (into, servers + workers * results),
            (sent, workers + servers * results),
        ):
            if capacity is not None and load:
                bounds.append(Fraction(capacity, load))
    return min(bounds, default=None)


class _Search:
    """The search for a choice of legs for all jobs."""

    def __init__(self, network: Network, jobs: Sequence[PlanJob], options: Options) -> None:
        self.network, self.jobs, self.options = network, jobs, options
        self.known: dict[tuple[str, str], list[Path]] = {}
        self.able = [aggregating_for(network, job, options.counted) for job in jobs]
        workers = sum(len(job.workers) for job in jobs)
        least, most = EVALUATIONS
        self.left = min(max(WORK // workers, least), most)

    def between(self, source: str, target: str) -> list[Path]:
        """The shortest paths."""
        if (source, target) not in self.known:
            self.known[source, target] = shortest_paths(self.network, source, target, WAYS)
        return self.known[source, target]

    def run(self, start: list[Legs]) -> Arrangement | None:
        """The best arrangement found; None: there is none but the start."""
        choice = start
        best = self.evaluate(choice)
        for number in range(len(self.jobs)):
            for legs in self.trees(number):
                other = self.evaluate(_with(choice, number, legs))
                if other is not None and (best is None or _key(other) > _key(best)):
                    choice, best = _with(choice, number, legs), other
        while best is not None and (step := self.step(choice, best)) is not None:
            choice, best = step
        return best

    def evaluate(self, choice: list[Legs]) -> Arrangement | None:
        """The choice with its rates; None if it cannot be run, or the search has taken too long."""
        if not self.left:
            return None
        self.left -= 1
        try:
            whole = [[(leg,) for leg in legs] for legs in choice]
            return arranged(self.network, self.jobs, whole, self.options)
        except UserError:  # results have no way to a switch
            return None

    def trees(self, number: int) -> Iterator[Legs]:
        """Trees for each switch that could be the second level: all workers' shortest paths there,
        and subtotals at the first switches on them that can add."""
        job, able = self.jobs[number], self.able[number]
        for root in able[:ROOTS]:
            onward = self.between(root, job.ps)[0]
            ways = [self.between(host, root) for host in job.workers]
            if not all(ways):
                continue
            raw = [Leg(Range(), paths[0], onward) for paths in ways]
            yield raw
            places = [
                next((each for each in leg.path[1:-1] if each in able and _fits(leg, each)), "")
                for leg in raw
            ]
            yield [
                _subtotal(leg, place) if place and places.count(place) > 1 else leg
                for leg, place in zip(raw, places, strict=True)
            ]

    def step(self, choice: list[Legs], best: Arrangement) -> tuple[list[Legs], Arrangement] | None:
        """The first change of one job's legs that makes the fullest resources less full."""
        key = _key(best)
        pressed = _pressed(best)
        for number, legs in enumerate(choice):
            workers = [w for w in range(len(legs)) if best.first[number] + w in pressed]
            for other in self.changes(number, legs, workers):
                arrangement = self.evaluate(_with(choice, number, other))
                if arrangement is not None and _key(arrangement) > key:
                    return _with(choice, number, other), arrangement
                if not self.left:
                    return None
        return None

    def changes(self, number: int, legs: Legs, workers: Sequence[int]) -> Iterator[Legs]:
        """Other legs of a job: first those that change a group, then those of one worker."""
        job, able = self.jobs[number], self.able[number]
        ways = list(dict.fromkeys(_way(leg) for leg in legs if leg.onward))
        levels = list(
            dict.fromkeys((leg.node, leg.onward, leg.joins) for leg in legs if leg.onward)
        )
        moved = {(legs[w].node, legs[w].onward, legs[w].joins) for w in workers}
        for node, onward, joins in (each for each in levels if each in moved):
            here = node, onward, joins
            who = [w for w, leg in enumerate(legs) if (leg.node, leg.onward, leg.joins) == here]
            is_parent = any(leg.joins == node and _way(leg) == (node, onward) for leg in legs)
            ends = [] if is_parent else [(t, way) for t, way in ways if t != node]
            for target, way in ends:  # the group's sum joins another one
                for path in self.between(node, target):
                    if len(who) > 1 and set(path).isdisjoint(way[1:]):
                        further = (*path, *way[1:])
                        yield _moved(legs, who, onward=further, joins=target)
            for path in self.between(node, job.ps):  # or goes to the PS, on another path
                if path != onward or joins:
                    yield _moved(legs, who, onward=path, joins="")
            if not joins:  # a subtotal on the way of what passes a switch
                for place in able:
                    passing = [w for w in who if _fits(legs[w], place)]
                    if len(passing) > 1:
                        made = list(legs)
                        for worker in passing:
                            made[worker] = _subtotal(legs[worker], place)
                        yield made
        for worker in workers:
            host = job.workers[worker]
            targets = [(node, onward, joins) for node, onward, joins in levels]
            targets += [(node, onward, "") for node, onward in ways]
            for node, onward, joins in dict.fromkeys(targets):
                for path in self.between(host, node):
                    if Leg(Range(), path, onward, joins) != legs[worker]:
                        yield _moved(legs, [worker], path=path, onward=onward, joins=joins)
            for path in self.between(host, job.ps):
                if path != legs[worker].path:
                    yield _moved(legs, [worker], path=path, onward=(), joins="")


def _way(leg: Leg) -> tuple[str, Path]:
    """The node where a leg's values are added up last before the PS, and the path from there."""
    if not leg.joins:
        return leg.node, leg.onward
    return leg.joins, leg.onward[leg.onward.index(leg.joins) :]


def _subtotal(leg: Leg, place: str) -> Leg:
    """The same way of a leg to the switch that adds it, with a subtotal at `place` on it."""
    at = leg.path.index(place)
    return Leg(Range(), leg.path[: at + 1], (*leg.path[at:], *leg.onward[1:]), leg.node)


def _fits(leg: Leg, place: str) -> bool:
    """True if there can be a subtotal at `place` on the way of a leg, which must have no loop."""
    if place not in leg.path[1:-1]:
        return False
    return set(leg.path[leg.path.index(place) :]).isdisjoint(leg.onward[1:])


def _with(choice: list[Legs], number: int, legs: Legs) -> list[Legs]:
    return [*choice[:number], legs, *choice[number + 1 :]]


def _moved(legs: Legs, workers: Sequence[int], **changes: Any) -> Legs:
    """The same with other fields of these workers' legs."""
    made = list(legs)
    for worker in workers:
        made[worker] = replace(legs[worker], **changes)
    return made


def _key(arrangement: Arrangement) -> list[Fraction]:
    """The rates that the fullest resources allow at one rate of all workers; the higher the
    better."""
    return [rate for rate, _ in _ratios(arrangement)[:FULLEST]]


def _ratios(arrangement: Arrangement) -> list[tuple[Fraction, Resource]]:
    found = [
        (capacity / sum((term.share for term in arrangement.uses[resource]), Fraction(0)), resource)
        for resource, capacity in arrangement.capacities.items()
    ]
    return sorted(found, key=lambda each: each[0])


def _pressed(arrangement: Arrangement) -> set[int]:
    """The workers, numbered over all jobs, that use a resource which is fullest."""
    ratios = _ratios(arrangement)
    return {
        worker
        for rate, resource in ratios
        if rate == ratios[0][0]
        for term in arrangement.uses[resource]
        for worker in term.workers
    }
