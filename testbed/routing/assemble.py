"""Assembly of a plan from a planner's choice: groups, rates, loads, aggregators, tags.

Planners differ in their choices. The steps from a choice to a plan are the same for all. The rates
are max-min fair over all capacities of the network, links included, and leave room for results
unless the planner is told to ignore them. So every plan can be run, also the plan of a planner that
ignores links.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import cast

from p4fabric.base.errors import UserError

from testbed.routing.fair import Resource, Term, common_rate, fair_rates, loads
from testbed.routing.loop_free_paths import Path
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import (
    Assignment,
    BeforeRepair,
    Group,
    JobPlan,
    LinkLoad,
    Load,
    Plan,
    Range,
    Results,
    SwitchLoad,
    WorkerPlan,
)
from testbed.routing.planner_options import Options
from testbed.routing.result_trees import Ends, Tree, result_trees, widest_tree
from testbed.routing.steering_tags import Tags

SOLVER = Fraction(1, 10**6)  # relative error by which a linear program's bound may be too low
DEFAULTS = Options()
SWEEPS = 3  # number of times that each job's tree of results is chosen again


@dataclass(frozen=True)
class Leg:
    """A range of a worker's fragments: over `path` to its aggregation node, the path's end, and
    from there over `onward` to the PS. `onward` is () where the PS itself is that node. `joins`:
    the switch on the path onward where the aggregate is added up with others; "" if none."""

    range: Range
    path: Path
    onward: Path
    joins: str = ""

    @property
    def node(self) -> str:
        return self.path[-1]


Choice = Sequence[Sequence[Sequence[Leg]]]
"""For each job and worker its legs, whose ranges follow each other and cover 0 to 1."""


@dataclass
class _Group:
    """A group under construction. `legs`: (worker's number within the job, its leg) of those that
    meet; `subtotals`: the groups whose aggregates join it; `parent`: the number of the group that
    its own aggregate joins, 0: none."""

    range: Range
    onward: Path
    legs: tuple[tuple[int, Leg], ...]
    joins: str = ""
    subtotals: list[_Group] = field(default_factory=list)
    parent: int = 0

    @property
    def workers(self) -> tuple[int, ...]:
        own = [number for number, _ in self.legs]
        return tuple(sorted([*own, *(w for each in self.subtotals for w in each.workers)]))

    @property
    def path(self) -> Path:
        """Path of the node's aggregate, to the node that adds it up."""
        return self.onward[: self.onward.index(self.joins) + 1] if self.joins else self.onward


class Arrangement:
    """A choice and the resources that it uses. `uses` and `capacities` are the input of the fair
    rates; there the workers of all jobs are numbered consecutively. Resources are ("link", a, b),
    ("switch", name), ("PS", name), ("worker", number).

    `trees`: the links of each job's tree of results, if results are counted, too."""

    def __init__(
        self,
        network: Network,
        jobs: Sequence[PlanJob],
        choice: Choice,
        trees: Sequence[Tree] | None = None,
    ) -> None:
        self.network = network
        self.jobs = jobs
        self.choice = choice
        self.groups = [_groups(legs) for legs in choice]
        self.pieces = [
            _pieces(workers, groups) for workers, groups in zip(choice, self.groups, strict=True)
        ]
        self.first = [0]
        for job in jobs:
            self.first.append(self.first[-1] + len(job.workers))
        self.gradients = self._uses()
        self.trees = trees
        self.uses = self.gradients if trees is None else self._with_results(trees)
        self.capacities = self._capacities()

    def _uses(self) -> dict[Resource, list[Term]]:
        uses: dict[Resource, list[Term]] = {}

        def use(term: Term, path: Path, *more: Resource) -> None:
            for ends in zip(path, path[1:], strict=False):
                uses.setdefault(("link", *ends), []).append(term)
            for resource in more:
                uses.setdefault(resource, []).append(term)

        for job, first, workers, groups in zip(
            self.jobs, self.first, self.pieces, self.groups, strict=False
        ):
            for number, pieces in enumerate(workers):
                if job.max_rate_bps is not None:
                    whole = Term((first + number,), Fraction(1))
                    use(whole, (), ("worker", first + number))
                for leg, _ in pieces:
                    term = Term((first + number,), leg.range.share)
                    at = ("switch", leg.node) if leg.onward else ("PS", job.ps)
                    use(term, leg.path, at)
            for group in groups:
                members = tuple(first + worker for worker in group.workers)
                to = ("switch", group.joins) if group.joins else ("PS", job.ps)
                use(Term(members, group.range.share), group.path, to)
        return uses

    def _with_results(self, trees: Sequence[Tree]) -> dict[Resource, list[Term]]:
        uses = {resource: list(terms) for resource, terms in self.gradients.items()}
        for first, following, tree in zip(self.first, self.first[1:], trees, strict=False):
            results = Term(tuple(range(first, following)), Fraction(1), slowest=True)
            for ends in tree:
                uses.setdefault(("link", *ends), []).append(results)
        return uses

    def _capacities(self) -> dict[Resource, int]:
        found: dict[Resource, int | None] = {
            ("link", *link.ends): link.capacity_bps for link in self.network.links
        }
        for switch in self.network.switches:
            found["switch", switch.name] = switch.aggregation_bps
        for job, first in zip(self.jobs, self.first, strict=False):
            found["PS", job.ps] = self.network.ingress_bps(job.ps)
            for number in range(len(job.workers)):
                found["worker", first + number] = job.max_rate_bps
        return {
            resource: capacity
            for resource, capacity in found.items()
            if capacity is not None and resource in self.uses
        }

    def with_trees(self, trees: Sequence[Tree]) -> Arrangement:
        """The same choice with room for results over these trees."""
        made = copy(self)
        made.__dict__.pop("rates", None)  # is computed again when it is asked for
        made.trees = trees
        made.uses = made._with_results(trees)
        made.capacities = made._capacities()
        return made

    def without_results(self) -> Arrangement:
        """The same choice without room for results."""
        return Arrangement(self.network, self.jobs, self.choice)

    def with_room(self) -> Arrangement:
        """The same choice with room for results, over trees that cost the rates as little as one
        finds. For one job, the smallest rate is the best that any tree allows.

        Raises UserError if results have no way."""
        found = self.result_trees()
        trees = [each.links for each in found]
        for job, tree in zip(self.jobs, trees, strict=True):
            if not tree:
                raise UserError(
                    f"job {job.name}: its results have no way from its parameter server {job.ps} to"
                    " all that wait for them; plan with results: ignored, or add links"
                )
        best = self.with_trees(trees)
        slowest = [
            min(self.rates[first:following])
            for first, following in zip(self.first, self.first[1:], strict=False)
        ]
        rooms = [each.room_bps for each in found]
        if all(room is None or room >= rate for room, rate in zip(rooms, slowest, strict=True)):
            best.__dict__["rates"] = self.rates  # results cost nothing
            return best
        for _ in range(SWEEPS):
            before = best
            for number in range(len(self.jobs)):
                other = best._with_other_tree(number)
                if sorted(other.rates) > sorted(best.rates):
                    best = other
            if best is before:
                break
        return best

    def _with_other_tree(self, job: int) -> Arrangement:
        """This arrangement with the tree of a job chosen again, for the largest common rate."""
        assert self.trees is not None  # only with room for results
        trees = list(self.trees)
        rest = self.with_trees([() if place == job else each for place, each in enumerate(trees)])
        widths = {
            cast(Ends, resource[1:]): capacity
            / (sum((term.share for term in rest.uses.get(resource, ())), Fraction(0)) + 1)
            for resource, capacity in _capacities_of_links(self.network)
        }
        ps, targets = self.jobs[job].ps, self.to_reach(job)
        trees[job] = widest_tree(self.network, ps, targets, widths, rest.common_rate())
        return self.with_trees(trees)

    def to_reach(self, job: int) -> tuple[str, ...]:
        """The nodes that need a job's results: its workers, and the switches that aggregate for
        it."""
        switches = (group.onward[0] for group in self.groups[job])
        return tuple(dict.fromkeys((*self.jobs[job].workers, *switches)))

    def result_trees(self) -> list[Results]:
        """The jobs' trees of results, beside gradients at the fair rates: the given trees, or trees
        where there is room."""
        loaded = loads(self.gradients, self.rates)
        gradients = {cast(Ends, key[1:]): load for key, load in loaded.items() if key[0] == "link"}
        wanted = [
            (job.ps, self.to_reach(number), min(self.rates[first:following]))
            for number, (job, first, following) in enumerate(
                zip(self.jobs, self.first, self.first[1:], strict=False)
            )
        ]
        return result_trees(self.network, wanted, gradients, self.trees)

    def room(self) -> Fraction | None:
        """The smallest ratio of the room for a job's results to the job's rate; None: unlimited."""
        ratios = [
            each.room_bps / min(self.rates[first:following])
            for each, first, following in zip(
                self.result_trees(), self.first, self.first[1:], strict=False
            )
            if each.room_bps is not None
        ]
        return min(ratios, default=None)

    def common_rate(self) -> Fraction | None:
        """The smallest of the fair rates; None: unlimited."""
        return common_rate(self.uses, self.capacities)

    @cached_property
    def rates(self) -> list[Fraction]:
        """The fair rates of all workers. Raises UserError if nothing limits one."""
        rates = fair_rates(self.uses, self.capacities, self.first[-1])
        if rates is None:
            raise UserError(
                "nothing limits the rate of some worker; give the links, the aggregation or a"
                " parameter server's ingress a capacity"
            )
        return rates


def _capacities_of_links(network: Network) -> list[tuple[Resource, int]]:
    return [
        (("link", *link.ends), link.capacity_bps)
        for link in network.links
        if link.capacity_bps is not None
    ]


def _groups(workers: Sequence[Sequence[Leg]]) -> list[_Group]:
    """The groups: at each switch, the workers' legs with the same range of fragments and the same
    path onward."""
    legs_at: dict[str, list[tuple[int, Leg]]] = {}
    for number, legs in enumerate(workers):
        for leg in legs:
            if leg.onward:
                legs_at.setdefault(leg.node, []).append((number, leg))
    found: list[_Group] = []
    for arriving in legs_at.values():
        ends = sorted({end for _, leg in arriving for end in (leg.range.start, leg.range.end)})
        place = {end: number for number, end in enumerate(ends)}
        meeting: list[list[tuple[int, Leg]]] = [[] for _ in ends]
        for number, leg in arriving:
            for part in range(place[leg.range.start], place[leg.range.end]):
                meeting[part].append((number, leg))
        here: list[_Group] = []
        for start, end, members in zip(ends, ends[1:], meeting, strict=False):
            for onward, joins in dict.fromkeys((leg.onward, leg.joins) for _, leg in members):
                who = tuple(
                    (number, leg)
                    for number, leg in members
                    if (leg.onward, leg.joins) == (onward, joins)
                )
                last = next((each for each in here if each.legs == who), None)
                if last and last.range.end == start:
                    last.range = Range(last.range.start, end)
                else:
                    here.append(_Group(Range(start, end), onward, who, joins))
        found += here
    for group in [each for each in found if each.joins]:
        way = group.onward[group.onward.index(group.joins) :]
        wanted = "", group.range, way
        fits = (each for each in found if (each.joins, each.range, each.onward) == wanted)
        parent = next(fits, None)
        if parent is None:
            parent = _Group(group.range, way, ())
            found.append(parent)
        parent.subtotals.append(group)
        group.parent = found.index(parent) + 1
    return found


def _pieces(
    workers: Sequence[Sequence[Leg]], groups: Sequence[_Group]
) -> list[list[tuple[Leg, int]]]:
    """Each worker's legs, cut where the group changes, with the groups' numbers (from 1; 0: no
    group)."""
    found: list[list[tuple[Leg, int]]] = [
        [(leg, 0) for leg in legs if not leg.onward] for legs in workers
    ]
    for index, group in enumerate(groups, 1):
        for number, leg in group.legs:
            found[number].append((replace(leg, range=group.range), index))
    return [sorted(pieces, key=lambda piece: piece[0].range.start) for pieces in found]


def arranged(
    network: Network, jobs: Sequence[PlanJob], choice: Choice, options: Options
) -> Arrangement:
    """A choice with its rates, and room for results unless they are ignored. Raises UserError."""
    arrangement = Arrangement(network, jobs, choice)
    return arrangement.with_room() if options.counted else arrangement


def assemble(
    network: Network,
    jobs: Sequence[PlanJob],
    choice: Choice,
    planner: str,
    bound: Fraction | None,
    options: Options = DEFAULTS,
    *,
    seed: int | None = None,
    trees: Sequence[Tree] | None = None,
) -> Plan:
    """The plan of a choice, at max-min fair rates. With results counted, gradients leave room for
    results, over `trees` (the links of each job's tree) or over trees that cost least. With results
    ignored, results get trees where there is room.

    Raises UserError if nothing limits a rate, or results that count have no way."""
    if trees is not None and options.counted:
        arrangement = Arrangement(network, jobs, choice, trees)
    else:
        arrangement = arranged(network, jobs, choice, options)
    return plan_from(arrangement, planner, bound, options, seed)


def plan_from(
    arrangement: Arrangement,
    planner: str,
    bound: Fraction | None,
    options: Options,
    seed: int | None = None,
    before_repair: BeforeRepair | None = None,
) -> Plan:
    """The plan of an arrangement; see `assemble`."""
    network, jobs, rates = arrangement.network, arrangement.jobs, arrangement.rates
    loaded = loads(arrangement.gradients, rates)
    if bound is not None and bound < min(rates) <= bound * (1 + SOLVER):
        bound = min(rates)
    parts = [_job_plan(arrangement, index, rates) for index in range(len(jobs))]
    parts = [
        replace(part, results=each)
        for part, each in zip(parts, arrangement.result_trees(), strict=True)
    ]
    carried: dict[Ends, Fraction] = {}
    for part in parts:
        for ends in part.results.links:
            carried[ends] = carried.get(ends, Fraction(0)) + part.results_bps
    slots: dict[str, int] = {}
    for part in parts:
        for group in part.groups:
            slots[group.node] = slots.get(group.node, 0) + group.slots
    nothing = Fraction(0)
    return Plan(
        planner=planner,
        seed=seed,
        rate_bps=min(rates),
        bound_bps=bound,
        jobs=tuple(parts),
        links={
            link.ends: LinkLoad(
                loaded.get(("link", *link.ends), nothing),
                link.capacity_bps,
                carried.get(link.ends, nothing),
            )
            for link in network.links
        },
        switches={
            switch.name: SwitchLoad(
                loaded.get(("switch", switch.name), nothing),
                switch.aggregation_bps if switch.aggregates else 0,
                slots.get(switch.name, 0),
                switch.slots if switch.aggregates else 0,
            )
            for switch in network.switches
        },
        servers={
            ps: Load(loaded.get(("PS", ps), nothing), network.ingress_bps(ps))
            for ps in dict.fromkeys(job.ps for job in jobs)
        },
        results=options.results,
        before_repair=before_repair,
    )


def _job_plan(arrangement: Arrangement, index: int, all_rates: Sequence[Fraction]) -> JobPlan:
    job = arrangement.jobs[index]
    network = arrangement.network
    rates = all_rates[arrangement.first[index] : arrangement.first[index + 1]]
    pieces, groups = arrangement.pieces[index], arrangement.groups[index]
    tags = Tags()
    workers = []
    tag_of_group: dict[int, int] = {}
    delays: dict[int, list[int]] = {}
    for number, host in enumerate(job.workers):
        assignments = []
        for leg, meeting in pieces[number]:
            tag = tags.of_inputs(leg.path, meeting)
            tag_of_group.setdefault(meeting, tag)
            delays.setdefault(meeting, []).append(network.delay_ns(leg.path))
            rate = rates[number] * leg.range.share
            assignments.append(Assignment(leg.range, tag, meeting, leg.node, leg.path, rate))
        workers.append(WorkerPlan(number, host, rates[number], tuple(assignments)))
    subtotals = [(number, group) for number, group in enumerate(groups, 1) if group.joins]
    tag_onward: dict[int, int] = {}
    for number, group in subtotals:
        way = groups[group.parent - 1].onward
        tag_onward[number] = tags.of_subtotal(group.path, way, group.parent)
        tag_of_group.setdefault(group.parent, tag_onward[number])
        last = max(delays[number]) + network.delay_ns(group.path)
        delays.setdefault(group.parent, []).append(last)
    made = []
    for number, group in enumerate(groups, 1):
        rate = group.range.share * max(rates[worker] for worker in group.workers)
        alone = len(group.workers) == 1
        spread = 0 if alone else network.host_spread_ns
        hold_ns = max(delays[number]) - min(delays[number]) + spread
        in_use = rate * hold_ns / (10**9 * 8 * network.frame_bytes)
        if number not in tag_onward:
            tag_onward[number] = tags.of_aggregate(group.onward, tag_of_group[number])
        made.append(
            Group(
                number=number,
                node=group.onward[0],
                tag=tag_onward[number],
                range=group.range,
                workers=group.workers,
                path=group.path,
                rate_bps=rate,
                hold_ns=hold_ns,
                slots=max(1, math.ceil(in_use)),
                parent=group.parent,
            )
        )
    return JobPlan(job.name, job.ps, min(rates), tuple(workers), tuple(made))
