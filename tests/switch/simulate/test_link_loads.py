"""Bytes on links before a run (testbed/setup/link_loads.py), against the links of virtual time."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.link_loads import loads_of
from tests.support.experiments import memory_line
from tests.support.matrix import first_of
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 3}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
system: {name: %s}
%s
values_per_packet: 256
jobs:
  - {name: job, model: %s, workers: 4, iterations: 1}
"""
SIZE = 4 * 256 * 4 * 50  # bytes of 200 packets
MORE = ("grid", "atp", "tree", "halving_doubling", "double_tree", "hierarchical", "colocated_ps")
FRAME = 14 + 20 + 8 + 24 + 4 + 4 * 256
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send")


def experiment(folder, kind: str, system: str):
    made = Ranks(everyone=(0, 1, 2, 3))
    for rank in range(4):
        given = SIZE // 4 if kind == "all_gather" else SIZE
        if kind == "send":
            peers = {0: ("send", 3), 3: ("recv", 0)}
            if rank in peers:
                which, peer = peers[rank]
                made.add(rank, which, peer=peer, bytes=given)
            else:
                made.add(rank, "compute", duration_ns=1)
            continue
        root = {"peer": 1} if kind in ("broadcast", "reduce") else {}
        made.add(rank, kind, group="everyone", bytes=given, dtype="float32", **root)
    path = made.write(folder / "one.et")
    return load_text(EXPERIMENT % (system, memory_line(system, 4096), path))


def packets(spec) -> dict[tuple[str, str], float]:
    """Packets by the two ends of a link, from, to."""
    setup = set_up(spec)
    found: Counter[tuple[str, str]] = Counter()
    for (link, end), size in _ways(loads_of(setup, 0).bytes).items():
        ends = setup.platform.topology.links[link]
        found[(ends[0], ends[1]) if end == 0 else (ends[1], ends[0])] += size / FRAME
    return {way: count for way, count in found.items() if count}


def _ways(sizes) -> Counter:
    found: Counter = Counter()
    for (way, _), size in sizes.items():
        found[way] += size
    return found


@pytest.mark.parametrize("kind", first_of(KINDS, 7))
@pytest.mark.parametrize("system", first_of(["esa", "switchml", "ring", "ps", *MORE], 3))
def test_links_carry_at_least_what_was_counted_before(system, kind, tmp_path):
    """And not much more: headers without values, acknowledgements."""
    spec = experiment(tmp_path, kind, system)
    tables = run_virtual(spec)
    assert tables["jobs"][0]["exact"]
    carried = carried_by(tables)
    counted = packets(spec)
    assert counted
    for way, count in counted.items():
        assert count <= carried[way] * 1.001, way
        assert carried[way] <= 1.15 * count + 60, way


def carried_by(tables) -> dict[tuple[str, str], float]:
    """Packets that links of switches carried, by their two ends."""
    found = {}
    for row in tables["links"]:
        if row["node"].startswith("s"):
            ends = row["node"], row["neighbour"]
            found[ends if row["direction"] == "egress" else ends[::-1]] = row["bytes"] / FRAME
    return found


def test_a_switch_that_only_forwards_passes_everything_on(tmp_path):
    """Three workers are below it: it passes three gradients up, and three results down."""
    text = experiment(tmp_path, "all_reduce", "switchml").resolved_yaml()
    before = "  each: []\nsystem:"
    assert before in text
    spec = load_text(text.replace(before, "  each: [{switch: s1, aggregates: false}]\nsystem:"))
    found = packets(spec)
    assert found["s1", "s3"] == found["s3", "s1"] == 600
    assert {count for way, count in found.items() if set(way) != {"s1", "s3"}} == {200}
    carried = carried_by(run_virtual(spec))
    for way, count in found.items():
        assert count <= carried[way] * 1.001 and carried[way] <= 1.15 * count + 60, way


def test_an_all_reduce_has_the_bytes_of_the_formulas(tmp_path):
    """Four ranks, two on each leaf, 200 packets: S up and down in switches, 2 (n - 1) / n S round a
    ring, and n S at a parameter server, which is the sixth host."""
    found = {}
    for system in ("switchml", "ring", "ps", "esa"):
        spec = experiment(tmp_path, "all_reduce", system)
        found[system] = packets(spec)
    hosts = spec.jobs[0].fixed_placement.workers
    assert hosts == ("h1", "h2", "h3", "h4")
    tree = found["switchml"]
    assert set(tree.values()) == {200}
    assert {("h1", "s1"), ("s1", "h1"), ("s1", "s3")} <= set(tree)
    ring = found["ring"]
    assert set(ring.values()) == {300} and ("s1", "h1") in ring and ("s1", "s3") in ring
    server = found["ps"]
    assert max(server.values()) == 800 and server["h1", "s1"] == 200
    esa = found["esa"]
    assert set(esa.values()) == {200}
