"""Static trees on Mininet: jobs survive what takes switches their memory; every value is right."""

from __future__ import annotations

import pytest

from tests.support.runs import finished

TEXT = """
name: trees
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts: 3}
links: {bandwidth: 5 Mbit/s, delay: 1 ms}
system: tree
memory: {aggregators: 128}
timeout: 20 s
jobs:
  - {name: a, model: resnet18, workers: 4, iterations: 4, scale: 0.003, compute_scale: 0}
  - {name: b, model: resnet18, workers: 2, iterations: 1, scale: 0.001, compute_scale: 0}
faults:
  - {fault: restart, switch: %s, at: 500 ms}
"""


@pytest.mark.slow
@pytest.mark.parametrize("switch", ["s3", "s1"])  # the root, and a leaf
def test_a_switch_that_begins_anew_has_lost_results_that_workers_have(tmp_path, switch):
    read = finished(TEXT % switch, tmp_path / "r")
    a, b = read.jobs.to_dict("records")
    assert (a["trees"], a["exact"], a["outcome"]) == ("s3", True, "finished")
    assert a["retransmissions"] > 0
    assert (b["fallback"], b["refused"], b["exact"]) == ("ring", "s2 is held by a", True)
