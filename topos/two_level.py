"""Two levels: top-of-rack switches of the workers below the parameter servers' own.

Each rack's switch sees its own workers only, the servers' switch sees the racks: where a job spans
racks, its gradients are aggregated twice.
"""

from __future__ import annotations

from p4fabric.base.topology import MAX_PORTS, Topology, within

MAX_TORS = 64
MAX_HOSTS = MAX_PORTS - 1  # one port leads to another switch


class TwoLevel(Topology):
    """Racks: switches s1 to sT with hosts of their own, all linked to the servers' switch.

    Hosts are numbered rack by rack, the servers' hosts last. So the default placement puts a job
    with as many workers as the racks have hosts on the racks, and its server on a server's host.
    The servers' switch is the last one.

    tors: number of racks, 1 to 64
    hosts: hosts of each rack, 1 to 509
    servers: hosts at the servers' switch, at least 1, and with `tors` at most 510
    per_server: how many neighbouring hosts of a rack are one machine ([servers](#servers)), 1 to 64
    """

    def __init__(self, tors: int, hosts: int, servers: int = 1, per_server: int = 1) -> None:
        within("tors", tors, 1, MAX_TORS)
        within("hosts", hosts, 1, MAX_HOSTS)
        within("servers", servers, 1, MAX_PORTS - tors)
        racks = [self.add_switch(f"s{tor}") for tor in range(1, tors + 1)]
        root = self.add_switch(f"s{tors + 1}")
        for rack in racks:
            self.add_hosts(rack, hosts, per_server)
        self.add_hosts(root, servers)
        for rack in racks:
            self.add_link(rack, root)
