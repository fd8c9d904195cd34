"""The tiers of a network that a group of hosts crosses: what its links are (`Topology.tiers`)."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.routing.tree import job_tree, root_switch
from testbed.topology import Topology


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
