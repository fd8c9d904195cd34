"""Plans for the jobs of an experiment: the questions for a planner, and its answers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from p4fabric.base.errors import UserError

from testbed.experiment.schema_jobs import Job
from testbed.routing.network import Host, Link, Network, PlanJob, Switch
from testbed.routing.plan import Plan
from testbed.setup.job_setups import Platform
from testbed.systems.options import GridOptions

KEPT_PLANS = 64


def plan_jobs(platform: Platform, jobs: Iterable[Job], seed: int) -> Plan:
    """The plan for some jobs and the links that are up, by the planner that the experiment names.
    Raises UserError if there is no plan."""
    options = platform.options_of(GridOptions)
    return _planned(
        network_of_platform(platform),
        planned_jobs(jobs, platform.system.title),
        options.planner,
        seed,
        tuple(options.plan_options.items()),
    )


@lru_cache(KEPT_PLANS)  # every repetition asks again, and so does each failure that was foreseen
def _planned(
    network: Network,
    jobs: tuple[PlanJob, ...],
    planner: str,
    seed: int,
    more: tuple[tuple[str, object], ...],
) -> Plan:
    # Imported here: only experiments with a plan need the planners' libraries.
    from testbed.routing.planners import make_plan

    return make_plan(network, jobs, planner, seed, **dict(more))  # type: ignore[arg-type]


def network_of_platform(platform: Platform) -> Network:
    """The network as planners see it. Of parallel links a path takes the first that has not failed;
    failed links are not there."""
    topology = platform.topology
    links: dict[tuple[str, str], Link] = {}
    for node in (*topology.switches, *topology.hosts):
        for _, (neighbour, index, end) in sorted(topology.ports(node).items()):
            direction = platform.link(index)[end]
            link = Link(node, neighbour, direction.bandwidth_bps, direction.delay_ns)
            links.setdefault(link.ends, link)
    # In the topology's order, which decides among equally short paths.
    order = {
        ends: (index, end)
        for node in (*topology.hosts, *topology.switches)
        for neighbour, index, end in topology.ports(node).values()
        for ends in [(node, neighbour)]
    }
    virtual = platform.virtual
    return Network(
        switches=tuple(
            Switch(name, settings.aggregates, settings.capacity_bps, platform.aggregators or None)
            for name in topology.switches
            for settings in [platform.switches.of(name)]
        ),
        hosts=tuple(Host(name) for name in topology.hosts),
        links=tuple(sorted(links.values(), key=lambda link: order[link.ends])),
        host_spread_ns=2 * virtual.worker_jitter_ns if virtual else 0,
        frame_bytes=platform.longest_frame_bytes,
    )


def planned_jobs(jobs: Iterable[Job], system: str) -> tuple[PlanJob, ...]:
    """Jobs as planners see them. system: its title. Raises UserError for a job that has not exactly
    one server."""
    found = []
    for job in jobs:
        placement = job.fixed_placement
        count = len(placement.servers)
        if count != 1:
            servers = "no parameter server" if count == 0 else f"{count} parameter servers"
            raise UserError(
                f"job {job.name} has {servers} under {system}; a plan needs exactly one"
            )
        found.append(PlanJob(job.name, placement.workers, placement.ps))
    return tuple(found)
