"""Routes, trees and plans after links have failed or are up again.

The control plane computes again what depends on paths, for the links that are up at that moment:
the routes of all switches, and per job what its system needs (the hooks `reroute` below). The
result is a new Setup, from which tables are filled as at the start.

A job whose hosts have no path to each other keeps what it has, and waits. So does one that has
ended.

What sits in switch memory at that moment is treated like packets that were lost. Workers send it
again; what counts is membership by bitmap, so that nothing enters a sum twice. A switch that is no
longer on a job's tree keeps its entries for the job. So it answers the server's reminders, if it
can be reached, and hands out what it holds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from testbed.errors import UserError
from testbed.experiment.link_faults import LinkChange, named_links
from testbed.protocols.host_spec import PlannedWorker, ServerStripes
from testbed.routing.plan import JobPlan
from testbed.routing.tree import JobTree, job_tree
from testbed.setup.host_specs import grid_server_stripes, grid_worker_part
from testbed.setup.plan_entries import aggregating_switches
from testbed.setup.planning import plan_jobs
from testbed.setup.records import Communicator, JobSetup, Setup
from testbed.setup.routes import connected
from testbed.topology import Topology

MAX_TAG = 0xFFFF  # of the bits that p4/grid.p4 looks at


@dataclass(frozen=True)
class NewPart:
    """What a host is told while it runs: worker or server `number` of a job, and its new way."""

    job: int
    number: int
    part: PlannedWorker | ServerStripes


@dataclass(frozen=True)
class Rerouted:
    """One new computation of routes: the new Setup; the jobs whose entries follow from it; what
    their hosts are told; by job with a plan, its rate in bit/s from now on."""

    setup: Setup
    jobs: tuple[int, ...]
    parts: tuple[NewPart, ...]
    rates_bps: dict[int, int]


def reroute(setup: Setup, topology: Topology, ended: Collection[int] = ()) -> Rerouted:
    """Compute again for the links that are up in `topology`. ended: jobs that have."""
    going_on = tuple(
        number
        for number, job in setup.jobs.items()
        if number not in ended and connected(topology, job.group.hosts, job.group.tree)
    )
    platform = replace(setup.platform, topology=topology)
    ports_stay = platform.admission == "port"
    jobs = {
        number: _with(
            job,
            replace(
                job.group,
                topology=topology,
                ports_before=job.group.ports if ports_stay else {},
            ),
        )
        for number, job in setup.jobs.items()
    }
    moved = replace(setup, platform=platform, jobs=jobs)
    made, parts = platform.system.require("reroute")(moved, going_on)
    rates = {
        number: int(job.group.plan.rate_bps)
        for number, job in made.jobs.items()
        if number in going_on and job.group.plan is not None
    }
    return Rerouted(made, going_on, tuple(parts), rates)


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


# ---- what becomes of jobs, by system: hooks `reroute` ----
# Each takes the Setup with the new topology and the old trees and plans, and the jobs that go on.


def routes_alone(setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
    """Switches hold nothing of jobs: new routes are all that these need."""
    return setup, []


def follow_tree(setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
    """A pool: gradients meet on the new paths to the server, which reminds the switches there."""
    groups, parts = {}, []
    for number, job in setup.jobs.items():
        group = job.group
        tree = group.routed_tree
        if number in going_on:
            tree = job_tree(setup.platform.topology, group.workers, group.ps)
        group = groups[number] = _on_tree(group, tree)
        if number in going_on:
            held = {*tree.switches, *group.routed_tree.former}
            reached = tuple(int(name in held) for name in group.reminded)
            told = ServerStripes((job.fragments,), (reached,))
            parts.append(NewPart(number, len(group.workers), told))
    return _with_groups(setup, groups), parts


def leave_it_to_the_root(setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
    """SwitchML: a job whose tree has changed is aggregated by its root alone from then on.

    The root stays, since results exist only there. What a switch below it has added up would be
    wrong for other workers, and a worker that has its result would never send it again to a switch
    that begins anew. The root knows every worker by itself, so nothing is lost for good."""
    groups, topology = {}, setup.platform.topology
    for number, job in setup.jobs.items():
        group = job.group
        tree = old = group.routed_tree
        if number in going_on:
            root = old.target
            tree = job_tree(topology.only_forwarding(old.forwarding), group.workers, root)
            if replace(tree, former=old.former) != old:
                others = set(topology.switches) - {root}
                tree = job_tree(topology.only_forwarding(others), group.workers, root)
        groups[number] = _on_tree(group, tree)
    return _with_groups(setup, groups), []


def plan_again(setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
    """GRID: the same planner plans for the jobs that go on. The new plan's tags are new, so that
    packets under way, and sums that wait, keep the ways that they know."""
    plans: dict[int, JobPlan] = {}
    if going_on:
        chosen = [setup.jobs[number].job for number in going_on]
        made = plan_jobs(setup.platform, chosen, setup.first_seed)
        plans = dict(zip(going_on, made.jobs, strict=True))
    groups = {}
    for number, job in setup.jobs.items():
        old = job.group.routed_plan
        plan = _with_tags_from(plans[number], _last_tag(old)) if number in plans else old
        held = job.group.former | set(aggregating_switches(old))
        groups[number] = replace(job.group, plan=plan, former=held)
    setup = _with_groups(setup, groups)
    parts = []
    for number in going_on:
        job = setup.jobs[number]
        workers = len(job.group.workers)
        for worker in range(workers):
            parts.append(NewPart(number, worker, grid_worker_part(setup, job, worker)))
        parts.append(NewPart(number, workers, grid_server_stripes(job)))
    return setup, parts


def _with(job: JobSetup, group: Communicator) -> JobSetup:
    return replace(job, communicators=(group,))


def _with_groups(setup: Setup, groups: dict[int, Communicator]) -> Setup:
    jobs = {number: _with(setup.jobs[number], group) for number, group in groups.items()}
    return replace(setup, jobs=jobs)


def _on_tree(group: Communicator, tree: JobTree) -> Communicator:
    """The communicator with a new tree, which knows the switches of the old one."""
    old = group.routed_tree
    former = (old.former | set(old.switches)) - set(tree.switches)
    return replace(group, tree=replace(tree, former=frozenset(former)))


def _last_tag(job: JobPlan) -> int:
    tags = [each.tag for worker in job.workers for each in worker.assignments]
    return max([*tags, *(group.tag for group in job.groups)])


def _with_tags_from(job: JobPlan, last: int) -> JobPlan:
    """The same with tags that begin behind `last`. Raises UserError if there are too many."""
    made = replace(
        job,
        workers=tuple(
            replace(
                worker,
                assignments=tuple(
                    replace(each, tag=last + each.tag) for each in worker.assignments
                ),
            )
            for worker in job.workers
        ),
        groups=tuple(replace(group, tag=last + group.tag) for group in job.groups),
    )
    if _last_tag(made) > MAX_TAG:
        raise UserError(
            f"job {job.name} is planned too often: its plans together need more than {MAX_TAG}"
            " tags; let fewer links fail"
        )
    return made
