"""Virtual time: hosts and switches of whole experiments, with links and without a network."""

from __future__ import annotations

import pytest

from testbed.run.program import prepare
from testbed.run.virtual_run import run_repetition
from tests.switch.ina import experiment

MEMORY = "memory: {aggregators: 48}"
TEXT = """
name: test
runtime: virtual
topology: %(topology)s
links: {bandwidth: 10 Gbit/s, delay: 1 us, ecn_threshold: 40 packets, %(links)s}
system: %(system)s
%(memory)s
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.002}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.0002, start: 50 us}
"""
STAR = "{kind: star, hosts: 10}"
TWO_LEVEL = "{kind: two_level, tors: 2, hosts: 4, servers: 2}"
SYSTEMS = ("esa", "atp", "switchml", "ps", "ring")


def text(system="esa", topology=STAR, links="loss: 0 %"):
    memory = "" if system in ("ps", "ring") else MEMORY
    return TEXT % {"system": system, "topology": topology, "links": links, "memory": memory}


def run(source):
    spec = experiment(source)
    return run_repetition(spec, prepare(spec).compiled, 0)


@pytest.mark.parametrize("topology", [STAR, TWO_LEVEL])
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_is_exact(system, topology):
    tables = run(text(system, topology))
    for job in tables["jobs"]:
        assert job["exact"]
        assert job["values_checked"] == job["values"] * job["iterations"] * job["workers"]
        # No faster than the links allow.
        assert job["jct_ns"] >= job["communication_bound_ns"] > 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_losses_are_made_good(system):
    tables = run(text(system, links="loss: 1 %"))
    assert sum(link["losses"] for link in tables["links"]) > 0
    assert sum(job["retransmissions"] for job in tables["jobs"]) > 0
    assert all(job["exact"] for job in tables["jobs"])
