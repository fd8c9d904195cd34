"""Two switches in a row."""

from __future__ import annotations

from testbed.topology import Topology


class Pair(Topology):
    """Two switches with a link between them.

    hosts: number of hosts on each
    """

    def __init__(self, hosts: int = 2) -> None:
        self.add_switch("s1")
        self.add_switch("s2")
        self.add_link("s1", "s2")
        for number in range(1, 2 * hosts + 1):
            self.add_link(self.add_host(f"h{number}"), f"s{1 + number % 2}")
