"""What a plan means for the switches and hosts of an experiment.

A plan speaks of nodes, paths and shares. Switches want to know, of each tag that passes them, where
it goes on and whom they wait for; workers, which of their fragments name which switch; a server,
which switches it has to remind of a fragment.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from testbed.derived.system_options import options_of
from testbed.protocols.host_spec import ServerStripes, WorkerStripes
from testbed.protocols.sizes import NOBODY
from testbed.routing.plan import Group, JobPlan, Plan, Range, WorkerPlan
from testbed.systems.options import GridOptions
from testbed.topology import Topology

if TYPE_CHECKING:
    from testbed.experiment import Experiment


def plan_of(experiment: Experiment) -> Plan:
    """The plan that an experiment's switches and hosts follow, made once: by the planner that it
    names, with the first repetition's seed for all.

    Raises UserError if there is none."""
    # The planners' libraries are for those who plan.
    from testbed.derived.plan_input import of_experiment
    from testbed.routing.planners import make_plan

    planner = options_of(experiment, GridOptions).planner
    return experiment.derived(
        ("plan", planner),
        lambda: make_plan(*of_experiment(experiment), planner, experiment.seed),
    )


def steering(job: JobPlan) -> dict[tuple[str, int], str]:
    """{(switch, tag): the node to which packets with this tag go on}."""
    onwards: dict[tuple[str, int], str] = {}
    ways = [(each.tag, each.path[1:]) for worker in job.workers for each in worker.assignments]
    ways += [(group.tag, group.path) for group in job.groups]
    for tag, path in ways:
        for switch, following in zip(path, path[1:], strict=False):
            if onwards.setdefault((switch, tag), following) != following:
                raise AssertionError(f"tag {tag} of job {job.name} leaves {switch} on two ways")
    return onwards


def aggregating(job: JobPlan) -> tuple[str, ...]:
    """The switches that aggregate for a job, each once."""
    return tuple(dict.fromkeys(group.node for group in job.groups))


def meetings(job: JobPlan, switch: str) -> Iterator[tuple[int, Group]]:
    """(tag, the group of the fragments that arrive with it) of all that a switch aggregates."""
    groups = {group.number: group for group in job.groups if group.node == switch}
    arriving = {
        (each.tag, each.group)
        for worker in job.workers
        for each in worker.assignments
        if each.group in groups
    }
    for tag, number in sorted(arriving):
        yield tag, groups[number]


def most_ahead(first: np.ndarray, share: Range) -> int:
    """Packets by which what a worker sends of a share is at most ahead of that share of its pace,
    over any time of an iteration: a share is spread over the others as evenly as its packets allow
    (testbed.protocols.stripes), and no more.

    first: int64[T + 1], see testbed.protocols.sizes.fragments_of. Tensors go from last to first."""
    from testbed.protocols.stripes import stride  # and with it the compiler of the hosts

    fragments = int(first[-1])
    ranks = share.fragments(fragments)
    numbers = np.arange(ranks.start, ranks.stop) * pow(stride(fragments), -1, fragments) % fragments
    tensors = np.searchsorted(first, numbers, side="right") - 1
    places = np.sort(numbers - first[tensors] + fragments - first[tensors + 1])
    # In units of 2^-32 packets: how many of the share have come, less what its pace is by then.
    lead = (np.arange(places.size) << 32) - places * int(share.share * 2**32)
    return -(-int((lead - np.minimum.accumulate(lead)).max(initial=0)) >> 32)


def worker_stripes(worker: WorkerPlan, topology: Topology, fragments: int) -> WorkerStripes:
    """A worker's share of the fragments for each of its ways."""
    ends: list[int] = []
    nodes: list[int] = []
    tags: list[int] = []
    for each in worker.assignments:
        end = ceil(each.range.end * fragments)
        if end > (ends[-1] if ends else 0):
            ends.append(end)
            nodes.append(topology.number(each.node) if each.group else NOBODY)
            tags.append(each.tag)
    return WorkerStripes(tuple(ends), tuple(nodes), tuple(tags))


def server_stripes(job: JobPlan, fragments: int) -> ServerStripes:
    """Which of `aggregating(job)` a fragment may be held by."""
    ranks = {group.number: group.range.fragments(fragments) for group in job.groups}
    bounds = {bound for each in ranks.values() for bound in (each.start, each.stop)}
    ends = sorted((bounds | {fragments}) - {0})
    starts = [0, *ends[:-1]]
    reached = tuple(
        tuple(
            int(any(group.node == node and start in ranks[group.number] for group in job.groups))
            for node in aggregating(job)
        )
        for start in starts
    )
    return ServerStripes(tuple(ends), reached)
