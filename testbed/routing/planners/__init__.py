"""The planners: which switch, or the PS, aggregates whose gradient, and over which path it goes.

    plan = make_plan(network, jobs, "grid-links")

All take the same and return the same, and every plan has passed the checker (plan_check.py). A
planner is one function and one entry of `SHIPPED`; other installed packages add theirs by entry
points (testbed/plugins.py).
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed import plugins
from testbed.routing.candidates import check_reachable, check_results
from testbed.routing.canonical import canonical_order
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Plan
from testbed.routing.plan_check import violations
from testbed.routing.planner_options import COUNTED, ROUNDINGS, Options
from testbed.routing.planners import grid, nearest, two_level, whole
from testbed.routing.validate import check_input, check_memory, check_options
from testbed.systems.options import GONE_PLANNERS

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Planner:
    """A planner's entry: how figures show it, and `make(network, jobs, options)`."""

    name: str
    title: str
    color: str
    marker: str
    make: Callable[[Network, Sequence[PlanJob], Options], Plan]


SHIPPED = {
    each.name: each
    for each in (
        Planner("none", "no aggregation", "#999999", "v", whole.none),
        Planner("nearest", "nearest switch", "#E69F00", "s", nearest.nearest),
        Planner("nearest-anywhere", "nearest switch anywhere", "#D55E00", "<", nearest.anywhere),
        Planner("grid", "GRID as published, repaired", "#56B4E9", "D", grid.plan),
        Planner("grid-links", "GRID with links", "#009E73", "o", whole.grid_links),
        Planner("two-level", "GRID on two levels", "#0072B2", "P", two_level.plan),
    )
}


PLANNERS = plugins.with_shipped(plugins.PLANNERS, SHIPPED, Planner)


def make_plan(
    network: Network,
    jobs: Sequence[PlanJob],
    planner: str,
    seed: int = 1,
    paths: int | None = None,
    *,
    results: str = COUNTED,
    roundings: int = ROUNDINGS,
    exact: bool = False,
    max_rate_bps: int | None = None,
) -> Plan:
    """Plan for some jobs. `max_rate_bps` is T of the jobs that have none of their own; for the
    other options see testbed/routing/planner_options.py.

    The rates depend on the network and the jobs, not on their names nor on any order.

    Raises UserError for what the user can correct: an unknown planner, a network or job that makes
    no sense, a missing path, a plan that needs more memory than a switch has."""
    if planner not in PLANNERS:
        allowed = f"allowed: {', '.join(PLANNERS)}"
        hint = dict(GONE_PLANNERS).get(planner) or did_you_mean(planner, PLANNERS)
        raise UserError(sentence(f"found planner {planner!r}", allowed, hint))
    options = Options(seed, paths, results, roundings, exact)
    check_options(options)
    jobs = [replace(job, max_rate_bps=job.max_rate_bps or max_rate_bps) for job in jobs]
    check_input(network, jobs)
    for job in jobs:
        check_reachable(network, job)
        if options.counted:
            check_results(network, job)
    make = PLANNERS[planner].make
    try:
        inspect.signature(make).bind(network, jobs, options)
    except TypeError:
        raise UserError(
            f"the planner {planner} cannot be called with network, jobs and options, as planners"
            " are (docs/extending.md); update the package that it comes from"
        ) from None
    order = canonical_order(network, jobs)
    began_s = time.monotonic()
    made = order.restore(make(*order.network_and_jobs, options))
    _log.info("planner %s, %d jobs: %.3f s", planner, len(jobs), time.monotonic() - began_s)
    check_memory(made)
    problems = violations(network, jobs, made)
    if problems:
        raise AssertionError(f"the planner {planner} made a plan that cannot be run: {problems[0]}")
    return made
