"""The entries that a plan makes in the tables of switches and hosts.

A plan has nodes, paths and shares. A switch needs, for each tag, the next node and the workers that
it waits for. A worker needs the switch and the tag of each of its fragments. A server needs the
switches to which it sends the reminders of a fragment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np
from p4fabric.base.topology import Topology

from testbed.protocols.host_spec import ServerStripes, WorkerStripes
from testbed.protocols.sizes import NO_NODE
from testbed.routing.plan import Group, JobPlan, Range, WorkerPlan


def next_nodes_by_tag(job: JobPlan) -> dict[tuple[str, int], str]:
    """{(switch, tag): the node to which packets with this tag go on}."""
    onwards: dict[tuple[str, int], str] = {}
    paths = [(each.tag, each.path[1:]) for worker in job.workers for each in worker.assignments]
    ways = {group.number: group.path for group in job.groups}
    for group in job.groups:
        # A part of a sum does not join the parent; it passes on over the same way.
        beyond = ways[group.parent][1:] if group.parent else ()
        paths.append((group.tag, (*group.path, *beyond)))
    for tag, path in paths:
        for switch, following in zip(path, path[1:], strict=False):
            if onwards.setdefault((switch, tag), following) != following:
                raise AssertionError(f"tag {tag} of job {job.name} leaves {switch} on two links")
    return onwards


def aggregating_switches(job: JobPlan) -> tuple[str, ...]:
    """The switches that aggregate for a job, each once."""
    return tuple(dict.fromkeys(group.node for group in job.groups))


def groups_by_tag(job: JobPlan, switch: str) -> Iterator[tuple[int, Group]]:
    """(tag, the group of the fragments that arrive with it) for all groups of a switch."""
    groups = {group.number: group for group in job.groups if group.node == switch}
    arriving = {
        (each.tag, each.group)
        for worker in job.workers
        for each in worker.assignments
        if each.group in groups
    }
    arriving |= {(each.tag, each.parent) for each in job.groups if each.parent in groups}
    for tag, number in sorted(arriving):
        yield tag, groups[number]


def max_lead_packets(first: np.ndarray, share: Range) -> int:
    """The largest lead in packets: the most packets of a share that a worker can have sent, over
    any part of an iteration, beyond the share times all its packets. A share's packets are spread
    over the iteration as evenly as whole packets allow (testbed.protocols.stripes), so the lead is
    small but not 0.

    first: int64[T + 1], see testbed.protocols.sizes.fragments_of. Tensors go from last to first."""
    from testbed.protocols.stripes import stride  # and with it the compiler of the hosts

    fragments = int(first[-1])
    ranks = share.fragments(fragments)
    numbers = np.arange(ranks.start, ranks.stop) * pow(stride(fragments), -1, fragments) % fragments
    tensors = np.searchsorted(first, numbers, side="right") - 1
    places = np.sort(numbers - first[tensors] + fragments - first[tensors + 1])
    # In units of 2^-32 packets: the share's packets so far, minus the share of all packets so far.
    lead = (np.arange(places.size) << 32) - places * int(share.share * 2**32)
    return -(-int((lead - np.minimum.accumulate(lead)).max(initial=0)) >> 32)


def worker_stripes(worker: WorkerPlan, topology: Topology, fragments: int) -> WorkerStripes:
    """A worker's share of the fragments for each of its paths."""
    ends: list[int] = []
    nodes: list[int] = []
    tags: list[int] = []
    for each in worker.assignments:
        end = ceil(each.range.end * fragments)
        if end > (ends[-1] if ends else 0):
            ends.append(end)
            nodes.append(topology.number(each.node) if each.group else NO_NODE)
            tags.append(each.tag)
    return WorkerStripes(tuple(ends), tuple(nodes), tuple(tags))


def server_stripes(job: JobPlan, fragments: int, switches: Sequence[str]) -> ServerStripes:
    """Stripes of the plan with those of `switches` that may hold their fragments."""
    ranks = {group.number: group.range.fragments(fragments) for group in job.groups}
    bounds = {bound for each in ranks.values() for bound in (each.start, each.stop)}
    ends = sorted((bounds | {fragments}) - {0})
    starts = [0, *ends[:-1]]
    reached = tuple(
        tuple(
            int(any(group.node == node and start in ranks[group.number] for group in job.groups))
            for node in switches
        )
        for start in starts
    )
    return ServerStripes(tuple(ends), reached)
