"""Routes, trees and plans after links have failed or are up again.

The control plane computes again what depends on paths, for the links that are up at that moment:
the routes of all switches, and per job what its system needs (`Scheme.reroute`). The
result is a new Setup, from which tables are filled as at the start.

A job whose hosts have no path to each other keeps what it has, and waits. So does one that has
ended.

What sits in switch memory at that moment is treated like packets that were lost. Workers send it
again; what counts is membership by bitmap, so that nothing enters a sum twice. A switch that is no
longer on a job's tree keeps its entries for the job. So it answers the server's reminders, if it
can be reached, and hands out what it holds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from p4fabric.base.topology import Topology

from testbed.experiment.planned_faults import LinkChange, named_links
from testbed.setup.job_setups import NewPart, Setup
from testbed.setup.routes import connected


@dataclass(frozen=True)
class Rerouted:
    """One new computation of routes: the new Setup; the jobs whose entries follow from it; what
    their hosts are told; by job with a plan, its rate in bit/s from now on; by job with new trees,
    their roots."""

    setup: Setup
    jobs: tuple[int, ...]
    parts: tuple[NewPart, ...]
    rates_bps: dict[int, int]
    roots: dict[int, str]


def reroute(setup: Setup, topology: Topology, ended: Collection[int] = ()) -> Rerouted:
    """Compute again for the links that are up in `topology`. ended: jobs that have."""
    going_on = tuple(
        number
        for number, job in setup.jobs.items()
        if number not in ended and connected(topology, job.group.hosts, job.group.tree)
    )
    platform = replace(setup.platform, topology=topology)
    groups = {}
    for number, job in setup.jobs.items():
        before = job.group.ports if platform.admission == "port" else {}
        groups[number] = replace(job.group, topology=topology, ports_before=before)
    moved = replace(setup, platform=platform).with_groups(groups)
    made, parts = platform.scheme.reroute(moved, going_on)
    rates = {
        number: int(job.group.plan.rate_bps)
        for number, job in made.jobs.items()
        if number in going_on and job.group.plan is not None
    }
    roots = {
        number: made.jobs[number].group.tree_roots
        for number in going_on
        if made.jobs[number].group.trees != setup.jobs[number].group.trees
    }
    return Rerouted(made, going_on, tuple(parts), rates, roots)


class Rerouting:
    """The links of a run, and its routes. `down`: the planned failures that hold now. `setup`: with
    the routes that switches have now."""

    def __init__(self, setup: Setup) -> None:
        self._whole = setup.platform.topology
        self.setup = setup
        self.down: frozenset[int] = frozenset()

    def change(self, change: LinkChange) -> None:
        """Links go down or come up."""
        self.down = self.down - change.links if change.up else self.down | change.links

    @property
    def topology(self) -> Topology:
        """The network with the links that are up now."""
        return self._without(self.down)

    def _without(self, links: frozenset[int]) -> Topology:
        return self._whole.failing(self._whole.failed | links) if links else self._whole

    def cut_off(self, number: int) -> str:
        """The links without which a job's hosts have no path to each other, in words; "" if they
        have one."""
        group = self.setup.jobs[number].group
        if not self.down or connected(self.topology, group.hosts, group.tree):
            return ""
        alone = [
            link
            for link in sorted(self.down)
            if connected(self._without(self.down - {link}), group.hosts, group.tree)
        ]
        return named_links(self._whole, alone or self.down)

    def reroute(self, ended: Collection[int] = ()) -> Rerouted:
        """Compute again for the links that are up now. ended: jobs that have."""
        made = reroute(self.setup, self.topology, ended)
        self.setup = made.setup
        return made
