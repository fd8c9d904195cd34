"""`grid`: the published model, which has no links, and a repair that makes its plans run.

A linear program gives each worker n a rate r_n^s to each switch s and to the PS:

    maximise lambda   with   sum_s r_n^s + r_n^PS >= lambda        for each worker
                             r_n^s <= y_s                          for each worker and switch
                             sum_n r_n^s <= C_s                    for each switch
                             sum_n r_n^PS + sum_s y_s <= B
                             every r <= T

Then every worker picks one node at random, s with probability r_n^s / sum_s r_n^s. The published
rounding keeps lambda and may exceed the capacities. So the repair gives the picked nodes the
max-min fair rates that all capacities allow, over shortest paths, links and results included; of
several roundings the one with the largest smallest rate is kept. What the kept rounding exceeded
before the repair is part of the plan.

With `exact`, workers pick nodes by the published integer program instead: each worker has one node,
and the largest rate within the model's capacities. The model has no links, so it does not say which
worker takes which of the picked nodes: they take those that make their paths shortest in total.

With several jobs, y_s and B are each job's own (B of its PS) and C_s is shared; lambda is raised
for all, then for those that can have more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np
from p4fabric.base.errors import UserError
from scipy.optimize import Bounds, linear_sum_assignment, milp

from testbed.routing.assemble import Arrangement, Choice, Leg, arranged, plan_from
from testbed.routing.candidates import aggregating_for
from testbed.routing.congestion import GAP, Rows, exact
from testbed.routing.fair import Resource, common_rate, loads
from testbed.routing.loop_free_paths import shortest_path
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import BeforeRepair, Plan, Range
from testbed.routing.planner_options import Options


def plan(network: Network, jobs: Sequence[PlanJob], options: Options) -> Plan:
    """The plan; rounding i draws with seed + i. Raises UserError if a worker has no path to its PS,
    or nothing limits lambda."""
    model = Model(network, jobs, options.counted)
    bound, values = model.solve()
    made: list[_Made] = []
    if options.exact:
        counts = model.whole()
        made.append(_Made(None, *_exceeded(network, jobs, model.choice_of(counts), None)))
    else:
        rates = [exact(max(values[job], 0.0)) * model.unit_bps for job in range(len(jobs))]
        for number in range(options.seed, options.seed + options.roundings):
            choice = model.round(values, np.random.default_rng(number))
            made.append(_Made(number, *_exceeded(network, jobs, choice, rates)))
    best, arrangement = max(
        ((each, arranged(network, jobs, each.choice, options)) for each in made),
        key=lambda pair: _worth(pair[1]),
    )
    before = BeforeRepair(
        rate_bps=min(best.rates),
        method="exact" if options.exact else "rounding",
        exceeded={what: load for what, load in best.loads.items() if load[0] > load[1]},
        roundings=len(made),
        violating=sum(each.worst > 1 for each in made),
        worst=max(each.worst for each in made),
    )
    return plan_from(arrangement, "grid", bound, options, best.seed, before)


def _worth(arrangement: Arrangement) -> tuple[list[Fraction], Fraction | float]:
    """The value of a choice, the larger the better: the smallest rate, then the others, then the
    room of results."""
    room = arrangement.room()
    return sorted(arrangement.rates), inf if room is None else room


@dataclass(frozen=True)
class _Made:
    """A choice before it is repaired: the jobs' rates, and the loads and capacities of switches,
    PSs and links at these rates. `worst`: the largest ratio of load to capacity of a switch or
    PS."""

    seed: int | None
    choice: Choice
    rates: Sequence[Fraction]
    loads: Mapping[str, tuple[Fraction, int]]

    @property
    def worst(self) -> Fraction:
        ratios = [
            load / capacity
            for what, (load, capacity) in self.loads.items()
            if not what.startswith("link ")
        ]
        return max(ratios, default=Fraction(0))


def _exceeded(
    network: Network, jobs: Sequence[PlanJob], choice: Choice, rates: Sequence[Fraction] | None
) -> tuple[Choice, Sequence[Fraction], dict[str, tuple[Fraction, int]]]:
    """(the choice, the jobs' rates, {what: (load, capacity)}). rates: None: the largest rate for
    all that switches and PSs allow, as in the integer program."""
    arrangement = Arrangement(network, jobs, choice)
    capacities = arrangement.capacities
    if rates is None:
        inside = {key: most for key, most in capacities.items() if key[0] != "link"}
        rate = common_rate(arrangement.gradients, inside)
        assert rate is not None  # the PS's ingress limits it
        rates = [rate] * len(jobs)
    of_workers = [rate for rate, job in zip(rates, jobs, strict=True) for _ in job.workers]
    loaded = loads(arrangement.gradients, of_workers)
    found = {}
    for resource, most in capacities.items():
        if resource[0] != "worker":
            names = " -> ".join(map(str, resource[1:]))
            found[f"{resource[0]} {names}"] = loaded[resource], most
    return choice, rates, found


class Model:
    """The published linear program."""

    def __init__(self, network: Network, jobs: Sequence[PlanJob], counted: bool) -> None:
        self.network = network
        self.jobs = jobs
        self.counted = counted
        self.nodes = [self._nodes(job) for job in jobs]
        self.ingress = [network.ingress_bps(job.ps) for job in jobs]
        for job, ingress in zip(jobs, self.ingress, strict=True):
            if ingress is None:
                raise UserError(
                    f"job {job.name}: the published model needs the ingress rate of its parameter"
                    f" server {job.ps}; give its link a bandwidth, or its host an ingress"
                )
        self.unit_bps = max(each for each in self.ingress if each is not None)
        # Variables: lambda of each job, then y of (job, switch), then r of (job, worker, node).
        column = len(jobs)
        self.y: list[dict[str, int]] = []
        for nodes in self.nodes:
            self.y.append({node: column + place for place, node in enumerate(nodes[:-1])})
            column += len(nodes) - 1
        self.first_r = []
        for job, nodes in zip(jobs, self.nodes, strict=True):
            self.first_r.append(column)
            column += len(job.workers) * len(nodes)
        self.variables = column
        self.rows = self._rows()

    def _nodes(self, job: PlanJob) -> list[str]:
        """The switches that may aggregate for a job, and its PS last."""
        network = self.network
        return [
            name
            for name in aggregating_for(network, job, self.counted)
            if all(shortest_path(network, worker, name) for worker in job.workers)
        ] + [job.ps]

    def r(self, job: int, worker: int) -> range:
        """The variables of a worker's rates, by node."""
        count = len(self.nodes[job])
        first = self.first_r[job] + worker * count
        return range(first, first + count)

    def _rows(self) -> Rows:
        rows = Rows.none()
        at_switch: dict[str, dict[int, float]] = {}
        at_server: dict[str, dict[int, float]] = {}
        for index, job in enumerate(self.jobs):
            server = at_server.setdefault(job.ps, {})
            for worker in range(len(job.workers)):
                columns = self.r(index, worker)
                rows.add({**dict.fromkeys(columns, 1.0), index: -1.0}, 0, np.inf)
                for column, node in zip(columns[:-1], self.nodes[index], strict=False):
                    rows.add({column: 1.0, self.y[index][node]: -1.0}, -np.inf, 0)
                    at_switch.setdefault(node, {})[column] = 1.0
                server[columns[-1]] = 1.0
            server |= dict.fromkeys(self.y[index].values(), 1.0)
        for node, terms in at_switch.items():
            capacity = self.network.switch[node].aggregation_bps
            if capacity is not None:
                rows.add(terms, -np.inf, capacity / self.unit_bps)
        for ps, terms in at_server.items():
            ingress = self.network.ingress_bps(ps)
            assert ingress is not None  # checked before
            rows.add(terms, -np.inf, ingress / self.unit_bps)
        return rows

    def solve(self) -> tuple[Fraction, np.ndarray]:
        """The smallest lambda, and the values of all variables (in `unit_bps`) once each job has
        its largest rate."""
        most = np.full(self.variables, np.inf)
        for index, job in enumerate(self.jobs):
            t = job.max_rate_bps or self.ingress[index]
            assert t is not None  # checked before
            for worker in range(len(job.workers)):
                most[self.r(index, worker)] = t / self.unit_bps
        low = np.zeros(self.variables)

        def best(of: list[int], least: float) -> tuple[float, np.ndarray]:
            """Raise the smallest lambda of the jobs `of`; the others keep theirs."""
            rows = Rows.none()
            for index in of:
                rows.add({index: 1.0, self.variables: -1.0}, 0, np.inf)
            wider = self.rows.constraint(self.variables + 1)
            cost = np.zeros(self.variables + 1)
            cost[-1] = -1
            result = milp(
                cost,
                bounds=Bounds(np.append(low, least), np.append(most, np.inf)),
                constraints=[wider, rows.constraint(self.variables + 1)],
            )
            assert result.x is not None  # all rates 0 are allowed
            return result.x[-1], result.x[:-1]

        open_jobs = list(range(len(self.jobs)))
        first, values = best(open_jobs, 0)
        level = first
        while True:
            for index in open_jobs:
                low[index] = level * (1 - 1e-9)
            stuck = (
                [index for index in open_jobs if best([index], 0)[0] <= level * (1 + 1e-7)]
                if len(open_jobs) > 1
                else open_jobs
            )
            open_jobs = [index for index in open_jobs if index not in stuck]
            if not open_jobs or not stuck:
                return exact(first) * self.unit_bps, values
            level, values = best(open_jobs, 0)

    def whole(self) -> list[list[int]]:
        """The published integer program: for each job, the number of workers that pick each of its
        nodes, so that the largest rate for all is possible within C and B."""
        # Variables: mu = 1 / rate, then for each job the counts of its nodes and, for each switch,
        # 1 if it is picked.
        rows = Rows.none()
        at: dict[Resource, dict[int, float]] = {}
        first, column = [], 1
        low_mu = 0.0
        for job, nodes, ingress in zip(self.jobs, self.nodes, self.ingress, strict=True):
            first.append(column)
            everyone = len(job.workers)
            switches = len(nodes) - 1
            rows.add(dict.fromkeys(range(column, column + len(nodes)), 1.0), everyone, everyone)
            server = at.setdefault(("PS", job.ps), {})
            server[column + switches] = 1.0
            for place, node in enumerate(nodes[:-1]):
                picked = column + len(nodes) + place
                rows.add({column + place: 1.0, picked: -float(everyone)}, -np.inf, 0)
                at.setdefault(("switch", node), {})[column + place] = 1.0
                server[picked] = 1.0
            column += 2 * len(nodes) - 1
            t = job.max_rate_bps or ingress
            assert t is not None  # checked before
            low_mu = max(low_mu, self.unit_bps / t)
        for (kind, name), terms in at.items():
            capacity = (
                self.network.switch[str(name)].aggregation_bps
                if kind == "switch"
                else self.network.ingress_bps(str(name))
            )
            if capacity is not None:
                rows.add({**terms, 0: -capacity / self.unit_bps}, -np.inf, 0)
        low, high = np.zeros(column), np.full(column, np.inf)
        low[0] = low_mu
        for start, nodes in zip(first, self.nodes, strict=True):
            high[start + len(nodes) : start + 2 * len(nodes) - 1] = 1
        cost = np.zeros(column)
        cost[0] = 1
        integral = np.ones(column)
        integral[0] = 0
        result = milp(
            cost,
            integrality=integral,
            bounds=Bounds(low, high),
            constraints=rows.constraint(column),
            options={"mip_rel_gap": GAP},
        )
        assert result.x is not None  # every worker may pick the PS
        return [
            [round(result.x[start + place]) for place in range(len(nodes))]
            for start, nodes in zip(first, self.nodes, strict=True)
        ]

    def choice_of(self, counts: Sequence[Sequence[int]]) -> Choice:
        """The choice in which so many workers of each job take each of its nodes, with the shortest
        paths in total."""
        choice = []
        for job, nodes, numbers in zip(self.jobs, self.nodes, counts, strict=True):
            places = [
                node for node, count in zip(nodes, numbers, strict=True) for _ in range(count)
            ]
            hops = [
                [len(shortest_path(self.network, host, node) or ()) for node in places]
                for host in job.workers
            ]
            _, chosen = linear_sum_assignment(hops)
            choice.append(
                [self._legs(job, worker, places[place]) for worker, place in enumerate(chosen)]
            )
        return choice

    def _legs(self, job: PlanJob, worker: int, node: str) -> tuple[Leg, ...]:
        path = shortest_path(self.network, job.workers[worker], node)
        onward = () if node == job.ps else shortest_path(self.network, node, job.ps)
        assert path is not None and onward is not None  # see _nodes
        return (Leg(Range(), path, onward),)

    def round(self, values: np.ndarray, random: np.random.Generator) -> Choice:
        """Every worker picks a node with the probability of its share of the worker's rate."""
        choice = []
        for index, job in enumerate(self.jobs):
            workers = []
            for number in range(len(job.workers)):
                shares = np.maximum(values[self.r(index, number)], 0)
                node = self.nodes[index][random.choice(len(shares), p=shares / shares.sum())]
                workers.append(self._legs(job, number, node))
            choice.append(workers)
        return choice
