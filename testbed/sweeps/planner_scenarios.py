"""The networks on which planners are compared: those that the GRID paper describes.

Two data centres: a leaf-spine of 60 switches and 500 hosts, and a fat-tree of 80 switches and 192
hosts. One switch in five aggregates, with a capacity drawn evenly from 100 Gbit/s to 3.2 Tbit/s.
The paper leaves the rest open; ours: 50 leaves and 10 spines, links of 100 Gbit/s and 1 us, workers
and parameter server drawn among all hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from p4fabric.base.topology import Topology

from testbed.routing.network import Host, Link, Network, PlanJob, Switch
from testbed.topos import KINDS

LINK_BPS = 100 * 10**9
LINK_DELAY_NS = 1_000
MIN_BPS, MAX_BPS = 100 * 10**9, 3_200 * 10**9


@dataclass(frozen=True)
class Scenario:
    """One of the two data centres."""

    name: str
    title: str
    kind: str
    options: dict[str, int]

    def topology(self) -> Topology:
        return KINDS[self.kind](**self.options)


SCENARIOS = {
    each.name: each
    for each in (
        Scenario(
            "leaf-spine",
            "leaf-spine, 60 switches, 500 hosts",
            "leaf_spine",
            {"leaves": 50, "spines": 10, "hosts": 10},
        ),
        Scenario("fat-tree", "fat-tree, 80 switches, 192 hosts", "fat_tree", {"k": 8, "hosts": 6}),
    )
}

# Planning only, for bench/planners.py: 64 switches, and hosts for 1000 workers.
LARGE = Scenario(
    "large",
    "leaf-spine, 64 switches, 1008 hosts",
    "leaf_spine",
    {"leaves": 48, "spines": 16, "hosts": 21},
)


def draw(
    scenario: Scenario, workers: int, seed: int, programmable: float = 0.2
) -> tuple[Network, tuple[PlanJob, ...]]:
    """A network with one job of so many workers. `programmable`: share of switches that aggregate.

    The same seed draws the same switches whatever the number of workers, and more workers are added
    to those there are."""
    topology = scenario.topology()
    random = np.random.default_rng(seed)
    switches = topology.switches
    chosen = set(random.permutation(len(switches))[: round(programmable * len(switches))])
    capacities = random.integers(MIN_BPS // 10**6, MAX_BPS // 10**6, len(switches)) * 10**6
    hosts = [topology.hosts[place] for place in random.permutation(len(topology.hosts))]
    network = Network(
        switches=tuple(
            Switch(name, place in chosen, int(capacities[place]) if place in chosen else None)
            for place, name in enumerate(switches)
        ),
        hosts=tuple(Host(name) for name in topology.hosts),
        links=tuple(
            Link(source, target, LINK_BPS, LINK_DELAY_NS)
            for a, b in topology.links
            for source, target in ((a, b), (b, a))
        ),
    )
    return network, (PlanJob("job", tuple(hosts[1 : workers + 1]), hosts[0]),)
