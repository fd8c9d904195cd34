"""`striped` against linear programs over everything that can be done with a fragment.

A fragment's *way* is one node and path for each worker, and a path onward for each node that adds.
The program has a variable for every way of each job, the rate of the fragments that take it. It is
written without the planners' code and lists all ways, which is possible in tiny networks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from testbed.routing.network import Network, PlanJob
from testbed.routing.planners import make_plan
from tests.support.plan_networks import all_paths, result_trees, small_networks

CHECKS = {"deadline": None, "suppress_health_check": list(HealthCheck)}
MOST_WAYS = 3000
MOST_TREES = 400
NEARLY = 1e-4  # shares are fractions with denominators up to 10 000

Way = tuple[frozenset[str], dict[tuple, int]]  # the switches that add, and what it uses


def ways(network: Network, job: PlanJob) -> list[Way]:
    nodes = [job.ps, *(switch.name for switch in network.switches if switch.aggregates)]
    per_worker = [
        [path for node in nodes for path in all_paths(network, worker, node)]
        for worker in job.workers
    ]
    found = []
    for paths in product(*per_worker):
        used = sorted({path[-1] for path in paths} - {job.ps})
        for onward in product(*(all_paths(network, node, job.ps) for node in used)):
            uses: dict[tuple, int] = {}
            for path in (*paths, *onward):
                for resource in (*pairwise(path), ("at", path[-1])):
                    uses[resource] = uses.get(resource, 0) + 1
            found.append((frozenset(used), uses))
            if len(found) > MOST_WAYS:
                return found
    return found


def capacities(network: Network) -> dict[tuple, int]:
    found = {(link.source, link.target): link.capacity_bps for link in network.links}
    found |= {("at", switch.name): switch.aggregation_bps for switch in network.switches}
    return {resource: rate for resource, rate in found.items() if rate is not None}


def optimum(network: Network, ways_of_jobs: Sequence[Sequence[Way]], trees=None) -> float:
    """The largest rate that all jobs can have at once. trees: links of each job's results."""
    limits = capacities(network)
    row = {resource: place for place, resource in enumerate(limits)}
    count = sum(map(len, ways_of_jobs))
    matrix = np.zeros((len(limits) + len(ways_of_jobs), count + 1))
    column = 0
    for job, found in enumerate(ways_of_jobs):
        for _, uses in found:
            for resource, times in uses.items():
                if resource in row:
                    matrix[row[resource], column] += times
            matrix[len(limits) + job, column] = -1
            column += 1
        matrix[len(limits) + job, count] = 1
    for tree in trees or ():
        for ends in tree:
            matrix[row[ends], count] += 1
    cost = np.zeros(count + 1)
    cost[-1] = -1
    bounds = [*limits.values(), *[0] * len(ways_of_jobs)]
    result = linprog(cost, A_ub=matrix, b_ub=bounds, bounds=(0, None), method="highs")
    return -result.fun


def optimum_with_results(network: Network, jobs, ways_of_jobs) -> float:
    """The same, with the best tree of results for each job."""
    trees = [result_trees(network, job) for job in jobs]
    assume(np.prod([len(each) for each in trees]) <= MOST_TREES)
    best = 0.0
    for chosen in product(*trees):
        reached = [
            [way for way in found if way[0] <= nodes]
            for found, (nodes, _) in zip(ways_of_jobs, chosen, strict=True)
        ]
        best = max(best, optimum(network, reached, [links for _, links in chosen]))
    return best


def striped_is_best(network: Network, jobs: Sequence[PlanJob]) -> None:
    ways_of_jobs = [ways(network, job) for job in jobs]
    assume(all(len(found) <= MOST_WAYS for found in ways_of_jobs))
    for results in ("ignored", "counted"):
        plan = make_plan(network, jobs, "striped", results=results)
        if results == "ignored":
            best = optimum(network, ways_of_jobs)
        else:
            best = optimum_with_results(network, jobs, ways_of_jobs)
        assert float(plan.rate_bps) == pytest.approx(best, rel=NEARLY)


SMALL = st.one_of(
    small_networks(jobs=1, workers=3, max_switches=3),
    small_networks(jobs=1, workers=2, max_switches=4),
    small_networks(jobs=2, workers=1, max_switches=3),
    small_networks(jobs=1, workers=2, max_switches=3, homes=2),
)


@settings(max_examples=10, **CHECKS)
@given(SMALL)
def test_no_split_is_better(given_network) -> None:
    striped_is_best(*given_network)


@pytest.mark.slow
@settings(max_examples=150, **CHECKS)
@given(SMALL)
def test_no_split_is_better_in_many_networks(given_network) -> None:
    striped_is_best(*given_network)
