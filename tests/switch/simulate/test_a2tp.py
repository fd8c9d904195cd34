"""A2TP in virtual time: the published directions of its effects."""

from __future__ import annotations

from testbed.experiment import load_text
from tests.support.virtual import run_virtual

# One worker of job b has a slow link. The servers' links have room for what bypasses.
TEXT = """
name: a2tp
runtime: virtual
topology: {kind: star, hosts: 8}
links:
  bandwidth: 10 Gbit/s
  delay: 1 us
  each:
    - {between: [h4, s1], bandwidth: 40 Gbit/s}
    - {between: [h8, s1], bandwidth: 40 Gbit/s}
    - {between: [h5, s1], forward: {bandwidth: 3 Gbit/s}}
system: %s
memory: {aggregators: 100}
values_per_packet: 4
jobs:
  - {name: a, model: resnet18, scale: 0.0006, compute_scale: 0, workers: 3, iterations: 2}
  - {name: b, model: resnet18, scale: 0.0006, compute_scale: 0, workers: 3, iterations: 2}
"""


def found(system: str) -> dict[str, tuple[int, float, int]]:
    """Of both jobs: JCT, share of fragments that were completed in the switch, collisions."""
    tables = run_virtual(load_text(TEXT % system))
    counted = {(row["job"], row["counter"]): row["value"] for row in tables["switch_counters"]}
    made = {}
    for number, job in enumerate(tables["jobs"]):
        assert job["exact"]
        share = counted[number, "completions"] / (job["fragments"] * job["iterations"])
        made[job["name"]] = job["jct_ns"], share, counted[number, "collisions"]
    return made


def test_a_job_with_a_straggler_leaves_aggregators_to_the_other_one():
    a2tp, atp = found("a2tp"), found("atp")
    assert atp["a"][1] < 0.5 * atp["b"][1]  # the straggler holds what it has got
    assert a2tp["a"][1] > a2tp["b"][1]
    assert a2tp["b"][1] < 0.5 * atp["b"][1]
    for job in ("a", "b"):
        assert a2tp[job][2] < 0.6 * atp[job][2] and a2tp[job][0] < atp[job][0]
