"""Leaf-spine: every leaf switch with hosts is linked to every spine switch.

Between two leaves there are as many shortest paths as spines. A planner decides which path a
gradient takes, and which switch on the path aggregates it.
"""

from __future__ import annotations

from p4fabric.base.topology import Topology, within


class LeafSpine(Topology):
    """Leaves s1 to sL with hosts of their own, spines s(L+1) to s(L+S), each leaf linked to each
    spine. Hosts are numbered leaf by leaf.

    leaves: number of leaf switches, 1 to 256
    spines: number of spine switches, 1 to 64
    hosts: hosts of each leaf, 1 to 256
    per_server: how many neighbouring hosts of a switch are a server ([servers](#servers)), 1 to 64
    """

    def __init__(self, leaves: int, spines: int, hosts: int, per_server: int = 1) -> None:
        within("leaves", leaves, 1, 256)
        within("spines", spines, 1, 64)
        within("hosts", hosts, 1, 256)
        below = [self.add_switch(f"s{number}") for number in range(1, leaves + 1)]
        above = [self.add_switch(f"s{number}") for number in range(leaves + 1, leaves + spines + 1)]
        for leaf in below:
            self.add_hosts(leaf, hosts, per_server)
        for leaf in below:
            for spine in above:
                self.add_link(leaf, spine)
