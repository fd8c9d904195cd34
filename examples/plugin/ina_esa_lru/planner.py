"""A planner: all workers of a job aggregate at the switch that their PS is connected to."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.routing.assemble import Leg, assemble
from testbed.routing.candidates import candidates
from testbed.routing.congestion import Congestion
from testbed.routing.loop_free_paths import shortest_path
from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Plan, Range
from testbed.routing.planner_options import Options
from testbed.routing.planners import Planner


def plan(network: Network, jobs: Sequence[PlanJob], options: Options) -> Plan:
    """A plan with one aggregation node per job. `assemble` makes room for results if they count."""
    choice = []
    for job in jobs:
        legs = []
        for worker in job.workers:
            path = shortest_path(network, worker, job.ps)
            if path[-2] in network.aggregating:
                leg = Leg(Range(), path[:-1], onward=path[-2:])
            else:
                leg = Leg(Range(), path, onward=())  # the PS itself adds
            legs.append([leg])
        choice.append(legs)
    routes = candidates(network, jobs, paths=options.path_limit, counted=options.counted)
    bound = Congestion(routes, options.counted).bound()
    return assemble(network, jobs, choice, "at-ps", bound, options)


PLANNER = Planner("at-ps", "at the PS", "#332288", "X", plan)
