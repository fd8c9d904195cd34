"""Static reduction trees, as SHARP has them: an aggregation manager gives jobs trees and slots
before the run (testbed/routing/forest.py), and switches and hosts are SwitchML's (p4/tree.p4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed.protocols.host_spec import SlotsSpec, TreesPart
from testbed.protocols.sizes import Part
from testbed.routing.forest import planned_again
from testbed.schemes.switchml import TWO_SETS, Switchml, add_on_tree, stream_options
from testbed.setup import Communicator, Control, JobSetup, NewPart, Platform, Setup
from testbed.setup.build import terms_of
from testbed.systems.statistics import Statistics

STATISTICS = replace(TWO_SETS, owners="slot_job")


class Tree(Switchml):
    """Static trees."""

    def host_options(self, setup: Setup, job: JobSetup) -> SlotsSpec:
        """Specification whose window is the slots of all trees. Where switches may lose their
        memory, workers keep results."""
        keeps = any(each.loses_memory for each in setup.faults)
        workers_at = len(job.group.reminded) if keeps else 0
        common = self.common_options(setup, job)
        follows = stream_options(setup.platform).follows_marks
        return SlotsSpec.of(common, sets=2, workers_at=workers_at, follows_marks=follows)

    def worker_part(self, setup: Setup, job: JobSetup, worker: int) -> TreesPart:
        """The trees of the worker's slots."""
        return _part(job.group)

    def peers(self, group: Communicator, worker: int) -> tuple[str, ...]:
        """The switches that may be roots, then the workers."""
        return (*group.reminded, *group.workers)

    def definitions(self, platform: Platform) -> dict[str, int]:
        """None: all trees have two sets per slot."""
        return {}

    def job_tables(
        self, platform: Platform, switch: str, job: JobSetup, calls: list[tuple]
    ) -> None:
        """Entries of a switch for each tree of a job. Packets of trees that are no longer add
        nothing."""
        trees = job.group.trees
        for tree in trees:
            for former in range(tree.number % len(trees), tree.number, len(trees)):
                keys = [job.group.number, former]
                calls.append(("table_add", "job", "do_not_aggregate", keys, []))
            if (part := tree.part(switch)) is not None:
                add_on_tree(platform, switch, job, tree.shape, part, calls, tree.number)

    def parts(self, job: JobSetup, switch: str) -> tuple[Part, ...]:
        """The job's parts of a switch's memory, one for each tree there."""
        found = (tree.part(switch) for tree in job.group.trees)
        return tuple(part for part in found if part is not None)

    def statistics(self, platform: Platform) -> Statistics:
        return STATISTICS

    def reroute(self, setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
        """Trees that have lost a link are planned again. Workers send what is in flight to the new
        ones, whose memory is empty. A result that some workers have and others lost is asked for
        among the workers."""
        platform = setup.platform
        assert platform.forest is not None
        forest = planned_again(platform.topology, platform.forest, going_on, terms_of(platform))
        groups, parts = {}, []
        for number, job in setup.jobs.items():
            group = job.group
            if job.refused or number not in going_on:
                groups[number] = group
                continue
            groups[number] = group = replace(group, trees=forest.trees[number])
            if group.trees != job.group.trees:
                workers = range(len(group.workers))
                parts += [NewPart(number, worker, _part(group)) for worker in workers]
        changed = replace(setup, platform=replace(platform, forest=forest))
        return changed.with_groups(groups), parts

    def forget(self, before: JobSetup, after: JobSetup, switch: str, client: Control) -> None:
        """Empty the slots of trees that are new at a switch: they may hold sums of other trees."""
        for tree in after.group.trees:
            part = tree.part(switch)
            if part is not None and tree not in before.group.trees:
                self._clear(after.platform, after.number, part, client, again=True)


def _part(group: Communicator) -> TreesPart:
    return TreesPart(
        numbers=tuple(tree.number for tree in group.trees),
        slots=tuple(tree.slots for tree in group.trees),
        roots=tuple(group.reminded.index(tree.shape.target) for tree in group.trees),
    )


SCHEME = Tree()
