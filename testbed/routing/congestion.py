"""Least congestion: the number of workers of each class on each route, all at one rate.

If all workers send at the same rate lambda, every load is lambda times a count, the number of
workers and aggregates that use the resource. To find the largest lambda, make the largest ratio of
count to capacity, mu = 1 / lambda, as small as possible. That is a linear program in whole counts:

    minimise mu   with   for each class:     sum over its routes of n = its workers
                         class, switch:      n at the switch <= its workers x u
                         job, switch:        sum over paths onward of u <= 1, u = 0 or 1
                         each resource:      n + u that use it <= capacity x mu

Results load links, too, if they are counted: each job's go over a tree from its PS to its workers
and to the switches that aggregate for it, at rate lambda. In small networks the tree is part of the
program: x = 0 or 1 says whether a link is in it, and a flow from the PS to each node that needs
results, over links of the tree, makes sure that they reach it. Otherwise the trees are given.

If the counts may be fractions, 1 / mu is an upper bound for every plan over these routes, also for
plans that split fragments: a worker's share at a switch cannot be larger than the share of
fragments that the switch sends on. A second pass takes, among the least congested choices, one that
loads the fewest links.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from testbed.routing.candidates import Candidates
from testbed.routing.fair import Resource
from testbed.routing.loop_free_paths import Path
from testbed.routing.network import min_capacity
from testbed.routing.result_trees import Ends, Tree, pruned

GAP = 1e-9  # relative gap at which an integer program counts as solved
TOLERANCE = 1e-7
NODES = 20_000  # nodes of the search tree after which an integer program counts as too hard
MAX_FLOWS = 2500  # variables of flows of results up to which trees are part of the program


@dataclass
class Rows:
    """Rows of a linear program under construction: `low <= sum of factor x variable <= high`."""

    rows: list[int]
    columns: list[int]
    factors: list[float]
    low: list[float]
    high: list[float]

    @staticmethod
    def none() -> Rows:
        return Rows([], [], [], [], [])

    def add(self, terms: dict[int, float], low: float, high: float) -> None:
        row = len(self.low)
        self.rows += [row] * len(terms)
        self.columns += list(terms)
        self.factors += list(terms.values())
        self.low.append(low)
        self.high.append(high)

    def constraint(self, variables: int) -> LinearConstraint:
        shape = (len(self.low), variables)
        matrix = coo_matrix((self.factors, (self.rows, self.columns)), shape=shape).tocsr()
        return LinearConstraint(matrix, self.low, self.high)


@dataclass(frozen=True)
class _TreeColumns:
    """The variables of a job's tree: {link: x}, and for each node that needs results the first of
    its flows, one per link in the same order. `always`: the nodes that need all results. `last`:
    the links to workers that have one link; these are in every tree."""

    links: dict[Ends, int]
    flows: dict[str, int]
    always: frozenset[str]
    last: tuple[Ends, ...]


class Congestion:
    """The program above for some candidates. `capacities` are not scaled; mu is for rates in
    `unit_bps`.

    `counted`: whether results load links. Then `trees` are theirs, for each job; None: they are
    part of the program if it is small (`finds_trees`), and not counted otherwise."""

    def __init__(
        self,
        candidates: Candidates,
        counted: bool = False,
        trees: Sequence[Tree] | None = None,
    ) -> None:
        self.candidates = candidates
        self.constant: dict[Resource, int] = {}  # loads at rate 1 that no variable changes
        resource: Resource
        for tree in trees or () if counted else ():
            for ends in tree:
                resource = ("link", *ends)
                self.constant[resource] = self.constant.get(resource, 0) + 1
        network = candidates.network
        limited = [link.capacity_bps for link in network.links if link.capacity_bps is not None]
        limited += [each.aggregation_bps for each in network.switches if each.aggregation_bps]
        servers = {job.ps: network.ingress_bps(job.ps) for job in candidates.jobs}
        limited += [each for each in servers.values() if each is not None]
        limited += [job.max_rate_bps for job in candidates.jobs if job.max_rate_bps]
        self.unit_bps = max(limited, default=1)
        self.capacities: dict[Resource, int | None] = {
            ("link", *link.ends): link.capacity_bps for link in network.links
        }
        self.capacities |= {
            ("switch", each.name): each.aggregation_bps for each in network.switches
        }
        self.capacities |= {("PS", name): capacity for name, capacity in servers.items()}
        # Variables: mu, then the routes of the classes, then the paths onward.
        self.first_route: list[int] = []
        column = 1
        for each in candidates.classes:
            self.first_route.append(column)
            column += len(each.routes)
        self.first_onward: dict[tuple[int, str], int] = {}
        for key, paths in candidates.onward.items():
            self.first_onward[key] = column
            column += len(paths)
        self.variables = self.route_variables = column
        self.trees: list[_TreeColumns] = []
        if counted and trees is None:
            self._tree_columns()
        self.uses, self.rows, self.min_mu = self._constraints()

    @property
    def finds_trees(self) -> bool:
        """True if the trees of results are part of the program."""
        return bool(self.trees)

    def _tree_columns(self) -> None:
        """Give the links of trees their variables, unless there are too many."""
        network, column = self.candidates.network, self.route_variables
        found = []
        constant: dict[Resource, int] = {}
        for index, job in enumerate(self.candidates.jobs):
            into: dict[str, list[Ends]] = {worker: [] for worker in job.workers}
            links = []
            for source, target in network.link:
                if source != job.ps and source not in network.switch:
                    continue
                if target in into:
                    into[target].append((source, target))
                elif target in network.switch:
                    links.append((source, target))
            last = tuple(ways[0] for ways in into.values() if len(ways) == 1)
            for ends in last:
                resource = ("link", *ends)
                constant[resource] = constant.get(resource, 0) + 1
            several = {worker: ways for worker, ways in into.items() if len(ways) != 1}
            links += [ends for ways in several.values() for ends in ways]
            # Dictionaries, since the order must not depend on names.
            always = dict.fromkeys((*(source for source, _ in last), *several), True)
            nodes = always | dict.fromkeys(
                (node for of, node in self.first_onward if of == index), True
            )
            columns = {ends: column + place for place, ends in enumerate(links)}
            column += len(links)
            flows = {}
            for node in nodes:
                flows[node] = column
                column += len(links)
            found.append(_TreeColumns(columns, flows, frozenset(always), last))
        if column - self.route_variables <= MAX_FLOWS:
            self.trees, self.variables, self.constant = found, column, constant

    def _tree_rows(self, rows: Rows, use: Callable[[int, Path], None]) -> None:
        """Every flow of results takes its node's share of the fragments there, over the tree."""
        candidates = self.candidates
        for index, (job, made) in enumerate(zip(candidates.jobs, self.trees, strict=False)):
            for ends, column in made.links.items():
                use(column, ends)
            into: dict[str, dict[int, float]] = {}
            for ends, column in made.links.items():
                into.setdefault(ends[1], {})[column] = 1.0
            for columns in into.values():
                rows.add(columns, -np.inf, 1)
            for target, first in made.flows.items():
                balance: dict[str, dict[int, float]] = {target: {}}
                for place, (source, node) in enumerate(made.links):
                    rows.add({first + place: 1.0, made.links[source, node]: -1.0}, -np.inf, 0)
                    if source != job.ps:
                        balance.setdefault(source, {})[first + place] = -1.0
                    balance.setdefault(node, {})[first + place] = 1.0
                for node, terms in balance.items():
                    if node != target:
                        rows.add(terms, 0, 0)
                    elif target in made.always:
                        rows.add(terms, 1, 1)
                    else:
                        sends = dict.fromkeys(self.onward_columns(index, target), -1.0)
                        rows.add({**terms, **sends}, 0, 0)

    def _constraints(self) -> tuple[dict[Resource, dict[int, float]], Rows, float]:
        candidates = self.candidates
        uses: dict[Resource, dict[int, float]] = {}
        rows = Rows.none()
        min_mu = 0.0

        def use(column: int, path: Path, *last: Resource) -> None:
            for resource in (
                *(("link", *ends) for ends in zip(path, path[1:], strict=False)),
                *last,
            ):
                if self.capacities[resource] is not None:
                    uses.setdefault(resource, {})[column] = 1.0

        for each, first in zip(candidates.classes, self.first_route, strict=True):
            job = candidates.jobs[each.job]
            min_mu = max(min_mu, 1 / self.max_rate(each.job, each.workers[0]))
            here: dict[str, dict[int, float]] = {}
            for column, route in enumerate(each.routes, first):
                last = ("PS" if route.node == job.ps else "switch", route.node)
                host = job.workers[each.workers[0]]
                use(column, candidates.counted_path(host, route.rest), last)
                here.setdefault(route.node, {})[column] = 1.0
            everyone = len(each.workers)
            rows.add({c: 1.0 for columns in here.values() for c in columns}, everyone, everyone)
            for node, columns in here.items():
                if node != job.ps:
                    sends = dict.fromkeys(self.onward_columns(each.job, node), -float(everyone))
                    rows.add({**columns, **sends}, -np.inf, 0)
        for (number, node), paths in candidates.onward.items():
            onward = self.onward_columns(number, node)
            for column, path in zip(onward, paths, strict=True):
                use(column, path, ("PS", candidates.jobs[number].ps))
            rows.add(dict.fromkeys(onward, 1.0), -np.inf, 1)
        self._tree_rows(rows, use)
        for resource in dict.fromkeys((*uses, *self.constant)):
            capacity = self.capacities[resource]
            if capacity is not None:
                terms = uses.setdefault(resource, {})
                most = -self.constant.get(resource, 0)
                rows.add({**terms, 0: -(capacity / self.unit_bps)}, -np.inf, most)
        return uses, rows, min_mu

    def max_rate(self, job: int, worker: int) -> float:
        """The largest rate that a worker's own links and its job's limit allow, in `unit_bps`."""
        made, network = self.candidates.jobs[job], self.candidates.network
        host = made.workers[worker]
        links = [network.link[host, after].capacity_bps for after in network.after[host]]
        together = None if None in links else sum(each for each in links if each is not None)
        most = min_capacity((together, made.max_rate_bps))
        return np.inf if most is None else most / self.unit_bps

    def onward_columns(self, job: int, node: str) -> range:
        """The variables of a switch's paths onward."""
        first = self.first_onward[job, node]
        return range(first, first + len(self.candidates.onward[job, node]))

    def relaxed(
        self,
        opened: Collection[tuple[int, str]] | None = None,
        onward: Mapping[tuple[int, str], int] | None = None,
    ) -> np.ndarray:
        """The variables of the linear relaxation's solution.

        opened: exactly these (job, switch) aggregate; None: all may, also in part. onward: the
        number of the path that each of them takes."""
        low, high = self._bounds()
        rows = Rows.none()
        if opened is not None:
            for key in self.candidates.onward:
                columns = self.onward_columns(*key)
                if key not in opened:
                    high[columns] = 0
                elif onward is not None:
                    low[columns[onward[key]]] = 1
                else:
                    rows.add(dict.fromkeys(columns, 1.0), 1, 1)
        found = self._solve(_first(self.variables), low, high, None, rows)
        assert found is not None  # every class has a route, and mu can be as large as it must
        return found

    def whole(self) -> np.ndarray | None:
        """The variables of a least congested choice in whole counts; None if finding one is too
        hard."""
        low, high = self._bounds()
        found = self._solve(_first(self.variables), low, high, NODES)
        if found is None:
            return None
        lengths = np.zeros(self.variables)
        for each, first in zip(self.candidates.classes, self.first_route, strict=True):
            for column, route in enumerate(each.routes, first):
                lengths[column] = len(route.rest)
        for key, paths in self.candidates.onward.items():
            for column, path in zip(self.onward_columns(*key), paths, strict=True):
                lengths[column] = len(path) - 1
        for tree in self.trees:
            lengths[list(tree.links.values())] = 1
        high[0] = found[0] * (1 + GAP) + GAP
        shorter = self._solve(lengths, low, high, NODES)
        return found if shorter is None else shorter

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = np.zeros(self.variables), np.full(self.variables, np.inf)
        low[0] = self.min_mu
        for key in self.candidates.onward:
            high[self.onward_columns(*key)] = 1
        for tree in self.trees:
            high[list(tree.links.values())] = 1
        return low, high

    def _solve(
        self,
        cost: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        nodes: int | None,
        more: Rows | None = None,
    ) -> np.ndarray | None:
        """nodes: number of nodes that a search for whole counts may visit; None: a linear program.
        All variables but mu and the flows of results must be whole then."""
        constraints = [self.rows.constraint(self.variables)]
        if more is not None and more.low:
            constraints.append(more.constraint(self.variables))
        integral = np.zeros(self.variables)
        if nodes is not None:
            links = [column for tree in self.trees for column in tree.links.values()]
            integral[[*range(1, self.route_variables), *links]] = 1
        options = {"mip_rel_gap": GAP} | ({"node_limit": nodes} if nodes else {})
        result = milp(
            cost,
            integrality=integral,
            bounds=Bounds(low, high),
            constraints=constraints,
            options=options,
        )
        return result.x if result.status == 0 else None

    def bound(self) -> Fraction | None:
        """The upper bound of the smallest rate over all plans; None: unlimited."""
        return self._rate(self.relaxed())

    def trees_of(self, found: np.ndarray) -> list[Tree]:
        """The jobs' trees of results in a solution with whole trees, without links that lead to no
        node that needs them."""
        trees = []
        for index, (job, made) in enumerate(zip(self.candidates.jobs, self.trees, strict=True)):
            after: dict[str, list[str]] = {}
            for (source, target), column in made.links.items():
                if found[column] > 0.5:
                    after.setdefault(source, []).append(target)
            for source, target in made.last:
                after.setdefault(source, []).append(target)
            tree: list[Ends] = []
            reached = {job.ps: True}
            for source in _breadth_first(after, job.ps):
                for target in after.get(source, ()):
                    if target not in reached:
                        reached[target] = True
                        tree.append((source, target))
            needed = set(job.workers) | {
                node
                for of, node in self.first_onward
                if of == index and found[list(self.onward_columns(of, node))].sum()
            }
            trees.append(pruned(tree, needed))
        return trees

    def _rate(self, found: np.ndarray) -> Fraction | None:
        return None if found[0] <= 0 else exact(1 / found[0]) * self.unit_bps

    def counts(self, found: np.ndarray) -> tuple[list[list[int]], dict[tuple[int, str], Path]]:
        """The counts of a solution in whole counts, and the paths onward that it uses."""
        counts = [
            [round(found[column]) for column in range(first, first + len(each.routes))]
            for each, first in zip(self.candidates.classes, self.first_route, strict=True)
        ]
        used = {
            (each.job, route.node)
            for each, numbers in zip(self.candidates.classes, counts, strict=True)
            for route, count in zip(each.routes, numbers, strict=True)
            if count
        }
        chosen = {
            key: paths[int(np.argmax(found[list(self.onward_columns(*key))]))]
            for key, paths in self.candidates.onward.items()
            if key in used
        }
        return counts, chosen


def _breadth_first(after: Mapping[str, Sequence[str]], root: str) -> list[str]:
    """The nodes that are reached from `root`, nearest first."""
    found = {root: True}
    for source in (queue := [root]):
        for target in after.get(source, ()):
            if target not in found:
                found[target] = True
                queue.append(target)
    return queue


def _first(variables: int) -> np.ndarray:
    """The cost that is mu."""
    cost = np.zeros(variables)
    cost[0] = 1
    return cost


def exact(value: float) -> Fraction:
    """The simple fraction that a solver's number stands for, or the number itself."""
    simple = Fraction(value).limit_denominator(10**5)
    return simple if abs(simple - Fraction(value)) <= TOLERANCE * abs(value) else Fraction(value)
