"""Switches where gradients meet, found from a run's tables, against the trees of the run."""

import random
from types import SimpleNamespace

import pandas as pd
import pytest

from testbed.analysis.data.run_summary import common_switches
from testbed.routing.tree import job_tree
from testbed.topos.fat_tree import FatTree
from testbed.topos.leaf_spine import LeafSpine
from testbed.topos.star import Star

NETWORKS = {
    "star": Star(hosts=6),
    "leaf_spine": LeafSpine(leaves=3, spines=2, hosts=3),
    "fat_tree": FatTree(k=4),
}


def recorded(topology, workers, server):
    """Tables links and hosts of a run with one job, as far as they matter here."""
    links = [
        (0, switch, port, neighbour)
        for switch in topology.switches
        for port, (neighbour, _, _) in topology.ports(switch).items()
    ]
    random.Random(1).shuffle(links)
    hosts = [(0, 0, host, "worker") for host in workers] + [(0, 0, server, "ps")]
    return SimpleNamespace(
        links=pd.DataFrame(links, columns=["repetition", "node", "port", "neighbour"]),
        hosts=pd.DataFrame(hosts, columns=["repetition", "job", "host", "role"]),
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_they_are_the_switches_that_all_workers_are_below(name):
    topology = NETWORKS[name]
    draw = random.Random(7)
    several = 0
    for _ in range(60):
        *workers, server = draw.sample(topology.hosts, draw.randint(2, 5))
        tree = job_tree(topology, tuple(workers), server)
        expected = {switch for switch, below in tree.below.items() if len(below) == len(workers)}
        found = common_switches(recorded(topology, workers, server))
        assert set(found["switch"]) == expected
        several += len(expected) > 1
    assert several or name == "star"


def test_a_failed_link_is_gone_around():
    topology = NETWORKS["leaf_spine"]
    workers, server = ("h1", "h4"), "h7"
    before = set(common_switches(recorded(topology, workers, server))["switch"])
    assert before == {"s4", "s3"}, "the first spine, and the leaf of the server"
    cut = topology.ports("s1")[4][1]  # to the first spine
    without = topology.failing([cut])
    found = set(common_switches(recorded(without, workers, server))["switch"])
    tree = job_tree(without, workers, server)
    assert found == {switch for switch, below in tree.below.items() if len(below) == 2}


def test_a_job_without_a_server_meets_nowhere():
    tables = recorded(NETWORKS["star"], ("h1", "h2"), "h3")
    tables.hosts = tables.hosts[tables.hosts["role"] == "worker"]
    assert common_switches(tables).empty
