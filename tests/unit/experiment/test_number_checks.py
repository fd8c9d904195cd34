"""The option `sum`: what does not go together, and who is told of it."""

from __future__ import annotations

import pytest

from testbed import dataplane
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from testbed.systems import SYSTEMS
from tests.support.experiments import experiment, memory_line, message
from tests.support.recordings import write_recording

TEXT = """
name: test
topology: {kind: star, hosts: 5}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s, sum: %(sum)s}
%(memory)s
value_bits: %(bits)d
jobs:
  - {%(job)s, workers: 3}
"""
REPLAY = "model: alexnet, iterations: 1, scale: 0.001"


def text(system="esa", sum="float32", bits=32, job=REPLAY) -> str:
    memory = memory_line(system, 8)
    return TEXT % {"system": system, "sum": sum, "memory": memory, "bits": bits, "job": job}


@pytest.mark.parametrize(
    "parts, expected",
    [
        ({"sum": "float31"}, "sum: found 'float31'; allowed: int32, float32"),
        ({"bits": 16}, "value_bits: found 16 with sum: float32"),
        ({"job": "name: x, command: 'true'"}, "sum: found float32, and job x is a program"),
    ],
)
def test_what_does_not_go_together_is_an_error(parts, expected):
    assert expected in message(text(**parts))


def test_recorded_values_are_an_error(tmp_path):
    recording = write_recording(tmp_path / "recorded.npz", 3)
    wrong = message(text(job=f"name: x, model: {recording}, iterations: 2"))
    assert "sum: found float32, and the model of job x has recorded values" in wrong
    both = message(text(job=f"name: x, model: {recording}"))
    assert "iterations: missing" in both


@pytest.mark.parametrize("system", SYSTEMS)
def test_hosts_and_switches_are_told(system):
    setup = set_up(experiment(text(system)))
    assert {host.job.sum for host in host_specs(setup)} == {"float32"}
    defines = dataplane.program(setup.platform)[1]
    assert defines.get("ADDER") == (1 if SYSTEMS[system].memory else None)
    plain = set_up(experiment(text(system, sum="int32")))
    assert "ADDER" not in dataplane.program(plain.platform)[1]
