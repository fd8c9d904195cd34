"""The paths of sums that are not pinned to one tree.

A sum needs its packets to meet. There are two ways to use several paths all the same:

- *per root*: a tree along each of the equal paths, and a fragment's number says which of them its
  packets take, in every switch. So they meet, each root has its share of the fragments, and
  results come back along the fragment's own tree.
- *unpinned*: each packet may take any shortest path to the server. Every switch on one adds up what
  comes; a sum is complete where all workers below have met by chance, and the server pulls the
  rest out of the switches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from p4fabric.base.hops import equal_hops, hops_towards, switch_of
from p4fabric.base.topology import Topology

from testbed.routing.job_tree import JobTree, job_tree

MOST_ROOTS = 64


@dataclass(frozen=True, eq=False)
class SumPaths:
    """Paths of a job's sums.

    `trees`: those of results; if the sums go by their fragments, one for each path, else one.
    `below`: the workers whose gradients may pass a switch. `up`: port and next node of each path
    from a switch; if the sums go by their fragments, the n-th is that of the n-th tree."""

    by_fragment: bool
    trees: tuple[JobTree, ...]
    below: Mapping[str, tuple[int, ...]]
    up: Mapping[str, tuple[tuple[int, str], ...]]

    @property
    def aggregating(self) -> tuple[str, ...]:
        """The switches that add up."""
        return tuple(name for name in self.below if name not in self.trees[0].forwarding)


def per_root(
    topology: Topology, workers: tuple[str, ...], server: str, most: int = MOST_ROOTS
) -> SumPaths:
    """A tree on each of the equal paths from workers to their server, at most so many. A tree in
    which a switch has other workers below it than in an earlier one is left out, since a switch
    knows one set of workers that makes a sum complete."""
    first = topology.local_rank(workers[0])
    trees = [job_tree(topology, workers, server)]
    below = dict(trees[0].below)
    paths = max(len(equal_hops(topology, switch, server)) for switch in below)
    for rail in range(first + 1, first + min(paths, most)):
        tree = job_tree(topology, workers, server, rail)
        agrees = all(below.get(name, has) == has for name, has in tree.below.items())
        if agrees and all(tree.parent != other.parent for other in trees):
            trees.append(tree)
            below |= tree.below
    up = {
        name: tuple(
            next(tree.parent[name] for tree in (own, *trees) if name in tree.parent)
            for own in trees
        )
        for name in below
    }
    return SumPaths(True, tuple(trees), below, up)


def unpinned(topology: Topology, workers: tuple[str, ...], server: str) -> SumPaths:
    """Every shortest path from the workers to their server. Raises UserError if a worker has
    none."""
    tree = job_tree(topology, workers, server)
    below: dict[str, list[int]] = {}
    for number, worker in enumerate(workers):
        ways = hops_towards(topology, [switch_of(topology, worker)], server, True)
        for switch in {switch for switch, _, _ in ways}:
            below.setdefault(switch, []).append(number)
    ordered = {name: tuple(below[name]) for name in topology.switches if name in below}
    up = {name: equal_hops(topology, name, server) for name in ordered}
    return SumPaths(False, (tree,), ordered, up)
