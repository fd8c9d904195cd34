"""Routes, trees and plans after links have failed or are up again.

The control plane computes again what depends on paths, for the links that are up at that moment:
the routes of all switches, and per job what its system needs (the hooks `reroute` below). The
result is a *view*: the experiment with other paths, from which tables are filled as at the start.

A job whose hosts have no path to each other keeps what it has, and waits. So does one that has
ended.

What sits in switch memory at that moment is treated like packets that were lost. Workers send it
again; what counts is membership by bitmap, so that nothing enters a sum twice. A switch that is no
longer on a job's tree keeps its entries for the job. So it answers the server's reminders, if it
can be reached, and hands out what it holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from testbed.derived import plan_entries
from testbed.derived.host_specs import grid_server_stripes, grid_worker_part
from testbed.derived.job_ports import keep_ports
from testbed.derived.job_trees import root_of_job, tree_of_job
from testbed.derived.planned_views import connected, tree_switches
from testbed.derived.system_options import options_of
from testbed.errors import UserError
from testbed.experiment.link_faults import LinkChange, named_links
from testbed.protocols.host_spec import PlannedWorker, ServerStripes
from testbed.routing.plan import JobPlan, Plan
from testbed.routing.tree import JobTree, job_tree
from testbed.systems.options import GridOptions
from testbed.topology import Topology

if TYPE_CHECKING:
    from testbed.experiment import Experiment

MAX_TAG = 0xFFFF  # of the bits that p4/grid.p4 looks at


@dataclass(frozen=True)
class NewPart:
    """What a host is told while it runs: worker or server `number` of a job, and its new way."""

    job: int
    number: int
    part: PlannedWorker | ServerStripes


@dataclass(frozen=True)
class Rerouted:
    """One new computation of routes: the view; the jobs whose entries follow from it; what their
    hosts are told; by job with a plan, its rate in bit/s from now on."""

    view: Experiment
    jobs: tuple[int, ...]
    parts: tuple[NewPart, ...]
    rates_bps: dict[int, int]


class Rerouting:
    """The links of an experiment while it runs, and its routes.

    `down`: the planned failures that hold now. `view`: the experiment with the routes that switches
    have now."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.view = experiment
        self.down: frozenset[int] = frozenset()

    def change(self, change: LinkChange) -> None:
        """Links go down or come up."""
        self.down = self.down - change.links if change.up else self.down | change.links

    @property
    def topology(self) -> Topology:
        """The network with the links that are up now."""
        whole = self.experiment.topology_object()
        return whole.failing(whole.failed | self.down) if self.down else whole

    def cut_off(self, number: int) -> str:
        """The links without which a job's hosts have no path to each other, in words; "" if they
        have one."""
        if not self.down or connected(self.experiment, number, self.topology):
            return ""
        whole = self.experiment.topology_object()
        alone = [
            link
            for link in sorted(self.down)
            if connected(
                self.experiment, number, whole.failing(whole.failed | (self.down - {link}))
            )
        ]
        return named_links(whole, alone or self.down)

    def reroute(self, ended: Collection[int] = ()) -> Rerouted:
        """Compute again for the links that are up now. ended: jobs that have."""
        before, topology = self.view, self.topology
        view = self.experiment.with_topology(topology)
        view.derived(plan_entries.UNDISTURBED, lambda: self.experiment)
        jobs = tuple(
            number
            for number, _ in self.experiment.placed_jobs
            if number not in ended and connected(self.experiment, number, topology)
        )
        if view.admission == "port":
            for number, _ in self.experiment.placed_jobs:
                keep_ports(view, before, number)
        parts = self.experiment.system_entry.require("reroute")(view, before, jobs)
        self.view = view
        rates = {}
        if self.experiment.system_entry.planned:
            planned = plan_entries.plan_of(view).jobs
            rates = {number: int(planned[number].rate_bps) for number in jobs}
        return Rerouted(view, jobs, tuple(parts), rates)


# ---- what becomes of jobs, by system: hooks `reroute` ----


def routes_alone(view: Experiment, before: Experiment, jobs: Sequence[int]) -> Iterable[NewPart]:
    """Switches hold nothing of jobs: new routes are all that these need."""
    return ()


