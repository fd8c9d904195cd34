"""Several equal paths on Mininet: the same P4 programs choose, by the real clock."""

from __future__ import annotations

from pathlib import Path

from tests.support.runs import succeeded

EXPERIMENT = """
name: paths
topology: {kind: leaf_spine, leaves: 3, spines: 2, hosts: 2}
links: {bandwidth: 100 Mbit/s}
paths: {choice: flowlet, gap: 200 us, sums: per_root}
system: esa
memory: {aggregators: 256}
values_per_packet: 256
jobs:
  - name: a
    model: resnet18
    workers: 2
    iterations: 1
    scale: 0.004
    compute_scale: 0
    placement: {workers: [h1, h3], ps: h5}
"""


def test_sums_meet_at_two_roots(tmp_path: Path):
    read = succeeded(EXPERIMENT, tmp_path / "results")
    job = read.jobs.iloc[0]
    assert job.exact
    sums = read.switch_counters.query("counter == 'sums'").value.sum()
    links = read.links.query("direction == 'egress'").set_index(["node", "neighbour"]).packets
    for leaf in ("s1", "s3"):  # sums go up from one, results down from the other
        assert min(links[leaf, spine] for spine in ("s4", "s5")) > job.fragments / 4
    assert sums >= job.fragments - job.retransmissions > 0
