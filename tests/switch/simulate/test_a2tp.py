"""A2TP in virtual time: the published directions of its effects."""

from __future__ import annotations

from testbed.experiment import load_text
from tests.support.virtual import run_virtual

# Job b has a worker on a slow link.
TEXT = """
name: a2tp
runtime: virtual
topology: {kind: star, hosts: 10}
links:
  bandwidth: 50 Gbit/s
  delay: 1 us
  each: [{between: [h6, s1], forward: {bandwidth: 15 Gbit/s}}]
system: {name: %s, window: 450}
memory: {aggregators: 450}
jobs:
  - {name: a, model: vgg16, workers: 4, iterations: 2, scale: 0.003, compute_scale: 0}
  - {name: b, model: vgg16, workers: 4, iterations: 2, scale: 0.003, compute_scale: 0}
"""


def found(system: str) -> dict[str, tuple[int, float]]:
    """Of both jobs: JCT, and the share of fragments that were completed in the switch."""
    tables = run_virtual(load_text(TEXT % system))
    counted = {(row["job"], row["counter"]): row["value"] for row in tables["switch_counters"]}
    for job in tables["jobs"]:
        assert job["exact"]
    return {
        job["name"]: (
            job["jct_ns"],
            counted[job["job"], "completions"] / (job["fragments"] * job["iterations"]),
        )
        for job in tables["jobs"]
    }


def test_a_straggler_leaves_aggregators_to_the_other_job():
    a2tp, atp = found("a2tp"), found("atp")
    assert a2tp["a"][1] > a2tp["b"][1]
    assert a2tp["a"][1] > atp["a"][1] and a2tp["b"][1] < atp["b"][1]
    assert a2tp["a"][0] < atp["a"][0]
