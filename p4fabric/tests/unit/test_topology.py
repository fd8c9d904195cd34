"""Topologies as data: numbering, ports, addresses, and what cannot be."""

from __future__ import annotations

import pickle

import pytest
from p4fabric.base.topology import Topology, TopologyError, host_ip, host_mac, switch_ip, switch_mac
from p4fabric_testing.topologies import star


def test_parallel_links_have_ports_of_their_own() -> None:
    topology = Topology()
    topology.add_switch("s1")
    topology.add_switch("s2")
    topology.add_link("s1", "s2")
    topology.add_link("s2", "s1")
    assert topology.ports("s1") == {1: ("s2", 0, 0), 2: ("s2", 1, 1)}


def test_addresses_follow_from_numbers() -> None:
    assert (host_ip(1), host_ip(300)) == ("10.0.0.1", "10.0.1.44")
    assert (switch_ip(1), switch_ip(256)) == ("10.255.0.1", "10.255.1.0")
    assert (host_mac(300), switch_mac(300)) == ("02:00:00:00:01:2c", "02:00:00:01:01:2c")


def test_a_subclass_need_not_call_super_and_gives_plain_data() -> None:
    class Mine(Topology):
        def __init__(self, hosts: int = 2) -> None:
            self.secret = lambda: None  # cannot be pickled
            self.add_switch("s1")
            for number in range(1, hosts + 1):
                self.add_link(self.add_host(f"h{number}"), "s1", delay="1 ms")

    plain = Mine(2).plain()
    assert type(plain) is Topology and plain == Mine(2) and plain != Mine(3)
    copy = pickle.loads(pickle.dumps(plain))
    assert copy == plain and copy.link_options == ({"delay": "1 ms"},) * 2
    assert copy.ports("s1") == plain.ports("s1")


WRONG = [
    (lambda t: t.add_host("H1"), "'H1'"),
    (lambda t: t.add_host("h123456789"), "up to 7 small letters"),
    (lambda t: t.add_host(""), "a name is a small letter"),
    (lambda t: t.add_host(7), "host 7"),
    (lambda t: t.add_host("s1"), "already taken"),
    (lambda t: t.add_link("h1", "s9"), "no node 's9'"),
    (lambda t: t.add_link("s1", "s1"), "cannot be linked to itself"),
    (lambda t: t.add_host("h3"), "host h3 has 0 links"),
    (lambda t: t.add_link("h1", "s1"), "host h1 has 2 links"),
    (lambda t: (t.add_host("h3"), t.add_host("h4"), t.add_link("h3", "h4")), "linked to host h4"),
    (lambda t: t.add_switch("s2"), "s2 is not connected to"),
]


@pytest.mark.parametrize("change, message", WRONG)
def test_invalid_topologies_are_refused(change: object, message: str) -> None:
    topology = star(2)
    with pytest.raises(TopologyError, match=message):
        change(topology)
        topology.check()


def test_empty() -> None:
    with pytest.raises(TopologyError, match="it has no hosts"):
        Topology().check()
