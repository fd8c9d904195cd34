"""Star: one switch, every host linked to it. The smallest network on which jobs share a switch."""

from __future__ import annotations

from p4fabric.base.topology import MAX_PORTS, Topology, within


class Star(Topology):
    """Switch s1 with hosts h1 to hN.

    hosts: number of hosts, 2 to 510
    per_server: how many neighbouring hosts of a switch are a server ([servers](#servers)), 1 to 64
    """

    def __init__(self, hosts: int, per_server: int = 1) -> None:
        within("hosts", hosts, 2, MAX_PORTS)
        self.add_hosts(self.add_switch("s1"), hosts, per_server)
