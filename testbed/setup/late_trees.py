"""Jobs of a list that start when others may have ended, with static trees.

The manager of trees (testbed/routing/forest.py) knows from the file who runs when a job starts only
if nobody has ended by then. So while a run goes on it is asked again about each such job, right
before its start: what a job held is free when it has ended. testbed/dataplane/failover.py asks, and
changes the switches' tables and the job's hosts before these have sent anything.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from p4fabric.base.errors import UserError

from testbed.routing.forest import without
from testbed.setup.build import forest_of, groups_of, start_job, terms_of, why_held
from testbed.setup.job_setups import JobSetup, Setup

# On a real clock: for switches and host processes to be told before the job starts.
LEAD_NS = 200_000_000


def late_jobs(setup: Setup) -> dict[int, int]:
    """The jobs about which the manager is asked again: those without a tree, and, where switches
    are shared equally, all; with the time for it, in ns from the run's start."""
    platform = setup.platform
    if not platform.system.managed or platform.arrivals or why_held(platform, setup.listed):
        return {}
    lead_ns = LEAD_NS if platform.virtual is None else 1
    shared = terms_of(platform).equal_shares
    return {
        number: job.job.start_ns - lead_ns
        for number, job in setup.jobs.items()
        if job.job.start_ns > lead_ns and (job.refused or shared)
    }


def asked_again(setup: Setup, number: int, ended: Collection[int]) -> Setup:
    """The Setup with what the manager has for a job that is about to start. ended: jobs that have,
    and hold nothing more. A job that has trees gets others only if they have more slots."""
    forest, before = setup.platform.forest, setup.jobs[number]
    assert forest is not None
    for each in ended:
        forest = without(forest, each)
    kept = replace(setup, platform=replace(setup.platform, forest=forest))
    try:
        forest = forest_of(setup.platform, {number: before.job}, without(forest, number))
    except UserError:  # links have failed, and its hosts do not reach each other
        return kept
    made = replace(setup, platform=replace(setup.platform, forest=forest))
    job = start_job(made, number, before.job, number, changes=setup.link_changes)
    if not before.refused and job.window <= before.window:
        return kept
    made = replace(made, jobs={**setup.jobs, number: job})
    return replace(made, groups={**setup.groups, **groups_of(made, [number])})


def communicators_of(setup: Setup, number: int) -> list[JobSetup]:
    """A job, and the groups of its ranks."""
    groups = (each for each in setup.groups.values() if each.ranks and each.ranks.job == number)
    return [setup.jobs[number], *groups]


def with_job(setup: Setup, number: int, made: Setup) -> Setup:
    """The Setup with a job and its groups as they are in `made`."""
    jobs = {**setup.jobs, number: made.jobs[number]}
    return replace(setup, jobs=jobs, groups=made.groups)
