"""The networks that links leave behind when they fail, as planned: all are known before a run."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from testbed.derived.job_trees import root_of_job, tree_of_job
from testbed.experiment.link_faults import link_changes
from testbed.routing.tree import job_tree
from testbed.topology import Topology

if TYPE_CHECKING:
    from testbed.experiment import Experiment


def connected(experiment: Experiment, number: int, topology: Topology) -> bool:
    """Whether the hosts of a job have paths to each other (SwitchML: to its root)."""
    placement = experiment.jobs[number].fixed_placement
    hosts = (*placement.workers, *placement.servers)
    start = hosts[0]
    if not placement.servers and experiment.system_entry.memory:
        start = root_of_job(experiment, number)
    seen, queue = {start}, deque([start])
    while queue:
        for neighbour, _, _ in topology.ports(queue.popleft()).values():
            if neighbour in seen:
                continue
            seen.add(neighbour)
            if not topology.is_host(neighbour):
                queue.append(neighbour)
    return seen.issuperset(hosts)


def planned_topologies(experiment: Experiment) -> list[Topology]:
    """The networks for which routes are computed during a run, each once, the whole one first."""
    whole, changes = experiment.topology_object(), link_changes(experiment)
    found = [frozenset[int]()]
    for moment in changes:
        down: frozenset[int] = frozenset()
        for change in changes:
            if change.at_ns <= moment.followed_ns:
                down = down - change.links if change.up else down | change.links
        found.append(down)
    return [whole.failing(whole.failed | down) for down in dict.fromkeys(found)]


def tree_switches(experiment: Experiment, number: int) -> tuple[str, ...]:
    """The switches that aggregate for a job with a server at any time of a run, those of its first
    tree first."""
    placement = experiment.jobs[number].fixed_placement
    found = dict.fromkeys(tree_of_job(experiment, number).switches)
    for topology in planned_topologies(experiment)[1:]:
        if connected(experiment, number, topology):
            tree = job_tree(topology, placement.workers, placement.ps)
            found |= dict.fromkeys(tree.switches)
    return tuple(found)