def follow_tree(view: Experiment, before: Experiment, jobs: Sequence[int]) -> Iterable[NewPart]:
    """A pool: gradients meet on the new paths to the server, which reminds the switches there."""
    parts = []
    for number, _ in view.placed_jobs:
        old = tree_of_job(before, number)
        tree = old
        if number in jobs:
            placement = view.jobs[number].fixed_placement
            tree = job_tree(view.topology_object(), placement.workers, placement.ps)
        tree = _set_tree(view, number, tree, old)
        if number in jobs:
            reminded = tree_switches(plan_entries.undisturbed(view), number)
            held = {*tree.switches, *tree.former}
            reached = tuple(int(name in held) for name in reminded)
            told = ServerStripes((view.fragments(number),), (reached,))
            parts.append(NewPart(number, view.jobs[number].workers, told))
    return parts


def leave_it_to_the_root(
    view: Experiment, before: Experiment, jobs: Sequence[int]
) -> Iterable[NewPart]:
    """SwitchML: a job whose tree has changed is aggregated by its root alone from then on.

    The root stays, since results exist only there. What a switch below it has added up would be
    wrong for other workers, and a worker that has its result would never send it again to a switch
    that begins anew. The root knows every worker by itself, so nothing is lost for good."""
    for number, _ in view.placed_jobs:
        old, root = tree_of_job(before, number), root_of_job(before, number)
        _set_root(view, number, root)
        tree = old
        if number in jobs:
            topology, workers = view.topology_object(), view.jobs[number].fixed_placement.workers
            tree = job_tree(topology.only_forwarding(old.forwarding), workers, root)
            if replace(tree, former=old.former) != old:
                others = set(topology.switches) - {root}
                tree = job_tree(topology.only_forwarding(others), workers, root)
        _set_tree(view, number, tree, old)
    return ()


def plan_again(view: Experiment, before: Experiment, jobs: Sequence[int]) -> Iterable[NewPart]:
    """GRID: the same planner plans for the jobs that go on. The new plan's tags are new, so that
    packets under way, and sums that wait, keep the ways that they know."""
    old = plan_entries.plan_of(before)
    parts = list(old.jobs)
    plan = old
    if jobs:
        plan = _planned_again(view, jobs)
        for number, part in zip(jobs, plan.jobs, strict=True):
            parts[number] = _with_tags_from(part, _last_tag(old.jobs[number]))
    plan_entries.set_plan(view, replace(plan, jobs=tuple(parts)))
    for number, _ in view.placed_jobs:
        held = plan_entries.former_switches(before, number)
        held |= set(plan_entries.aggregating_switches(old.jobs[number]))
        plan_entries.set_former_switches(view, number, held)
    found = []
    for number in jobs:
        workers = view.jobs[number].workers
        for worker in range(workers):
            found.append(NewPart(number, worker, grid_worker_part(view, number, worker)))
        found.append(NewPart(number, workers, grid_server_stripes(view, number)))
    return found


def _planned_again(view: Experiment, jobs: Sequence[int]) -> Plan:
    """The plan for some jobs and the links of a view, made once for each set of links and jobs."""
    # Imported here: only experiments with a plan need the planners' libraries.
    from testbed.derived.plan_input import of_experiment
    from testbed.routing.planners import make_plan

    def make() -> Plan:
        options = options_of(view, GridOptions)
        network, all_jobs = of_experiment(view)
        chosen = [all_jobs[number] for number in jobs]
        return make_plan(network, chosen, options.planner, view.seed, **options.plan_options)

    key = ("planned again", view.topology_object().failed, tuple(jobs))
    return plan_entries.undisturbed(view).derived(key, make)


def _set_root(view: Experiment, number: int, root: str) -> None:
    view.derived(("root", number), lambda: root)


def _set_tree(view: Experiment, number: int, tree: JobTree, old: JobTree) -> JobTree:
    former = (old.former | set(old.switches)) - set(tree.switches)
    made = replace(tree, former=frozenset(former))
    return view.derived(("tree", number), lambda: made)


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
