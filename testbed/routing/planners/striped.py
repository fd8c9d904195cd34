"""`striped`: a worker's fragments split in ranges over several aggregation nodes (ours).

A *stripe* is a range of a job's fragments with one path for each worker and one path onward for
each switch that aggregates. So a stripe is a plan like one of `grid-links`, and striping is a
mixture of such plans, each for a part of the fragments. All workers of a job change at the same
fragments; otherwise sums would miss contributions. The best mixture is a linear program with a
variable for every possible stripe, w = the rate at which its fragments flow:

    maximise t   with   each job:       sum of its stripes' w >= t
                        each resource:  sum of w x (workers, aggregates, results) <= capacity

If results count, the tree of each job's results is fixed before the program is solved. In small
networks the best tree is found: the program of congestion.py gives an upper bound for each tree,
and trees are tried in the order of their bounds until no other can be better. Elsewhere one tree
that fits a plan without stripes is taken. In networks of up to 6 switches all loop-free paths are
considered.

There are too many stripes to list. So the program begins with those of `grid-links` and generates
others (column generation): with the dual prices of the current solution it looks for a stripe that
improves it. In that stripe each worker uses the cheapest node, and opening a switch costs the price
of its path onward. This is a facility location problem, solved exactly. When there is no such
stripe, the mixture is the best of all over the paths that are considered. Large networks stop after
ROUNDS. With several jobs, t is raised for all, then for those that can have more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from testbed.routing.assemble import Arrangement, Choice, Leg, arranged, plan_from
from testbed.routing.candidates import Candidates, candidates
from testbed.routing.congestion import Congestion
from testbed.routing.fair import Resource
from testbed.routing.network import Network, PlanJob
from testbed.routing.options import Options
from testbed.routing.paths import Path
from testbed.routing.plan import Plan, Range
from testbed.routing.planners.whole import whole_choice
from testbed.routing.pricing import PathPrices, locate, resources_of
from testbed.routing.result_trees import Tree, pruned

ROUNDS = 300
FEW_SWITCHES = 6
ALL_PATHS = 10_000  # more than there are between two of so few switches
MAX_TREES = 200  # trees of results that are tried
NEARLY = 1e-6  # relative distance from the bound at which it counts as reached
SMALLEST = 1e-6  # the smallest share of a job's fragments that becomes a stripe
DENOMINATOR = 10_000  # the largest denominator of a stripe's share


@dataclass(frozen=True)
class Stripe:
    """One path for each worker (by number), the paths onward, and the stripe's use of each resource
    at rate 1."""

    job: int
    paths: tuple[Path, ...]
    onward: tuple[tuple[str, Path], ...]
    uses: tuple[tuple[Resource, int], ...]


def plan(network: Network, jobs: Sequence[PlanJob], options: Options) -> Plan:
    """The plan. Raises UserError if a worker has no path to its PS."""
    few = options.paths is None and len(network.switches) <= FEW_SWITCHES
    limit = ALL_PATHS if few else options.path_limit
    made = candidates(network, jobs, paths=limit, counted=options.counted)
    program = Congestion(made, options.counted)
    bound = program.bound()
    whole, _ = whole_choice(program, options)
    best: Arrangement | None = None
    for most, trees in _trees(program, whole, options):
        if best is not None and most is not None and min(best.rates) >= most * (1 - NEARLY):
            break
        mixture = _Mixture(program, whole, trees, bound)
        # Shares are rounded to simple fractions, which may cost something. So the choice without
        # stripes is a candidate, too.
        for choice in (mixture.choice(), whole):
            for each in _arranged(network, jobs, choice, trees, options):
                if best is None or sorted(each.rates) > sorted(best.rates):
                    best = each
        if best and bound is not None and min(best.rates) >= bound * (1 - NEARLY):
            break
    assert best is not None
    return plan_from(best, "striped", bound, options)


def _arranged(
    network: Network,
    jobs: Sequence[PlanJob],
    choice: Choice,
    trees: Sequence[Tree],
    options: Options,
) -> Iterator[Arrangement]:
    """A choice with room for results over the trees that it was made for, and over others."""
    yield arranged(network, jobs, choice, options)
    if options.counted:
        used = []
        for tree, legs in zip(trees, choice, strict=True):
            nodes = {node for each in legs for leg in each for node in (leg.path[0], leg.node)}
            reached = {target for _, target in tree} | {ends[0] for ends in tree[:1]}
            if not nodes <= reached:
                return  # the tree is too small for this choice
            used.append(pruned(tree, nodes))
        yield Arrangement(network, jobs, choice, used)


def _trees(
    program: Congestion, whole: Choice, options: Options
) -> Iterator[tuple[Fraction | None, Sequence[Tree]]]:
    """(upper bound of the smallest rate with them, trees of results to try, one for each job), the
    best bounds first. In large networks only the trees that reach all switches that can aggregate
    and leave the most room beside the gradients of a plan without stripes."""
    made = program.candidates
    if not options.counted:
        yield None, [()] * len(made.jobs)
    elif program.finds_trees:
        yield from islice(program.trees_by_bound(), MAX_TREES)
    else:
        arrangement = Arrangement(made.network, made.jobs, whole)
        onward = [[node for of, node in made.onward if of == job] for job in range(len(made.jobs))]
        found = arrangement.result_trees(onward)
        yield None, [each.links for each in found]


class _Mixture:
    """The linear program, in units of `unit_bps`."""

    def __init__(
        self, program: Congestion, whole: Choice, trees: Sequence[Tree], bound: Fraction | None
    ) -> None:
        self.candidates: Candidates = program.candidates
        self.trees = trees
        self.unit_bps = program.unit_bps
        self.bound = np.inf if bound is None else float(bound / self.unit_bps)
        self.capacities = {
            resource: capacity / self.unit_bps
            for resource, capacity in program.capacities.items()
            if capacity is not None
        }
        self.resources = {resource: row for row, resource in enumerate(self.capacities)}
        self.jobs = len(self.candidates.jobs)
        # The largest rate that the workers' own links and the job's limit allow all workers.
        self.max_rates = [
            min(program.max_rate(job, worker) for worker in range(len(made.workers)))
            for job, made in enumerate(self.candidates.jobs)
        ]
        self.nodes = [self._nodes(job) for job in range(self.jobs)]
        self.onward = [self._onward(job) for job in range(self.jobs)]
        self.path_prices = [self._path_prices(job) for job in range(self.jobs)]
        self.stripes = [self._of_choice(job, legs) for job, legs in enumerate(whole)]
        self.rates = np.zeros(len(self.stripes))
        self.level = 0.0  # the rate that all jobs have
        self._solve()

    @property
    def reaches_bound(self) -> bool:
        """True if no mixture can be better, over any tree of results."""
        return self.level >= self.bound * (1 - NEARLY)

    def _nodes(self, job: int) -> list[str]:
        """The switches that may aggregate for a job, since its results reach them, and its PS."""
        reached = {node for ends in self.trees[job] for node in ends}
        switches = [
            node
            for of, node in self.candidates.onward
            if of == job and (node in reached or not self.trees[job])
        ]
        return [*switches, self.candidates.jobs[job].ps]

    def _onward(self, job: int) -> PathPrices:
        end = ("PS", self.candidates.jobs[job].ps)
        return PathPrices(
            [
                [(path, end) for path in self.candidates.onward[job, node]]
                for node in self.nodes[job][:-1]
            ],
            self.resources,
        )

    def _path_prices(self, job: int) -> PathPrices:
        """The routes of each class to each node, in this order."""
        ps, workers = self.candidates.jobs[job].ps, self.candidates.jobs[job].workers
        return PathPrices(
            [
                [
                    (
                        self.candidates.counted_path(workers[each.workers[0]], route.rest),
                        ("PS" if node == ps else "switch", node),
                    )
                    for route in each.routes
                    if route.node == node
                ]
                for each in self.candidates.classes
                if each.job == job
                for node in self.nodes[job]
            ],
            self.resources,
        )

    def _of_choice(self, job: int, legs: Sequence[Sequence[Leg]]) -> Stripe:
        """The stripe of a choice. If results do not reach a switch of it: one without switches."""
        onward = {leg.node: leg.onward for (leg,) in legs if leg.onward}
        if onward.keys() <= set(self.nodes[job]):
            return self._stripe(job, [leg.path for (leg,) in legs], onward)
        made = self.candidates.jobs[job]
        paths: list[Path] = [()] * len(made.workers)
        for each in self.candidates.classes:
            if each.job == job:
                rest = next(route.rest for route in each.routes if route.node == made.ps)
                for worker in each.workers:
                    paths[worker] = (made.workers[worker], *rest)
        return self._stripe(job, paths, {})

    def _stripe(self, job: int, paths: Sequence[Path], onward: dict[str, Path]) -> Stripe:
        ps = self.candidates.jobs[job].ps
        uses: dict[Resource, int] = {}

        def use(path: Path, *more: Resource) -> None:
            for resource in resources_of(path, *more):
                if resource in self.resources:
                    uses[resource] = uses.get(resource, 0) + 1

        for host, *rest in paths:
            path = self.candidates.counted_path(host, tuple(rest))
            use(path, ("PS", ps) if path[-1] == ps else ("switch", path[-1]))
        for path in onward.values():
            use(path, ("PS", ps))
        for ends in self.trees[job]:
            use(ends)
        order = {node: place for place, node in enumerate(self.nodes[job])}
        ways = tuple(sorted(onward.items(), key=lambda each: order[each[0]]))
        return Stripe(job, tuple(paths), ways, tuple(uses.items()))

    def _solve(self) -> None:
        """Raise the rates of all jobs, then of those that nothing limits yet."""
        held: dict[int, float] = {}
        rounds = ROUNDS
        known = set(self.stripes)
        while len(held) < self.jobs:
            level, prices, values = self._master(held)
            self.level = self.level if held else level
            best = not held and self.reaches_bound
            better = [] if best else [self._cheapest(job, prices) for job in range(self.jobs)]
            rounds -= 1
            new = [
                stripe
                for job, (stripe, cost) in enumerate(better)
                if cost < values[job] - 1e-9 and stripe not in known
            ]
            if new and rounds > 0:
                self.stripes += new
                known.update(new)
                continue
            # A job whose rate has a price cannot have more unless another job has less.
            free = [job for job in range(self.jobs) if job not in held]
            stuck = [job for job in free if values[job] > 1e-9] or free
            held |= dict.fromkeys(stuck, level)

    def _master(self, held: dict[int, float]) -> tuple[float, np.ndarray, list[float]]:
        """The level of the jobs that are not held, the resources' prices and the jobs'."""
        count = len(self.stripes)
        rows, columns, factors = [], [], []
        for column, stripe in enumerate(self.stripes):
            for resource, times in stripe.uses:
                rows.append(self.resources[resource])
                columns.append(column)
                factors.append(float(times))
            for row, sign in ((0, -1.0), (self.jobs, 1.0)):
                rows.append(len(self.resources) + row + stripe.job)
                columns.append(column)
                factors.append(sign)
        limits = list(self.capacities.values())
        for job in range(self.jobs):
            if job in held:
                limits.append(-held[job] * (1 - 1e-9))
            else:
                rows.append(len(self.resources) + job)
                columns.append(count)
                factors.append(1.0)
                limits.append(0.0)
        # Solvers take no infinite limits. So no limit is a limit that is never reached.
        limits += [1e9 if np.isinf(most) else most for most in self.max_rates]
        matrix = csr_matrix((factors, (rows, columns)), shape=(len(limits), count + 1))
        cost = np.zeros(count + 1)
        cost[-1] = -1
        result = linprog(cost, A_ub=matrix, b_ub=limits, bounds=(0, None), method="highs")
        assert result.status == 0  # rates of 0 are allowed, and the PS limits them
        self.rates = result.x[:-1]
        duals = -result.ineqlin.marginals
        first = len(self.resources)
        values = [duals[first + job] - duals[first + self.jobs + job] for job in range(self.jobs)]
        return float(result.x[-1]), duals[:first], values

    def _cheapest(self, job: int, prices: np.ndarray) -> tuple[Stripe, float]:
        """The stripe that costs least at these prices, and its cost."""
        made, nodes = self.candidates.jobs[job], self.nodes[job]
        onward = self.onward[job].cheapest(prices)
        classes = [each for each in self.candidates.classes if each.job == job]
        flat = self.path_prices[job].cheapest(prices)
        served = [flat[first : first + len(nodes)] for first in range(0, len(flat), len(nodes))]
        chosen = locate(
            [[cost for cost, _ in each] for each in served],
            [len(each.workers) for each in classes],
            [cost for cost, _ in onward],
        )
        paths: list[Path] = [()] * len(made.workers)
        used: dict[str, Path] = {}
        total = float(sum(prices[row] for row in self._rows_of_tree(job)))
        for each, ends, place in zip(classes, served, chosen, strict=True):
            cost, rest = ends[place]
            total += cost * len(each.workers)
            if place < len(onward) and nodes[place] not in used:
                total += onward[place][0]
                used[nodes[place]] = onward[place][1]
            for worker in each.workers:
                host = made.workers[worker]
                paths[worker] = rest if rest[0] == host else (host, *rest)
        return self._stripe(job, paths, used), total

    def _rows_of_tree(self, job: int) -> list[int]:
        links = (("link", *ends) for ends in self.trees[job])
        return [self.resources[link] for link in links if link in self.resources]

    def choice(self) -> Choice:
        """The mixture as legs, with shares that are simple fractions."""
        found: list[list[list[Leg]]] = []
        for job, made in enumerate(self.candidates.jobs):
            mine = [
                (float(rate), stripe)
                for rate, stripe in zip(self.rates, self.stripes, strict=True)
                if stripe.job == job and rate > 0
            ]
            mine.sort(key=lambda each: -each[0])
            legs: list[list[Leg]] = [[] for _ in made.workers]
            start = Fraction(0)
            for share, stripe in _simple_shares(mine):
                part = Range(start, start + share)
                start += share
                onward = dict(stripe.onward)
                for worker, path in enumerate(stripe.paths):
                    leg = Leg(part, path, onward.get(path[-1], ()))
                    last = legs[worker][-1] if legs[worker] else None
                    if last and (last.path, last.onward) == (leg.path, leg.onward):
                        legs[worker][-1] = Leg(Range(last.range.start, part.end), path, leg.onward)
                    else:
                        legs[worker].append(leg)
            found.append(legs)
        return found


def _simple_shares(rated: Sequence[tuple[float, Stripe]]) -> list[tuple[Fraction, Stripe]]:
    """Shares in the ratio of the rates, with small denominators, whose sum is 1. The largest share
    gets the rounding error."""
    total = sum(rate for rate, _ in rated)
    shares = [
        (Fraction(rate / total).limit_denominator(DENOMINATOR), stripe)
        for rate, stripe in rated
        if rate / total > SMALLEST
    ]
    shares = [(share, stripe) for share, stripe in shares if share]
    rest = 1 - sum(share for share, _ in shares)
    return [(shares[0][0] + rest, shares[0][1]), *shares[1:]]
