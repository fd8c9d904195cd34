"""Star: one switch, every host linked to it. The smallest network on which jobs share a switch."""

from __future__ import annotations

from testbed.topology import MAX_PORTS, Topology, within


class Star(Topology):
    """Switch s1 with hosts h1 to hN.

    hosts: number of hosts, 2 to 510
    """

    def __init__(self, hosts: int) -> None:
        within("hosts", hosts, 2, MAX_PORTS)
        switch = self.add_switch("s1")
        for number in range(1, hosts + 1):
            self.add_link(self.add_host(f"h{number}"), switch)
