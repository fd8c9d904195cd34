"""The topologies of topos/: sizes, who is linked to whom, and what cannot be."""

from __future__ import annotations

import networkx
import pytest
from p4fabric.base.config.problems import ExperimentError
from p4fabric.base.topology import Topology, TopologyError

from testbed.experiment import load_text
from testbed.topos import KINDS
from testbed.topos.fat_tree import FatTree
from testbed.topos.graph import Graph
from testbed.topos.leaf_spine import LeafSpine
from testbed.topos.star import Star
from testbed.topos.triangle import Triangle
from testbed.topos.two_level import TwoLevel
from tests.support.paths import ROOT

GRAPHS = ROOT / "topos" / "graphs"


def switch_graph(topology: Topology) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_nodes_from(topology.switches)
    graph.add_edges_from(link for link in topology.links if not set(link) & set(topology.hosts))
    return graph


def hosts_of(topology: Topology) -> dict[str, int]:
    homes = [topology.switch_of(host) for host in topology.hosts]
    return {switch: homes.count(switch) for switch in topology.switches}


def test_leaf_spine() -> None:
    topology = LeafSpine(leaves=3, spines=2, hosts=4)
    topology.check()
    assert sorted(dict(switch_graph(topology).degree).values()) == [2, 2, 2, 3, 3]
    assert list(hosts_of(topology).values()) == [4, 4, 4, 0, 0]
    assert topology.switch_of("h5") == "s2"


@pytest.mark.parametrize(("k", "hosts", "all_hosts"), [(2, 0, 2), (4, 0, 16), (8, 6, 192)])
def test_fat_tree(k, hosts, all_hosts) -> None:
    topology = FatTree(k, hosts)
    topology.check()
    graph = switch_graph(topology)
    assert len(topology.switches) == 5 * k * k // 4 and len(topology.hosts) == all_hosts
    edges, cores = topology.switches[: k * k // 2], topology.switches[k * k :]
    assert {degree for name, degree in graph.degree if name in edges} == {k // 2}
    assert {degree for name, degree in graph.degree if name not in edges} == {k}
    # As many shortest paths between pods as there are cores.
    ways = list(networkx.all_shortest_paths(graph, edges[0], edges[-1]))
    assert len(ways) == len(cores) and len(ways[0]) == 5


def test_triangle_is_the_worked_example() -> None:
    topology = Triangle("3 Mbit/s")
    topology.check()
    assert list(hosts_of(topology).values()) == [4, 2, 3]
    assert topology.switch_of("h9") == "s3"
    rates = {
        link: options["bandwidth"]
        for link, options in zip(topology.links, topology.link_options, strict=True)
    }
    assert rates["h9", "s3"] == "9 Mbit/s"
    assert {rate for link, rate in rates.items() if link != ("h9", "s3")} == {"3 Mbit/s"}


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: LeafSpine(0, 1, 1), "leaves"),
        (lambda: LeafSpine(1, 65, 1), "spines"),
        (lambda: LeafSpine(1, 1, 0), "hosts"),
        (lambda: FatTree(3), "k"),
        (lambda: FatTree(26), "k"),
        (lambda: FatTree(4, -1), "hosts"),
        (lambda: Triangle("3"), "bandwidth"),
        (lambda: Triangle("3 s"), "bandwidth"),
        (lambda: Graph("nowhere.txt"), "file"),
        (lambda: Graph(str(GRAPHS / "grid-example.txt"), 257), "hosts"),
    ],
)
def test_invalid_options_are_refused(make, option) -> None:
    with pytest.raises(TopologyError) as error:
        make()
    assert error.value.option == option


def test_a_graph_file_in_an_experiment(tmp_path) -> None:
    (tmp_path / "net.txt").write_text(
        "Core1 Edge-1 3Mbit/s 1Mbit/s delay=1ms\nCore1 e2 2Mbit/s\nEdge-1 e2 failed\n"
        "A Edge-1 1Mbit/s\nb e2 1Mbit/s\nlong-name e2\n"
    )
    experiment = load_text(
        "topology: {kind: graph, file: net.txt}\nsystem: ps\n"
        "jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.01}]\n",
        folder=tmp_path,
    )
    topology = experiment.topology_object()
    assert topology.switches == ("core1", "s1", "e2") and topology.hosts == ("a", "b", "h1")
    there, back = experiment.directions[0]
    assert (there.bandwidth_bps, back.bandwidth_bps) == (3_000_000, 1_000_000)
    assert there.delay_ns == back.delay_ns == 1_000_000
    assert topology.failed == {2}
    # What is printed loads again.
    assert load_text(experiment.resolved_yaml()).topology_object() == topology


