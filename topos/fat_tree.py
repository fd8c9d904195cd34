"""Fat-tree: k pods of edge and aggregation switches below (k/2)^2 core switches, all with k ports.

A data-centre network of equal switches (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008). Published
set-ups have more or fewer hosts per edge switch than its k/2 free ports, so their number is an
option.
"""

from __future__ import annotations

from p4fabric.base.topology import Topology, TopologyError, within


class FatTree(Topology):
    """A k-ary fat-tree. Switches are numbered edge switches first (pod by pod), then aggregation
    switches (pod by pod), then cores; hosts edge switch by edge switch.

    k: ports of a switch, an even number from 2 to 24; 5 k^2 / 4 switches
    hosts: hosts of each edge switch, 1 to 256; 0: k / 2
    per_server: how many neighbouring hosts of a switch are a server ([servers](#servers)), 1 to 64
    """

    def __init__(self, k: int, hosts: int = 0, per_server: int = 1) -> None:
        within("k", k, 2, 24)
        if k % 2:
            raise TopologyError(f"found {k}; allowed: an even number from 2 to 24", option="k")
        within("hosts", hosts, 0, 256)
        half, hosts = k // 2, hosts or k // 2
        count = k * half
        edge = [self.add_switch(f"s{number}") for number in range(1, count + 1)]
        middle = [self.add_switch(f"s{number}") for number in range(count + 1, 2 * count + 1)]
        above = range(2 * count + 1, 2 * count + half**2 + 1)
        cores = [self.add_switch(f"s{number}") for number in above]
        for switch in edge:
            self.add_hosts(switch, hosts, per_server)
        for pod in range(k):
            for lower in edge[pod * half : (pod + 1) * half]:
                for upper in middle[pod * half : (pod + 1) * half]:
                    self.add_link(lower, upper)
        for place, switch in enumerate(middle):
            # The i-th aggregation switch of each pod is linked to the i-th group of cores.
            group = place % half
            for core in cores[group * half : (group + 1) * half]:
                self.add_link(switch, core)
