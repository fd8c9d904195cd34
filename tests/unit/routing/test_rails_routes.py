"""Routes and trees between servers with several ranks: each place in a server has a way of its
own."""

from __future__ import annotations

import pytest
from p4fabric.base.hops import next_hop, next_hops, routes

from testbed.routing.job_tree import job_tree, root_switch, tiers_crossed
from testbed.topos.leaf_spine import LeafSpine
from testbed.topos.rails import Rails

PODS = Rails(servers=4, ranks=2, leaves=4, spines=2).plain()  # leaves s5, s6 and s7, s8
RAILS = Rails(servers=2, ranks=4).plain()  # leaves s3 to s6
SHARED = Rails(servers=2, ranks=4, rail_optimized=False).plain()  # leaf s3


@pytest.mark.parametrize("rank", range(4))
def test_ranks_of_one_place_meet_on_their_rail(rank: int) -> None:
    group = f"h{1 + rank}", f"h{5 + rank}"
    leaf, port = f"s{3 + rank}", 5 + rank
    assert root_switch(RAILS, group) == leaf
    tree = job_tree(RAILS, group, leaf)
    assert tree.parent == {"s1": (port, leaf), "s2": (port, leaf)}
    # A parameter server elsewhere is reached by the same rail.
    assert next_hop(RAILS, "s1", group[1]) == (port, leaf)
    assert next_hop(RAILS, leaf, group[1]) == (3, "s2")


@pytest.mark.parametrize("rank", range(4))
def test_of_parallel_links_each_rank_has_one(rank: int) -> None:
    group, port = (f"h{1 + rank}", f"h{5 + rank}"), 5 + rank
    assert root_switch(SHARED, group) == "s3"
    tree = job_tree(SHARED, group, "s3")
    assert tree.parent == {"s1": (port, "s3"), "s2": (port, "s3")}
    # Results come back over the link that the sums went up.
    assert tree.children["s3"] == ((2 + rank, "s1"), (6 + rank, "s2"))
    assert next_hop(SHARED, "s3", group[1]) == (6 + rank, "s2")


def test_fewer_leaves_than_ranks_use_all_links() -> None:
    topology = Rails(servers=2, ranks=4, leaves=2)
    hops = [next_hop(topology, "s1", f"h{number}") for number in range(5, 9)]
    assert hops == [(5, "s3"), (6, "s4"), (7, "s3"), (8, "s4")]


@pytest.mark.parametrize("topology", [PODS, RAILS, SHARED, PODS.failing([8, 20])])
def test_the_routes_of_a_switch_are_its_next_hops(topology) -> None:
    nodes = (*topology.hosts, *topology.switches)
    for switch in topology.switches:
        hops = {node: next_hop(topology, switch, node) for node in nodes}
        found = {node: hop for nodes, *hop in routes(topology, switch) for node in nodes}
        assert found == {node: list(hop) for node, hop in hops.items() if hop is not None}


@pytest.mark.parametrize("rank", range(2))
def test_pods_meet_on_a_spine_for_each_place(rank: int) -> None:
    group = tuple(f"h{1 + rank + 2 * server}" for server in range(4))
    spine = f"s{9 + rank}"
    assert root_switch(PODS, group) == spine
    tree = job_tree(PODS, group, spine)
    assert {name: following for name, (_, following) in tree.parent.items()} == {
        **{name: f"s{5 + rank}" for name in ("s1", "s2")},
        **{name: f"s{7 + rank}" for name in ("s3", "s4")},
        **{f"s{leaf + rank}": spine for leaf in (5, 7)},
    }


def test_tiers() -> None:
    assert tiers_crossed(PODS, ["h1"]) == ()
    assert tiers_crossed(PODS, ["h1", "h2"]) == ("scale_up",)
    assert tiers_crossed(PODS, ["h2", "h4"]) == ("scale_up", "nic")
    assert tiers_crossed(PODS, PODS.hosts[:8]) == ("scale_up", "nic", "fabric")
    # With a parameter server, those on the way to it: here it is on the first leaf.
    assert PODS.switch_of("h9") == "s5"
    assert tiers_crossed(PODS, ["h1", "h2"], "h9") == ("scale_up", "nic")
    assert tiers_crossed(PODS, ["h7"], "h9") == ("scale_up", "nic", "fabric")
    assert tiers_crossed(LeafSpine(2, 1, 2), ["h1", "h3"]) == ("host", "fabric")


def test_without_servers_the_first_of_equal_paths_counts() -> None:
    alone, several = LeafSpine(2, 2, 2), LeafSpine(2, 2, 2, per_server=2)
    assert [next_hops(alone, host)["s2"] for host in ("h1", "h2")] == [(3, "s3"), (3, "s3")]
    assert [next_hops(several, host)["s2"] for host in ("h1", "h2")] == [(3, "s3"), (4, "s4")]
