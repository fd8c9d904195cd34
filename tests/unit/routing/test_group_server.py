"""The parameter server of a group of ranks: the nearest of several."""

from __future__ import annotations

import pytest
from p4fabric.base.topology import Topology

from testbed.routing.group_server import has_shared_servers, nearest
from testbed.topos.rails import Rails
from testbed.topos.star import Star

# Ranks h1 to h8; h9 to h12 on leaves s3 to s6, h13 and h14 on the servers' own switches.
RAILS = Rails(servers=2, ranks=4, server_ps=1).plain()


@pytest.mark.parametrize(
    "group, servers, found",
    [
        ("h1 h2 h3", "h9 h13 h14", "h13"),  # inside the server
        ("h6 h7", "h9 h13 h14", "h14"),
        ("h2 h6", "h9 h10 h11 h12 h13", "h10"),  # on its rail
        ("h4 h8", "h9 h10 h12", "h12"),
        ("h3 h7", "h9 h10", "h9"),  # as near as the other one
        ("h4 h8", "h9 h10", "h10"),
        ("h1 h2 h3 h4 h5 h6 h7 h8", "h12 h11 h9 h13", "h9"),
        # Groups of several servers, as near to all, take turns.
        ("h1 h2", "h9 h10", "h9"),
        ("h5 h6", "h9 h10", "h10"),
        ("h1 h2", "h14", "h14"),
    ],
)
def test_the_nearest_one_counts(group: str, servers: str, found: str) -> None:
    assert nearest(RAILS, group.split(), servers.split()) == found


def test_where_nothing_aggregates_distances_count_alone() -> None:
    topology = RAILS.only_forwarding(RAILS.switches)
    assert nearest(topology, ["h2", "h6"], ["h13", "h10"]) == "h10"
    assert nearest(topology, ["h2", "h6"], ["h9", "h10"]) == "h10"


def test_one_without_a_path_comes_last() -> None:
    topology = Topology()
    for switch in "s1", "s2":
        topology.add_switch(switch)
        topology.add_link(topology.add_host(f"h{switch[1]}"), switch)
        topology.add_link(topology.add_host(f"p{switch[1]}"), switch)
    topology.add_link("s1", "s2")
    down = topology.failing([4])
    assert nearest(topology, ["h2"], ["p1", "p2"]) == nearest(down, ["h2"], ["p1", "p2"]) == "p2"
    assert nearest(down, ["h2"], ["p1"]) == "p1"


def test_servers_with_several_hosts() -> None:
    assert has_shared_servers(RAILS) and has_shared_servers(Star(3, 2))
    assert not has_shared_servers(Star(3)) and not has_shared_servers(Rails(2, 1))
