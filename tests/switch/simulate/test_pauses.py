"""Links that pause: over a leaf-spine of 2:1 nothing is dropped and nothing sent again, where lossy
links drop."""

from __future__ import annotations

import pytest
from p4engine.switch import lossless_links

from testbed.run_parts.program import prepare
from testbed.simulate.simulation import Simulation
from tests.support.experiments import memory_line, setup_of
from tests.support.virtual import run_virtual
from testbed.experiment import load_text

TEXT = """
name: pauses
runtime: virtual
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 6}
links:
  bandwidth: 10 Gbit/s
  delay: 1 us
  queue: 30 packets
  ecn_threshold: none
  lossless: %(lossless)s
  each:
    - {between: [s1, s3], bandwidth: 15 Gbit/s}
    - {between: [s2, s3], bandwidth: 15 Gbit/s}
system: %(system)s
%(memory)s
values_per_packet: 64
jobs:
  - {workers: 4, model: resnet18, scale: 0.002, compute_scale: 0, iterations: 1, %(a)s}
  - {workers: 4, model: resnet18, scale: 0.002, compute_scale: 0, iterations: 1, %(b)s}
"""
A = "placement: {workers: [h1, h2, h7, h8]%s}"
B = "placement: {workers: [h4, h5, h9, h10]%s}"


def spec_of(system: str, lossless: str, memory: int = 64):
    servers = ", ps: h11", ", ps: h6"
    if "switchml" in system or "tree" in system or "ring" in system:
        servers = "", ""
    text = TEXT % {
        "lossless": lossless,
        "system": system,
        "memory": memory_line(system, memory),
        "a": A % servers[0],
        "b": B % servers[1],
    }
    return load_text(text)


def drops_and_resent(tables) -> tuple[int, int]:
    drops = sum(row["queue_drops"] for row in tables["links"])
    return drops, sum(job["retransmissions"] for job in tables["jobs"])


@pytest.mark.parametrize("system", ["{name: esa, window: 256}", "{name: switchml}"])
def test_lossless_links_drop_and_resend_nothing(system):
    lossy = drops_and_resent(run_virtual(spec_of(system, "none")))
    assert lossy[0] > 0 and lossy[1] > 0
    assert drops_and_resent(run_virtual(spec_of(system, "pfc"))) == (0, 0)
