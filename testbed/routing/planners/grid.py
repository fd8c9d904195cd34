"""`grid`: the published model, which has no links, and a repair that makes its plans run.

A linear program gives each worker n a rate r_n^s to each switch s and to the PS:

    maximise lambda   with   sum_s r_n^s + r_n^PS >= lambda        for each worker
                             r_n^s <= y_s                          for each worker and switch
                             sum_n r_n^s <= C_s                    for each switch
                             sum_n r_n^PS + sum_s y_s <= B
                             every r <= T

Then every worker picks one node at random, s with probability r_n^s / sum_s r_n^s. The published
rounding keeps lambda and may exceed the capacities. So the repair gives the picked nodes the
max-min fair rates that all capacities allow, over shortest paths, links included; of several
roundings the one with the largest smallest rate is kept.

With several jobs, y_s and B are each job's own (B of its PS) and C_s is shared; lambda is raised
for all, then for those that can have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.optimize import Bounds, milp

from testbed.errors import UserError
from testbed.routing.assemble import Arrangement, Choice, Leg, assemble
from testbed.routing.candidates import check_reachable
from testbed.routing.congestion import Rows, exact
from testbed.routing.network import Network, PlanJob
from testbed.routing.paths import shortest_path
from testbed.routing.plan import Plan, Range

ROUNDINGS = 20


def plan(network: Network, jobs: Sequence[PlanJob], seed: int, paths: int) -> Plan:
    """The plan; rounding i of the 20 draws with seed + i. Raises UserError if a worker has no path
    to its PS, or nothing limits lambda."""
    for job in jobs:
        check_reachable(network, job)
    model = Model(network, jobs)
    bound, shares = model.solve()
    best: tuple[Fraction, int, Choice] | None = None
    for number in range(seed, seed + ROUNDINGS):
        choice = model.round(shares, np.random.default_rng(number))
        rate = Arrangement(network, jobs, choice).common_rate()
        assert rate is not None  # the PS's ingress limits it
        if best is None or rate > best[0]:
            best = rate, number, choice
    assert best is not None
    return assemble(network, jobs, best[2], "grid", bound, best[1])


class Model:
    """The published linear program."""

    def __init__(self, network: Network, jobs: Sequence[PlanJob]) -> None:
        self.network = network
        self.jobs = jobs
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
            for name in network.aggregating
            if shortest_path(network, name, job.ps)
            and all(shortest_path(network, worker, name) for worker in job.workers)
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
        what it can get."""
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

    def round(self, values: np.ndarray, random: np.random.Generator) -> Choice:
        """Every worker picks a node with the probability of its share of the worker's rate."""
        choice = []
        for index, job in enumerate(self.jobs):
            workers = []
            for number, host in enumerate(job.workers):
                shares = np.maximum(values[self.r(index, number)], 0)
                node = self.nodes[index][random.choice(len(shares), p=shares / shares.sum())]
                path = shortest_path(self.network, host, node)
                onward = () if node == job.ps else shortest_path(self.network, node, job.ps)
                assert path is not None and onward is not None  # see _nodes
                workers.append((Leg(Range(), path, onward),))
            choice.append(workers)
        return choice