def test_switch_options_of_a_graph_file_count(tmp_path) -> None:
    (tmp_path / "net.txt").write_text(
        "switch a aggregation=9Mbit/s\nswitch b aggregation=none\nswitch c\n"
        "a b\nb c\nc a\nw a\np c\n"
    )
    text = (
        "topology: {kind: graph, file: net.txt}\nsystem: grid\nmemory: {aggregators: 8}\n"
        "switches: {capacity: 5 Mbit/s, each: [{switch: a, burst: 7 packets}]}\n"
        "jobs: [{model: resnet18, workers: 1, iterations: 1, scale: 0.01}]\n"
    )
    experiment = load_text(text, folder=tmp_path)
    found = [experiment.switches.of(name) for name in "abc"]
    assert [each.capacity_bps for each in found] == [9_000_000, 5_000_000, 5_000_000]
    assert [each.aggregates for each in found] == [True, False, True]
    assert found[0].burst_packets == 7
    again = load_text(experiment.resolved_yaml())
    assert [again.switches.of(name) for name in "abc"] == found
    others = text.replace("grid\nmemory: {aggregators: 8}", "ps")
    others = others.replace("switches:", "# switches:")
    with pytest.raises(ExperimentError, match="topology: switch a: .* has no plan"):
        load_text(others, folder=tmp_path)
    (tmp_path / "net.txt").write_text("switch a slots=3\nw a\np a\n")
    with pytest.raises(ExperimentError, match="slots is for ina plan"):
        load_text(text, folder=tmp_path)


def test_hosts_for_a_graph_of_switches(tmp_path) -> None:
    path = tmp_path / "zoo.graphml"
    networkx.write_graphml(networkx.path_graph(["New York", "Chicago", "h1"]), path)
    topology = Graph(str(path), hosts=2)
    topology.check()
    assert topology.switches == ("s1", "chicago", "h1")
    assert topology.hosts == ("h2", "h3", "h4", "h5", "h6", "h7")


@pytest.mark.parametrize(
    "text", ["b c 1Mbit/s 1Mbit/s 1Mbit/s\n", "b c 1\nc d\n", "b b\n", "x\n", "b c foo=3\n"]
)
def test_an_invalid_graph_file_is_refused(tmp_path, text) -> None:
    (tmp_path / "net.txt").write_text(text)
    with pytest.raises(ExperimentError, match="topology"):
        load_text(
            "topology: {kind: graph, file: net.txt}\nsystem: ps\n"
            "jobs: [{model: resnet18, workers: 1, iterations: 1, scale: 0.01}]\n",
            folder=tmp_path,
        )


def test_star() -> None:
    star = Star(3)
    assert star.hosts == ("h1", "h2", "h3") and star.switches == ("s1",)
    assert star.links == (("h1", "s1"), ("h2", "s1"), ("h3", "s1"))
    assert star.ports("s1") == {1: ("h1", 0, 1), 2: ("h2", 1, 1), 3: ("h3", 2, 1)}
    assert star.ports("h2") == {1: ("s1", 1, 0)}
    assert star.switch_of("h2") == "s1"
    assert [star.number(name) for name in ("h1", "h3", "s1")] == [1, 3, 1]
    star.check()


@pytest.mark.parametrize("kind", KINDS)
def test_built_in_topologies_are_sound(kind: str) -> None:
    assert issubclass(KINDS[kind], Topology) and KINDS[kind].__doc__


@pytest.mark.parametrize("hosts", (-1, 0, 1, 511, 5000))
def test_star_of_a_wrong_size(hosts: int) -> None:
    with pytest.raises(TopologyError, match="allowed: a whole number from 2 to 510"):
        Star(hosts)


@pytest.mark.parametrize(
    ("smallest", "largest", "too_large"),
    [
        (lambda: Star(2), lambda: Star(510), lambda: Star(511)),
        (lambda: TwoLevel(1, 1), lambda: TwoLevel(64, 509, 446), lambda: TwoLevel(64, 509, 447)),
        (lambda: TwoLevel(1, 1, 1), lambda: TwoLevel(1, 509, 509), lambda: TwoLevel(1, 510)),
        (
            lambda: LeafSpine(1, 1, 1),
            lambda: LeafSpine(252, 1, 256),
            lambda: LeafSpine(253, 1, 256),
        ),
        (lambda: LeafSpine(1, 1, 1), lambda: LeafSpine(256, 64, 1), lambda: LeafSpine(257, 64, 1)),
        (lambda: FatTree(2), lambda: FatTree(24, 223), lambda: FatTree(24, 256)),
    ],
)
def test_limits_of_sizes_can_be_reached(smallest, largest, too_large) -> None:
    for make in (smallest, largest):
        topology = make()
        topology.check()
        assert all(max(topology.ports(name)) <= 510 for name in topology.switches)
    with pytest.raises(TopologyError, match="allowed|more than 65000 nodes"):
        too_large().check()


def test_a_switch_with_more_links_than_ports_is_refused() -> None:
    hosts = [f"h{number}" for number in range(1, 512)]
    links = "".join(f"[{host}, s1], " for host in hosts)
    with pytest.raises(ExperimentError, match="switch s1 has 511 links; .* at most 510 ports"):
        load_text(
            f"topology: {{kind: explicit, hosts: [{', '.join(hosts)}], switches: [s1],"
            f" links: [{links}]}}\nsystem: ps\n"
            "jobs: [{model: resnet18, workers: 1, iterations: 1, scale: 0.01}]\n"
        )


def test_two_level() -> None:
    topology = TwoLevel(tors=2, hosts=2, servers=1)
    assert topology.switches == ("s1", "s2", "s3") and len(topology.hosts) == 5
    assert [topology.switch_of(f"h{n}") for n in range(1, 6)] == ["s1", "s1", "s2", "s2", "s3"]
    assert topology.links[-2:] == (("s1", "s3"), ("s2", "s3"))
    topology.check()
    with pytest.raises(TopologyError, match="allowed: a whole number from 1 to 64"):
        TwoLevel(tors=0, hosts=2)
