"""Equal paths between nodes, and the paths of sums over several of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base.hops import (
    equal_hops,
    links_between,
    links_of_all_paths,
    next_hop,
    switch_of,
)

from testbed.routing.job_tree import job_tree
from testbed.routing.sum_paths import per_root, unpinned
from testbed.topos.fat_tree import FatTree
from testbed.topos.leaf_spine import LeafSpine
from testbed.topos.rails import Rails

LEAVES = LeafSpine(leaves=3, spines=4, hosts=2).plain()
FAT = FatTree(k=4).plain()
SHARED = Rails(servers=3, ranks=4, rail_optimized=False).plain()  # parallel links
NETWORKS = [LEAVES, FAT, SHARED, LEAVES.failing([6, 11])]


@pytest.mark.parametrize("topology", NETWORKS)
def test_the_path_of_a_local_rank_is_in_its_place_among_the_equal_ones(topology):
    for switch in topology.switches:
        for node in (*topology.hosts, *topology.switches):
            hops = equal_hops(topology, switch, node)
            rank = topology.local_rank(node) if topology.is_host(node) else 0
            chosen = next_hop(topology, switch, node)
            assert (hops[rank % len(hops)] if hops else None) == chosen
            assert len(set(hops)) == len(hops)


@given(st.sampled_from(NETWORKS), st.data())
def test_links_of_all_paths_are_links_of_each(topology, data):
    source, target = data.draw(
        st.lists(st.sampled_from(topology.hosts), min_size=2, max_size=2, unique=True)
    )
    way, node = [next(iter(topology.ports(source).values()))[1:]], switch_of(topology, source)
    while node != target:  # any path
        port, following = data.draw(st.sampled_from(equal_hops(topology, node, target)))
        way.append(topology.ports(node)[port][1:])
        node = following
    assert len(way) == len(links_between(topology, source, target))
    shared = links_of_all_paths(topology, source, target)
    assert set(shared) <= set(way)
    assert shared[0] == way[0] and shared[-1] == way[-1]


@given(st.sampled_from(NETWORKS), st.data())
def test_all_gradients_of_a_fragment_meet_on_the_way_to_the_server(topology, data):
    *workers, server = data.draw(
        st.lists(st.sampled_from(topology.hosts), min_size=3, max_size=6, unique=True)
    )
    over = per_root(topology, tuple(workers), server)
    assert over.trees[0] == job_tree(topology, tuple(workers), server)
    for way in range(len(over.trees)):
        passed: dict[str, set[int]] = {}
        for number, worker in enumerate(workers):
            node = switch_of(topology, worker)
            while node != server:
                passed.setdefault(node, set()).add(number)
                node = over.up[node][way][1]
        # What a switch waits for is what comes by, whichever tree a fragment has.
        assert {node: tuple(sorted(who)) for node, who in passed.items()} == {
            node: over.below[node] for node in passed
        }
        assert over.trees[way].below.keys() == passed.keys()


def test_there_is_a_root_for_each_path():
    workers, server = ("h1", "h3"), "h5"
    over = per_root(LEAVES, workers, server)
    spines = [{"s4", "s5", "s6", "s7"} & tree.below.keys() for tree in over.trees]
    assert spines == [{"s4"}, {"s5"}, {"s6"}, {"s7"}]
    assert len(per_root(LEAVES, workers, server, most=3).trees) == 3
    assert len(per_root(FAT, ("h1", "h5"), "h9").trees) == 2


def test_sums_that_are_not_pinned_wait_at_every_switch_on_a_path_for_all_below():
    over = unpinned(LEAVES, ("h1", "h3", "h4"), "h5")
    everyone = (0, 1, 2)
    assert over.below == {"s1": (0,), "s2": (1, 2), "s3": everyone} | dict.fromkeys(
        ("s4", "s5", "s6", "s7"), everyone
    )
    assert [len(over.up[each]) for each in ("s1", "s2", "s3", "s4")] == [4, 4, 1, 1]
    assert len(over.trees) == 1 and set(over.aggregating) == set(LEAVES.switches)
