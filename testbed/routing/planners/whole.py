"""`none` and `grid-links`: each worker has one path, and the smallest rate is as large as possible.

`none` aggregates nothing: each worker sends to its PS over one path. `grid-links` is the published
model extended by link capacities, and by a choice among the k shortest loop-free paths for every
worker and aggregate. Where it is fast enough, both are solved exactly, as a program in whole counts
(congestion.py), otherwise by a search from a rounded linear program (large_networks.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.routing.assemble import Choice, arranged, plan_from
from testbed.routing.candidates import Candidates, candidates
from testbed.routing.congestion import Congestion
from testbed.routing.large_networks import search
from testbed.routing.leximin import improve
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Plan
from testbed.routing.planner_options import Options
from testbed.routing.result_trees import Tree

SMALL = 500  # variables of a program that is worth solving exactly


def none(network: Network, jobs: Sequence[PlanJob], options: Options) -> Plan:
    """Raises UserError if a worker has no path to its PS."""
    return _plan("none", network, jobs, False, options)


def grid_links(network: Network, jobs: Sequence[PlanJob], options: Options) -> Plan:
    """Raises UserError if a worker has no path to its PS."""
    return _plan("grid-links", network, jobs, True, options)


def _plan(
    name: str, network: Network, jobs: Sequence[PlanJob], aggregate: bool, options: Options
) -> Plan:
    made = candidates(network, jobs, aggregate, options.path_limit, options.counted)
    program = Congestion(made, options.counted)
    choice, trees = whole_choice(program, options)
    best = arranged(network, jobs, choice, options)
    if trees is not None and sorted((other := best.with_trees(trees)).rates) > sorted(best.rates):
        best = other
    return plan_from(best, name, program.bound(), options)


def whole_choice(program: Congestion, options: Options) -> tuple[Choice, list[Tree] | None]:
    """A choice of one path for each worker, with the largest possible smallest rate, or a good one
    if that is too hard to find; and trees of results that fit, None if others must be found."""
    found = program.whole() if program.route_variables <= SMALL else None
    if found is None:
        return _searched(program, options), None
    made = program.candidates
    counts = program.counts(found)
    choice = improve(program, *counts, options)
    if not program.finds_trees:
        return choice, None
    # With several jobs, the trees of the program may be better than those found one by one.
    trees = program.trees_of(found)
    own = made.legs(*counts)
    least = min(arranged(made.network, made.jobs, choice, options).rates)
    solved = arranged(made.network, made.jobs, own, options).with_trees(trees)
    return (own, trees) if min(solved.rates) > least else (choice, None)


def _searched(program: Congestion, options: Options) -> Choice:
    """A choice by search, first without results, then with room for them where they lack it."""
    made: Candidates = program.candidates
    program = Congestion(made)
    choice = made.legs(*program.counts(search(program)))
    if not options.counted:
        return choice
    first = arranged(made.network, made.jobs, choice, options)
    if first.common_rate() == first.without_results().common_rate():
        return choice
    reserved = Congestion(made, counted=True, trees=first.trees)
    other = made.legs(*reserved.counts(search(reserved)))
    second = arranged(made.network, made.jobs, other, options)
    return other if sorted(second.rates) > sorted(first.rates) else choice
