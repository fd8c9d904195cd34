"""The planners: which switch, or the PS, aggregates whose gradient, and over which path it goes.

    plan = make_plan(network, jobs, "grid-links")

All take the same and return the same, and every plan has passed the checker (plan_check.py). A
planner is one function and one entry of `SHIPPED`; other installed packages add theirs by entry
points (testbed/plugins.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed import plugins
from testbed.errors import UserError, did_you_mean, sentence
from testbed.routing.candidates import PATHS
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Plan
from testbed.routing.plan_check import violations
from testbed.routing.planners import grid, nearest, striped, whole
from testbed.routing.validate import check_input, check_memory


@dataclass(frozen=True)
class Planner:
    """A planner's entry: how figures show it, and `make(network, jobs, seed, paths)`."""

    name: str
    title: str
    color: str
    marker: str
    make: Callable[[Network, Sequence[PlanJob], int, int], Plan]


SHIPPED = {
    each.name: each
    for each in (
        Planner("none", "no aggregation", "#999999", "v", whole.none),
        Planner("nearest", "nearest switch", "#E69F00", "s", nearest.plan),
        Planner("grid", "GRID as published, repaired", "#56B4E9", "D", grid.plan),
        Planner("grid-links", "GRID with links", "#009E73", "o", whole.grid_links),
        Planner("striped", "striped", "#CC79A7", "^", striped.plan),
    )
}


PLANNERS = plugins.with_shipped(plugins.PLANNERS, SHIPPED, Planner)


def make_plan(
    network: Network,
    jobs: Sequence[PlanJob],
    planner: str,
    seed: int = 1,
    paths: int = PATHS,
) -> Plan:
    """Plan for some jobs. `seed` decides random choices; up to `paths` paths between two nodes are
    considered.

    Raises UserError for what the user can correct: an unknown planner, a network or job that makes
    no sense, a missing path, a plan that needs more memory than a switch has."""
    if planner not in PLANNERS:
        allowed = f"allowed: {', '.join(PLANNERS)}"
        hint = did_you_mean(planner, PLANNERS)
        raise UserError(sentence(f"found planner {planner!r}", allowed, hint))
    check_input(network, jobs)
    made = PLANNERS[planner].make(network, jobs, seed, paths)
    check_memory(made)
    problems = violations(network, jobs, made)
    if problems:
        raise AssertionError(f"the planner {planner} made a plan that cannot be run: {problems[0]}")
    return made
