"""Check a planner's input, so that planners can rely on it. Mistakes are the user's to correct."""

from __future__ import annotations

from collections.abc import Sequence

from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed.routing.network import Network, PlanJob
from testbed.routing.plan import Plan
from testbed.routing.planner_options import RESULTS, Options


def check_options(options: Options) -> None:
    """Raises UserError for the first option that makes no sense."""
    if options.results not in RESULTS:
        found = f"found results {options.results!r}"
        hint = did_you_mean(options.results, RESULTS)
        raise UserError(sentence(found, f"allowed: {', '.join(RESULTS)}", hint))
    if options.roundings < 1:
        raise UserError(f"found {options.roundings} roundings; allowed: from 1")
    if options.paths is not None and options.paths < 1:
        raise UserError(f"found {options.paths} paths; allowed: from 1")


def check_input(network: Network, jobs: Sequence[PlanJob]) -> None:
    """Raises UserError, one line, for the first thing that is wrong."""
    for link in network.links:
        if link.capacity_bps is not None and link.capacity_bps <= 0:
            raise UserError(
                f"link {link.source} -> {link.target} has a capacity of {link.capacity_bps} bit/s;"
                " allowed: above 0 (a link that is out of order is marked as failed)"
            )
        if link.source in network.host and link.target in network.host:
            raise UserError(
                f"link {link.source} -> {link.target} is between hosts; allowed: from or to a"
                " switch"
            )
    for switch in network.switches:
        if not switch.aggregates:
            continue
        if switch.aggregation_bps is not None and switch.aggregation_bps <= 0:
            raise UserError(
                f"switch {switch.name} has an aggregation capacity of {switch.aggregation_bps}"
                " bit/s; allowed: above 0, or none for a switch that does not aggregate"
            )
        if switch.slots is not None and switch.slots < 0:
            raise UserError(f"switch {switch.name} has {switch.slots} slots; allowed: from 0")
    for host in network.hosts:
        if host.ingress_bps is not None and host.ingress_bps <= 0:
            raise UserError(
                f"host {host.name} has an ingress of {host.ingress_bps} bit/s; allowed: above 0"
            )
    if not jobs:
        raise UserError("there is no job to plan for; name the workers and the parameter server")
    for number, job in enumerate(jobs):
        _check_job(network, job)
        if job.name in [other.name for other in jobs[:number]]:
            raise UserError(f"two jobs are called {job.name}; rename one of them")


def _check_job(network: Network, job: PlanJob) -> None:
    if not job.workers:
        raise UserError(f"job {job.name} has no workers")
    for role, name in (
        *(("worker", worker) for worker in job.workers),
        ("parameter server", job.ps),
    ):
        if name not in network.host:
            known = "is a switch; allowed: a host" if name in network.switch else "is not there"
            raise UserError(f"job {job.name}: its {role} {name} {known}")
    if job.ps in job.workers:
        raise UserError(f"job {job.name}: {job.ps} is worker and parameter server; take two hosts")
    if len(set(job.workers)) < len(job.workers):
        twice = next(name for name in job.workers if job.workers.count(name) > 1)
        raise UserError(f"job {job.name}: worker {twice} is named twice")
    if job.max_rate_bps is not None and job.max_rate_bps <= 0:
        raise UserError(
            f"job {job.name}: its largest rate is {job.max_rate_bps} bit/s; allowed: above 0"
        )


def check_memory(plan: Plan) -> None:
    """Raises UserError if a switch has fewer aggregators than a plan needs."""
    for name, load in plan.switches.items():
        if load.slots_available is not None and load.slots > load.slots_available:
            raise UserError(
                f"switch {name}: the {plan.planner} plan keeps {load.slots} aggregators in use"
                f" there, and its memory holds {load.slots_available}; give it more slots, or"
                " switch its aggregation off"
            )
