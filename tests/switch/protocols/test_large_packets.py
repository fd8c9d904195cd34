"""Packets of up to 2,048 values, in every system: hosts and P4 programs in one process, with losses
and with fewer aggregators than fragments in flight."""

from __future__ import annotations

import pytest

from testbed.protocols.sizes import MAX_VALUES
from testbed.systems import SYSTEMS
from tests.support.experiments import memory_line
from tests.support.fabric import lossy, run_exact
from tests.support.matrix import first_of

TEXT = """
name: test
topology: {kind: star, hosts: 5}
links: {bandwidth: 1 Gbit/s}
system: %(system)s
%(memory)s
values_per_packet: %(values)d
value_bits: %(bits)d
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.01}
"""
CASES = [
    (system, bits)
    for system in sorted(SYSTEMS)
    for bits in (32, 16)
    if bits == 32 or not SYSTEMS[system].algorithm
]


@pytest.mark.parametrize(
    "system, bits", first_of(sorted(CASES, key=lambda case: case != ("esa", 16)), 1)
)
def test_every_value_is_exact(system, bits):
    faults = lossy(1, loss=0.03, duplicate=0.02, reorder=0.05)
    memory = memory_line(system, 16)
    fabric = run_exact(TEXT, faults, system=system, memory=memory, values=MAX_VALUES, bits=bits)
    assert sum(worker.counters()["retransmissions"] for worker in fabric.workers()) > 0
