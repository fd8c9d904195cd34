"""The subproblem of `striped`'s rounds: which node serves which workers at the lowest cost?

Every link, switch and parameter server has a price per bit/s. A path costs the sum of the prices of
what it uses. A node that aggregates costs the price of its cheapest path onward, once for all its
workers. Serving all workers at the lowest cost is a facility location problem. It is small enough
to be solved exactly in each round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import Bounds, milp
from scipy.sparse import csr_matrix

from testbed.routing.congestion import Rows
from testbed.routing.fair import Resource
from testbed.routing.paths import Path


def resources_of(path: Path, *more: Resource) -> list[Resource]:
    """The links of a path, and `more`."""
    return [*(("link", *ends) for ends in zip(path, path[1:], strict=False)), *more]


class PathPrices:
    """Finds the cheapest path of each set, for changing prices.

    sets: sets of (path, the resource at its end). resources: {resource: its place among the
    prices}; other resources are free."""

    def __init__(
        self, sets: Sequence[Sequence[tuple[Path, Resource]]], resources: Mapping[Resource, int]
    ) -> None:
        self.paths = [[path for path, _ in paths] for paths in sets]
        self.first = np.cumsum([0, *map(len, self.paths)])
        rows, columns = [], []
        for row, (path, end) in enumerate(each for paths in sets for each in paths):
            used = [resources[name] for name in resources_of(path, end) if name in resources]
            rows += [row] * len(used)
            columns += used
        shape = (int(self.first[-1]), len(resources))
        self.uses = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)

    def cheapest(self, prices: np.ndarray) -> list[tuple[float, Path]]:
        """Cost of the cheapest path of each set, and that path; (infinity, ()) for an empty set."""
        costs = self.uses @ prices
        found: list[tuple[float, Path]] = []
        for paths, start in zip(self.paths, self.first, strict=False):
            if not paths:
                found.append((np.inf, ()))
                continue
            place = int(np.argmin(costs[start : start + len(paths)]))
            found.append((float(costs[start + place]), paths[place]))
        return found


def locate(
    cost: Sequence[Sequence[float]], weight: Sequence[int], open_cost: Sequence[float]
) -> list[int]:
    """Number of the node that serves each class, at the lowest total cost. A class costs `weight`
    times its `cost` at the node, and a node with a class its `open_cost` once. The last node is
    always open and free."""
    classes, nodes = len(cost), len(cost[0])
    facilities = nodes - 1
    if not facilities:
        return [0] * classes
    variables = facilities + classes * nodes
    objective = np.zeros(variables)
    objective[:facilities] = open_cost
    high = np.ones(variables)
    rows = Rows.none()
    for number, (costs, count) in enumerate(zip(cost, weight, strict=True)):
        first = facilities + number * nodes
        rows.add(dict.fromkeys(range(first, first + nodes), 1.0), 1, 1)
        for node, each in enumerate(costs):
            if np.isinf(each):
                high[first + node] = 0
            else:
                objective[first + node] = each * count
            if node < facilities:
                rows.add({first + node: 1.0, node: -1.0}, -np.inf, 0)
    integral = np.zeros(variables)
    integral[:facilities] = 1
    result = milp(
        objective,
        integrality=integral,
        bounds=Bounds(np.zeros(variables), high),
        constraints=rows.constraint(variables),
    )
    assert result.x is not None  # the last node serves everybody
    opened = [*(result.x[:facilities] > 0.5), True]
    return [
        min((node for node in range(nodes) if opened[node]), key=lambda node: (costs[node], node))
        for costs in cost
    ]
