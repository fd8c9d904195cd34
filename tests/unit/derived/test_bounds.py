"""The least communication time that links allow, against the formulas worked out by hand.

A frame of 64 values and a bitmap of 32 bits has 42 + 4 x 71 = 326 bytes, 2608 bits: 130,400 ns at
20 Mbit/s. AlexNet at a scale of 0.0001 has 6110 values in 8 layers, 100 fragments.
"""

from __future__ import annotations

import pytest

from testbed.derived.bounds import communication_bound_ns
from testbed.experiment import load_text

FRAME_NS = 130_400
FRAGMENTS = 100
TEXT = """
name: bounds
topology: {kind: star, hosts: 12}
links: {%(links)s}
system: %(system)s
%(memory)s
jobs:
  - {model: alexnet, workers: %(workers)d, iterations: 3, scale: 0.0001}
"""


def bound(system: str, workers: int = 4, links: str = "bandwidth: 20 Mbit/s") -> int | None:
    memory = "" if "ps" in system or system == "ring" else "memory: {aggregators: 256}"
    parts = {"system": system, "workers": workers, "links": links, "memory": memory}
    experiment = load_text(TEXT % parts)
    assert experiment.fragments(0) == FRAGMENTS
    return communication_bound_ns(experiment, 0)


@pytest.mark.parametrize("system", ["esa", "atp", "switchml"])
@pytest.mark.parametrize("workers", [1, 4, 8])
def test_aggregation_in_the_switch_does_not_depend_on_the_workers(system, workers):
    assert bound(system, workers) == FRAGMENTS * FRAME_NS


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_the_server_s_link_carries_every_worker_s_gradient(workers):
    assert bound("ps", workers) == workers * FRAGMENTS * FRAME_NS


def test_servers_share_the_load_by_whole_fragments():
    for servers in (2, 4):
        largest = -(-FRAGMENTS // servers)
        assert bound(f"{{name: ps, servers: {servers}}}") == 4 * largest * FRAME_NS
    # With enough servers a worker's own link is what bounds.
    assert bound("{name: ps, servers: 8}") == FRAGMENTS * FRAME_NS


@pytest.mark.parametrize("workers, share", [(1, 0), (2, 1), (4, 1.5), (8, 1.75)])
def test_the_ring_sends_two_w_minus_one_w_ths(workers, share):
    found = bound("ring", workers)
    assert FRAME_NS * (share * FRAGMENTS - 1) < found <= FRAME_NS * share * FRAGMENTS


def test_the_slowest_link_and_direction_counts():
    one = "bandwidth: 20 Mbit/s, each: [{between: [h2, s1], %s: {bandwidth: 5 Mbit/s}}]"
    for way in ("forward", "backward"):
        assert bound("esa", links=one % way) == 4 * FRAGMENTS * FRAME_NS
        # A worker's slow link is no worse than the server's, which has four times the load.
        assert bound("ps", links=one % way) == 4 * FRAGMENTS * FRAME_NS
    # The server is h5; h6 is nobody's.
    slow = "bandwidth: 20 Mbit/s, each: [{between: [h%d, s1], bandwidth: 10 Mbit/s}]"
    assert bound("ps", links=slow % 5) == 8 * FRAGMENTS * FRAME_NS
    assert bound("switchml", links=slow % 6) == FRAGMENTS * FRAME_NS


def test_unlimited_links_give_no_bound():
    assert bound("esa", links="bandwidth: unlimited") is None
    only = "bandwidth: unlimited, each: [{between: [h1, s1], bandwidth: 20 Mbit/s}]"
    assert bound("esa", links=only) == FRAGMENTS * FRAME_NS
