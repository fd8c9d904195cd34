"""`none` and `grid-links`: each worker has one path, and the smallest rate is as large as possible.

`none` aggregates nothing: each worker sends to its PS over one path. `grid-links` is the published
model extended by link capacities, and by a choice among the k shortest loop-free paths for every
worker and aggregate. Where it is fast enough, both are solved exactly, as a program in whole counts
(congestion.py), otherwise by a search from a rounded linear program (search.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.routing.assemble import Choice, assemble
from testbed.routing.candidates import candidates
from testbed.routing.congestion import Congestion
from testbed.routing.leximin import improve
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Plan
from testbed.routing.search import search

SMALL = 500  # variables of a program that is worth solving exactly


def none(network: Network, jobs: Sequence[PlanJob], seed: int, paths: int) -> Plan:
    """Raises UserError if a worker has no path to its PS."""
    return _plan("none", network, jobs, False, paths)


def grid_links(network: Network, jobs: Sequence[PlanJob], seed: int, paths: int) -> Plan:
    """Raises UserError if a worker has no path to its PS."""
    return _plan("grid-links", network, jobs, True, paths)


def _plan(
    name: str, network: Network, jobs: Sequence[PlanJob], aggregate: bool, paths: int
) -> Plan:
    program = Congestion(candidates(network, jobs, aggregate, paths))
    return assemble(network, jobs, whole_choice(program), name, program.bound())


def whole_choice(program: Congestion) -> Choice:
    """A choice of one path for each worker, with the largest possible smallest rate, or a good one
    if that is too hard to find."""
    found = program.whole() if program.variables <= SMALL else None
    if found is None:
        return program.candidates.legs(*program.counts(search(program)))
    return improve(program, *program.counts(found))
