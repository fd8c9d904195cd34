"""The aggregation tree of a job.

The routes of all switches towards a job's parameter server, or its root switch if it has no server,
form a tree, whose choice among equal paths (hops.py) is that of the job's first worker. The job's
tree has the branches with its workers. A switch that only forwards is a node of the tree like any
other, but never the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from p4fabric.base.errors import UserError
from p4fabric.base.hops import next_hops, switch_of
from p4fabric.base.topology import Topology


@dataclass(frozen=True)
class JobTree:
    """The tree in which a job's fragments meet on their way to their target, a server or the root
    switch.

    `parent` maps each switch of the tree except the root switch to (port, next node). `below` maps
    each switch to the numbers of the workers whose fragments pass it. `children` maps each switch
    to [(port, node)], the switches and workers to which it sends results. `forwarding`: the
    topology's switches that do not aggregate. `former`: switches that aggregated for the job before
    links failed, and do no longer."""

    target: str
    parent: dict[str, tuple[int, str]]
    below: dict[str, tuple[int, ...]]
    children: dict[str, tuple[tuple[int, str], ...]]
    forwarding: frozenset[str] = frozenset()
    former: frozenset[str] = frozenset()

    @property
    def switches(self) -> tuple[str, ...]:
        """Switches that aggregate for the job."""
        return tuple(name for name in self.below if name not in self.forwarding)

    def receivers(self, switch: str) -> tuple[tuple[int, str], ...]:
        """(port, node) of the workers and the next aggregating switches below a switch. Switches
        between them only forward."""
        found: list[tuple[int, str]] = []
        for port, child in self.children[switch]:
            if child in self.forwarding:
                found += [(port, node) for _, node in self.receivers(child)]
            else:
                found.append((port, child))
        return tuple(found)


def job_tree(
    topology: Topology, workers: tuple[str, ...], target: str, rail: int | None = None
) -> JobTree:
    """The tree of a job whose server, or root switch, is `target`. rail: which of equal paths it
    takes; None: the first worker's.

    Raises UserError if a worker has no path to the target."""
    hops = next_hops(topology, target, topology.local_rank(workers[0]) if rail is None else rail)
    parent: dict[str, tuple[int, str]] = {}
    below: dict[str, list[int]] = {}
    children: dict[str, dict[str, int]] = {}
    for number, worker in enumerate(workers):
        child, node = worker, switch_of(topology, worker)
        link = topology.ports(worker)[1][1]
        while True:
            if node != target and node not in hops:
                raise UserError(f"{worker} has no path to {target}")
            if topology.is_host(node):
                break
            below.setdefault(node, []).append(number)
            children.setdefault(node, {})[child] = topology.port_of(node, link)
            if node == target:
                break
            parent[node] = hops[node]
            link = topology.ports(node)[hops[node][0]][1]
            child, node = node, hops[node][1]
    return JobTree(
        target=target,
        parent={name: parent[name] for name in topology.switches if name in parent},
        below={name: tuple(below[name]) for name in topology.switches if name in below},
        children={
            name: tuple((port, child) for child, port in sorted(found.items(), key=lambda x: x[1]))
            for name, found in children.items()
        },
        forwarding=topology.forwarding,
    )


def rerooted(tree: JobTree, workers: tuple[str, ...]) -> JobTree:
    """The same links with the first worker as their target."""
    around = {switch: list(found) for switch, found in tree.children.items()}
    for switch, hop in tree.parent.items():
        around[switch].append(hop)
    parent: dict[str, tuple[int, str]] = {}
    below: dict[str, tuple[int, ...]] = {}

    def enter(node: str, above: str) -> tuple[int, ...]:
        if node not in around:
            return (workers.index(node),)
        parent[node] = next(hop for hop in around[node] if hop[1] == above)
        found = [enter(child, node) for _, child in around[node] if child != above]
        below[node] = tuple(sorted(number for each in found for number in each))
        return below[node]

    owner = workers[0]
    enter(next(switch for switch, hops in around.items() if owner in dict(hops).values()), owner)
    children = {
        switch: tuple(sorted(hop for hop in hops if hop != parent[switch]))
        for switch, hops in around.items()
    }
    return replace(tree, target=owner, parent=parent, below=below, children=children)


def root_switch(topology: Topology, workers: tuple[str, ...]) -> str:
    """The switch that completes the sums of a job without a server: of the nearest ones the r-th,
    where r is the first worker's local rank. Raises UserError if none has a path to all workers."""
    found = roots(topology, workers)[0]
    return found[topology.local_rank(workers[0]) % len(found)]


def roots(topology: Topology, workers: tuple[str, ...]) -> list[list[str]]:
    """The aggregating switches that have a path to all workers, the nearest first: those with the
    shortest path to their farthest worker, of these the ones with the smallest sum of paths.
    Equally near ones are together, in the topology's order.

    Raises UserError if there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for switch in topology.switches:
        if switch in topology.forwarding:
            continue
        hops = next_hops(topology, switch)
        distances = [steps_to(hops, switch_of(topology, worker), switch) for worker in workers]
        if None not in distances:
            steps = [each for each in distances if each is not None]
            found.setdefault((max(steps), sum(steps)), []).append(switch)
    if not found:
        raise UserError(f"no switch that aggregates has a path to all of {', '.join(workers)}")
    return [found[rank] for rank in sorted(found)]


def steps_to(hops: dict[str, tuple[int, str]], node: str, target: str) -> int | None:
    """Links from a switch to a target switch along `hops`; None if there is no path."""
    steps = 0
    while node != target:
        if node not in hops:
            return None
        node = hops[node][1]
        steps += 1
    return steps


def tiers_crossed(
    topology: Topology, hosts: Sequence[str], target: str | None = None
) -> tuple[str, ...]:
    """The tiers of the links of the hosts' aggregation tree, in the topology's order: of rails,
    ("scale_up",) inside a server. target: the parameter server where their sums end; None: the
    switch in their middle. Of a single host without target, nothing. Raises UserError if they have
    no paths to each other."""
    workers = tuple(hosts)
    if target is None and len(workers) < 2:
        return ()
    tree = job_tree(topology, workers, target or root_switch(topology, workers))
    crossed = {topology.ports(host)[1][1] for host in workers}
    crossed |= {topology.ports(switch)[port][1] for switch, (port, _) in tree.parent.items()}
    found = {topology.tiers[link] for link in crossed}
    return tuple(tier for tier in dict.fromkeys(topology.tiers) if tier in found)
