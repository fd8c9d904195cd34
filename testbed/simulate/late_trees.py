"""Jobs of a list that start when others may have ended, with static trees in virtual time.

The manager of trees knows from the file who runs when a job starts only if nobody has ended by
then. So a job that found a switch taken is asked about again at its start: what a job held is free
when it has ended (testbed/routing/forest.py). If the job gets a tree now, its hosts and the
switches' tables change at that instant, before it has sent anything.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from testbed.dataplane.switch_entries import SwitchEntries
from testbed.routing.forest import without
from testbed.setup.build import forest_of, start_job, terms_of
from testbed.setup.host_specs import job_specs
from testbed.simulate.event_queue import NEVER

if TYPE_CHECKING:
    from testbed.setup import Setup
    from testbed.simulate.world import Nodes


def late_jobs(setup: Setup) -> list[int]:
    """Jobs without a tree that start later than the run, by their starts. Not where trees share a
    switch equally, which takes all of them into account, nor jobs with groups of ranks."""
    platform = setup.platform
    if not platform.system.managed or platform.arrivals or platform.links_fail:
        return []
    terms = terms_of(platform)
    found = [
        number
        for number, job in setup.jobs.items()
        if job.refused and job.job.start_ns > 0 and not job.job.has_ranks
        if terms.exclusive or terms.quota
    ]
    return sorted(found, key=lambda number: setup.jobs[number].job.start_ns)


class LateTrees:
    """The jobs that are asked about again."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._waiting = late_jobs(nodes.setup)
        names = nodes.switches if self._waiting else ()
        self._entries = {name: SwitchEntries(nodes.setup, name) for name in names}

    def next_ns(self) -> int:
        """The last ns before the next such job starts; NEVER: there is none."""
        if not self._waiting:
            return NEVER
        return self._nodes.setup.jobs[self._waiting[0]].job.start_ns - 1

    def tick(self, now_ns: int, ended: Collection[int]) -> None:
        """Ask for the jobs that start after `now_ns`. ended: jobs that have."""
        while self.next_ns() <= now_ns:
            self._ask(self._waiting.pop(0), now_ns, ended)

    def _ask(self, number: int, now_ns: int, ended: Collection[int]) -> None:
        setup = self._nodes.setup
        forest, before = setup.platform.forest, setup.jobs[number]
        assert forest is not None
        for each in (*ended, number):
            forest = without(forest, each)
        forest = forest_of(setup.platform, {number: before.job}, forest)
        if number in forest.refused:
            return
        setup = replace(setup, platform=replace(setup.platform, forest=forest))
        job = start_job(setup, number, before.job, number)
        self._nodes.setup = setup = replace(setup, jobs={**setup.jobs, number: job})
        for name, switch in self._nodes.switches.items():
            self._entries[name].follow(setup, [number], switch)
            job.platform.scheme.forget(before, job, name, switch)
        present = self._nodes.present
        hosts = [host for host, node in present if node.spec.job.number == number]
        for host in hosts:
            self._nodes.leave(host)
        self._nodes.enter(job_specs(setup, job), hosts, now_ns)
