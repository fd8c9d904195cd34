"""Connections between a job's hosts, and the trees that failures of links leave to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from p4fabric.base.topology import Topology

from testbed.routing.job_tree import JobTree, job_tree

if TYPE_CHECKING:
    from testbed.experiment.planned_faults import LinkChange


def connected(topology: Topology, hosts: Sequence[str], tree: JobTree | None = None) -> bool:
    """True if hosts have paths to each other, or to the root of `tree` if that is a switch."""
    start = hosts[0]
    if tree is not None and not topology.is_host(tree.target):
        start = tree.target
    seen, queue = {start}, deque([start])
    while queue:
        for neighbour, _, _ in topology.ports(queue.popleft()).values():
            if neighbour in seen:
                continue
            seen.add(neighbour)
            if not topology.is_host(neighbour):
                queue.append(neighbour)
    return seen.issuperset(hosts)


def planned_topologies(whole: Topology, changes: Sequence[LinkChange]) -> list[Topology]:
    """The networks for which routes are computed during a run, each once, the whole one first."""
    found = [frozenset[int]()]
    for moment in changes:
        down: frozenset[int] = frozenset()
        for change in changes:
            if change.at_ns <= moment.followed_ns:
                down = down - change.links if change.up else down | change.links
        found.append(down)
    return [whole.failing(whole.failed | down) for down in dict.fromkeys(found)]


def tree_switches(
    tree: JobTree, workers: tuple[str, ...], server: str, later: Iterable[Topology]
) -> tuple[str, ...]:
    """The switches that aggregate for a job with a server at any time of a run, those of its first
    tree first. later: the networks that links leave behind when they fail."""
    found = dict.fromkeys(tree.switches)
    for topology in later:
        if connected(topology, (*workers, server)):
            found |= dict.fromkeys(job_tree(topology, workers, server).switches)
    return tuple(found)
