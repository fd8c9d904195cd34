"""Servers with several ranks, and the network of rails: sizes, tiers, rates, and what cannot be."""

from __future__ import annotations

import pytest
from p4fabric.base.config.problems import ExperimentError
from p4fabric.base.topology import Topology, TopologyError

from testbed.experiment import load_text
from testbed.topos import KINDS
from testbed.topos.explicit import Explicit, listed
from testbed.topos.rails import Rails

JOB = "jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.01}]\n"


def leaves_of(topology: Topology, switch: str) -> list[str]:
    return [
        neighbour
        for neighbour, link, _ in topology.ports(switch).values()
        if topology.tiers[link] == "nic"
    ]


def test_a_rail_optimised_network() -> None:
    topology = Rails(servers=2, ranks=3, spines=1)
    topology.check()
    assert topology.switches == ("s1", "s2", "s3", "s4", "s5", "s6")
    assert topology.servers == {"n1": ("h1", "h2", "h3"), "n2": ("h4", "h5", "h6")}
    assert [topology.switch_of(host) for host in topology.hosts[6:]] == ["s3", "s4", "s5"]
    assert leaves_of(topology, "s1") == leaves_of(topology, "s2") == ["s3", "s4", "s5"]
    assert topology.server_of("h5") == "n2" and topology.local_rank("h5") == 1
    assert topology.server_of("h7") == "h7" and topology.local_rank("h7") == 0
    assert {tier: topology.tiers.count(tier) for tier in topology.tiers} == {
        "scale_up": 6,
        "nic": 9,
        "fabric": 3,
    }


@pytest.mark.parametrize(
    "options, found",
    [
        ({"leaves": 4, "spines": 1}, [["s5", "s6"]] * 2 + [["s7", "s8"]] * 2),  # two pods
        ({"leaves": 1}, [["s5", "s5"]] * 4),
        ({"rail_optimized": False}, [["s5", "s5"]] * 4),
        (
            {"rail_optimized": False, "leaves": 2, "spines": 1},
            [["s5", "s5"]] * 2 + [["s6", "s6"]] * 2,
        ),
    ],
)
def test_the_leaves_of_servers(options: dict, found: list) -> None:
    topology = Rails(servers=4, ranks=2, **options)
    topology.check()
    assert [leaves_of(topology, f"s{number}") for number in range(1, 5)] == found


def test_hosts_for_parameter_servers_of_servers_are_parts_of_them() -> None:
    topology = Rails(servers=2, ranks=2, ps=0, server_ps=1)
    assert topology.servers == {"n1": ("h1", "h2", "h5"), "n2": ("h3", "h4", "h6")}
    assert topology.switch_of("h6") == "s2"


def test_each_tier_has_its_rate() -> None:
    topology = Rails(
        servers=4,
        ranks=2,
        spines=1,
        scale_up={"bandwidth": "900 Gbit/s", "delay": "300 ns"},
        nic="400 Gbit/s",
        oversubscription=2,
    )
    of_tier = dict(zip(topology.tiers, topology.link_options, strict=True))
    assert of_tier["scale_up"] == {"bandwidth": "900 Gbit/s", "delay": "300 ns"}
    assert of_tier["nic"] == {"bandwidth": "400 Gbit/s"}
    # Four NICs on each leaf, half of their rate on its link to the spine.
    assert of_tier["fabric"] == {"bandwidth": "800 Gbit/s"}
    text = "topology: {kind: rails, servers: 2, ranks: 1, nic: 4 Gbit/s}\nsystem: ps\n" + JOB
    assert load_text(text).directions[-1][0].bandwidth_bps == 4 * 10**9


@pytest.mark.parametrize(
    "options, option, message",
    [
        ({"leaves": 3}, "leaves", "a multiple or a divisor"),
        ({"leaves": 20}, "leaves", "5 pods"),
        ({"leaves": 8}, "spines", "need spines"),
        ({"rail_optimized": False, "leaves": 2}, "spines", "need spines"),
        ({"rail_optimized": False, "leaves": 5}, "leaves", "at most 4"),
        ({"servers": 0}, "servers", "1 to 1024"),
        ({"ranks": 65}, "ranks", "1 to 64"),
        ({"server_ps": -1}, "server_ps", "0 to 64"),
        ({"nic": 4}, "nic", "a bandwidth, such as"),
        ({"oversubscription": 2}, "oversubscription", "needs spines"),
        ({"oversubscription": 2, "spines": 1}, "oversubscription", "bandwidth of nic"),
        ({"oversubscription": -1, "spines": 1}, "oversubscription", "more than 0"),
        (
            {"oversubscription": 2, "spines": 1, "nic": "1 Gbit/s", "fabric": "1 Gbit/s"},
            "oversubscription",
            "take one of them out",
        ),
        ({"oversubscription": 2, "spines": 1, "nic": "fast"}, "nic", "fast"),
    ],
)
def test_rails_that_cannot_be(options: dict, option: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as error:
        Rails(**{"servers": 4, "ranks": 4, **options})
    assert error.value.option == option


@pytest.mark.parametrize(
    "kind, options, servers",
    [
        ("star", {"hosts": 5}, {"n1": "h1 h2", "n2": "h3 h4", "n3": "h5"}),
        ("two_level", {"tors": 2, "hosts": 2}, {"n1": "h1 h2", "n2": "h3 h4"}),
        (
            "leaf_spine",
            {"leaves": 2, "spines": 1, "hosts": 3},
            {"n1": "h1 h2", "n2": "h3", "n3": "h4 h5", "n4": "h6"},
        ),
        ("fat_tree", {"k": 2, "hosts": 2}, {"n1": "h1 h2", "n2": "h3 h4"}),
    ],
)
def test_other_topologies_have_servers_too(kind: str, options: dict, servers: dict) -> None:
    alone, topology = KINDS[kind](**options), KINDS[kind](**options, per_server=2)
    topology.check()
    assert not alone.servers and alone.links == topology.links and alone.hosts == topology.hosts
    assert {name: " ".join(hosts) for name, hosts in topology.servers.items()} == servers
    with pytest.raises(TopologyError, match="1 to 64"):
        KINDS[kind](**options, per_server=0)


def test_servers_in_lists() -> None:
    topology = Rails(servers=2, ranks=2, nic="1 Gbit/s").plain()
    lists = listed(topology)
    assert Explicit(**lists) == topology and Explicit(**lists).servers == topology.servers
    assert lists["hosts"][0] == {"name": "h1", "server": "n1"}
    assert lists["hosts"][4] == {"name": "h5", "ps": True}
    lists["hosts"][0] = "h1"
    assert Explicit(**lists) != topology
    lists["links"] = [["h1", "s1"]]
    assert Explicit(**{**lists, "hosts": ["h1"]}).tiers == ("host",)


@pytest.mark.parametrize(
    "host, message",
    [
        ("{name: h1, server: N1}", "server 'N1': a name is a small letter"),
        ("{name: h1, server: s1}", "s1 is the name of a node and of a server"),
        ("{server: n1}", "has the keys name, server and ps"),
        ("{name: h1, ps: 3}", "found ps: 3; allowed: true or false"),
        ("{name: h1, machine: n1}", "has the keys name, server and ps"),
    ],
)
def test_servers_that_cannot_be(host: str, message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        load_text(
            f"topology: {{kind: explicit, hosts: [{host}, h2], switches: [s1],"
            " links: [[h1, s1], [h2, s1]]}\nsystem: ps\n" + JOB
        )
