"""Whole runs on two levels of switches, with loss on every link."""

from __future__ import annotations

import pytest

from tests.support.runs import finished

TEXT = """
name: two-level
topology: {{kind: two_level, tors: 2, hosts: 4, servers: 2}}
links: {{bandwidth: 20 Mbit/s, loss: 1 %}}
system: {{name: {system}, window: 64}}
memory: {{aggregators: 96}}
jobs:
  - model: resnet50
    workers: 4
    iterations: 2
    scale: 0.006
    compute_scale: 0
    placement: {{workers: [h1, h2, h5, h6], ps: h9}}
  - model: vgg16
    workers: 4
    iterations: 2
    scale: 0.0008
    compute_scale: 0
    placement: {{workers: [h3, h4, h7, h8], ps: h10}}
"""


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_jobs_across_racks_are_exact_at_one_percent_loss(system, tmp_path):
    path = tmp_path / "two_level.yaml"
    path.write_text(TEXT.format(system=system))
    read = finished(path, tmp_path / "results")
    assert read.jobs.gradient_packets.sum() >= 20_000
    assert (read.jobs.retransmissions > 0).all() and read.links.losses.sum() > 500
    completions = read.switch_counters.query("counter == 'completions'")
    by_switch = completions.groupby("switch").value.sum()
    assert set(by_switch.index) == {"s1", "s2", "s3"} and (by_switch > 1000).all()
