"""Routes and trees on graphs with cycles, several levels and links that are down."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import UserError
from p4fabric.base.hops import next_hops
from p4fabric.base.topology import Topology

from testbed.routing.job_tree import job_tree, root_switch
from tests.support.topologies import Cycle, Deep


def test_a_tree_of_three_levels():
    tree = job_tree(Deep(), ("h1", "h2", "h4"), "h7")
    assert tree.below == {"l1": (0, 1), "l2": (2,), "a1": (0, 1, 2), "c1": (0, 1, 2)}
    assert {name: node for name, (_, node) in tree.parent.items()} == {
        "l1": "a1",
        "l2": "a1",
        "a1": "c1",
        "c1": "h7",
    }
    assert [child for _, child in tree.children["a1"]] == ["l1", "l2"]
    assert [child for _, child in tree.children["l1"]] == ["h1", "h2"]


def test_a_forwarding_switch_is_passed_and_never_the_root():
    workers = ("h1", "h2", "h4")
    assert root_switch(Deep(), workers) == "a1"
    topology = Deep().only_forwarding(["a1"])
    tree = job_tree(topology, workers, "h7")
    assert tree.switches == ("l1", "l2", "c1") and "a1" in tree.below
    ((port, _),) = tree.children["c1"]
    assert tree.receivers("c1") == ((port, "l1"), (port, "l2"))
    assert root_switch(topology, workers) == "l1"
    assert topology != Deep().plain() and topology.failing([]) == topology
    with pytest.raises(
        UserError, match="no switch that aggregates has a path to all of h1, h2, h4"
    ):
        root_switch(topology.only_forwarding(topology.switches), workers)


def test_routes_take_the_shortest_way_of_links_that_are_up():
    whole = Cycle()
    assert next_hops(whole, "h7")["q3"] == (4, "q4")
    down = whole.failing([whole.links.index(("q3", "q4"))])
    hops = next_hops(down, "h7")
    assert hops["q3"] == (3, "q2") and hops["q2"][1] == "q1" and hops["q1"][1] == "q4"
    assert hops["q4"] == (1, "h7")
    assert job_tree(down, ("h1", "h2", "h4"), "h7").below == {
        "q1": (0, 1, 2),
        "q2": (1, 2),
        "q3": (2,),
        "q4": (0, 1, 2),
    }


def test_parallel_links_replace_each_other():
    topology = Topology()
    for switch in ("s1", "s2"):
        topology.add_switch(switch)
        topology.add_link(topology.add_host(f"h{switch}"), switch)
    topology.add_link("s1", "s2")
    topology.add_link("s1", "s2")
    assert next_hops(topology, "hs2")["s1"] == (2, "s2")
    assert next_hops(topology.failing([2]), "hs2")["s1"] == (3, "s2")
    with pytest.raises(UserError, match="hs1 has no path to hs2"):
        job_tree(topology.failing([2, 3]), ("hs1",), "hs2")


def test_routes_follow_a_topology_that_grows():
    topology = Cycle()
    assert next_hops(topology, "h7")["q2"][1] == "q3"
    topology.add_link("q2", "q4")
    assert next_hops(topology, "h7")["q2"][1] == "q4"


def test_the_root_is_in_the_middle():
    assert root_switch(Deep(), ("h1", "h2", "h4")) == "a1"
    assert root_switch(Deep(), ("h1", "h6")) == "c1"
