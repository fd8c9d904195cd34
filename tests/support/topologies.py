"""Networks of eight hosts for tests: three levels of switches, and a ring of them with a link that
is down. Workers of a job meet on different levels, the parameter servers are h7 and h8."""

from __future__ import annotations

from pathlib import Path

from p4fabric.base.topology import Topology

FILE = Path(__file__).resolve()


class Deep(Topology):
    """Two racks below one switch and a third below another, both below the servers'."""

    def __init__(self) -> None:
        for switch in ("l1", "l2", "l3", "a1", "a2", "c1"):
            self.add_switch(switch)
        homes = {"l1": "1235", "l2": "4", "l3": "6", "c1": "78"}
        for host in range(1, 9):
            self.add_host(f"h{host}")
        for switch, hosts in homes.items():
            for host in hosts:
                self.add_link(f"h{host}", switch)
        for below, above in (("l1", "a1"), ("l2", "a1"), ("l3", "a2"), ("a1", "c1"), ("a2", "c1")):
            self.add_link(below, above)


class Cycle(Topology):
    """Four switches in a ring. The link between q3 and the servers' switch q4 has failed, so that
    sums of q3 come the long way around, through q2 and q1."""

    def __init__(self) -> None:
        for switch in ("q1", "q2", "q3", "q4"):
            self.add_switch(switch)
        for host, switch in enumerate(("q1", "q2", "q1", "q3", "q2", "q3", "q4", "q4"), 1):
            self.add_link(self.add_host(f"h{host}"), switch)
        self.add_link("q1", "q2")
        self.add_link("q2", "q3")
        self.add_link("q3", "q4", failed=True)
        self.add_link("q4", "q1")


class Corner(Topology):
    """GRID's triangle with other names, in another order, at a third of the rates: the server's
    switch is `b`, the crowded one `x`."""

    def __init__(self) -> None:
        for switch in ("b", "m", "x"):
            self.add_switch(switch)
        self.add_link("m", "b", bandwidth="1 Gbit/s")
        self.add_link(self.add_host("ps"), "b", bandwidth="3 Gbit/s")
        for host, switch in (("k", "x"), ("e", "b"), ("d", "m"), ("a", "x"), ("z", "x")):
            self.add_link(self.add_host(host), switch, bandwidth="1 Gbit/s")
        for host, switch in (("c", "b"), ("y", "x"), ("f", "m")):
            self.add_link(self.add_host(host), switch, bandwidth="1 Gbit/s")
        self.add_link("x", "m", bandwidth="1 Gbit/s")
        self.add_link("b", "x", bandwidth="1 Gbit/s")
