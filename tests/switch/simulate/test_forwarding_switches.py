"""Switches that only forward, under the systems that aggregate on every switch of a job's way: the
others aggregate what comes through, and every value is exact."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import UserError

from tests.support.experiments import experiment
from tests.support.virtual import run_virtual

TEXT = """
name: forwarding
runtime: virtual
topology: %(topology)s
links: {bandwidth: 10 Gbit/s, delay: 1 us}
switches: {each: [{switch: %(off)s, aggregates: false}]}
system: %(system)s
memory: {aggregators: 1024}
jobs:
  - name: job
    model: resnet18
    workers: %(workers)d
    iterations: 2
    scale: 0.0003
    placement: {workers: [%(hosts)s]%(ps)s}
"""
# Topology, workers, server.
TWO_LEVEL = (
    "{kind: two_level, tors: 2, hosts: 4, servers: 2}",
    ("h1", "h2", "h5", "h6"),
    "h9",
)
TRIANGLE = ("{kind: triangle, bandwidth: 10 Gbit/s}", ("h1", "h2", "h5", "h6", "h7"), "h9")
LEAF_SPINE = (
    "{kind: leaf_spine, leaves: 3, spines: 2, hosts: 3}",
    ("h1", "h2", "h4", "h5"),
    "h7",
)
# What only forwards; who completes sums towards a server; and where the root is some switch.
CASES = [
    pytest.param(TWO_LEVEL, "s1", {"s2", "s3"}, {"s2", "s3"}, id="a rack of two"),
    pytest.param(TRIANGLE, "s3", {"s1", "s2"}, {"s1", "s2"}, id="the server's corner"),
    pytest.param(LEAF_SPINE, "s4", {"s1", "s2", "s3"}, {"s1", "s2", "s5"}, id="a spine"),
    pytest.param(
        TWO_LEVEL, "s3", {"s1", "s2"}, {"s1", "s2"}, id="the middle", marks=pytest.mark.slow
    ),
    pytest.param(LEAF_SPINE, "s1", {"s2", "s4"}, {"s2", "s4"}, id="a leaf", marks=pytest.mark.slow),
]


def loaded(network, off: str, system: str):
    topology, workers, server = network
    return experiment(
        TEXT
        % {
            "topology": topology,
            "off": off,
            "system": system,
            "workers": len(workers),
            "hosts": ", ".join(workers),
            "ps": "" if system == "switchml" else f", ps: {server}",
        }
    )


@pytest.mark.parametrize("system", ["esa", "atp", "switchml"])
@pytest.mark.parametrize(("network", "off", "to_server", "to_root"), CASES)
def test_the_others_aggregate(network, off, to_server, to_root, system):
    spec = loaded(network, off, system)
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    assert job["exact"]
    # What collided in one rack goes up raw and marked, so that ATP's sum above it has to be pulled.
    assert job["retransmissions"] == 0 or system == "atp"
    completing = {
        row["switch"]
        for row in tables["switch_counters"]
        if row["counter"] == "completions" and row["value"]
    }
    assert completing == (to_root if system == "switchml" else to_server)
    assert not [row for row in tables["switch_counters"] if row["switch"] == off and row["value"]]


def test_one_switch_must_aggregate():
    text = TEXT.split("switches:")[0] + (
        "switches: {aggregates: false}\nsystem: %(system)s\nmemory: {aggregators: 64}\n"
        "jobs: [{model: resnet18, workers: 2, iterations: 1}]\n"
    )
    for system in ("esa", "atp", "switchml"):
        with pytest.raises(UserError, match="switches: no switch is left that aggregates for"):
            experiment(text % {"topology": TRIANGLE[0], "system": system})
