"""Settings that an experiment may have with `value_bits`, and their consequences."""

from __future__ import annotations

import pytest

from testbed import dataplane
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from tests.support.experiments import experiment, memory_line, message
from tests.support.switches import Recorder

TEXT = """
name: test
topology: {kind: star, hosts: 5}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s%(options)s}
%(memory)s
values_per_packet: %(values)d
value_bits: %(bits)s
jobs:
  - {%(job)s, workers: 3}
"""
REPLAY = "model: alexnet, iterations: 1, scale: 0.001"


def text(system="esa", options="", values=64, bits: object = 16, job=REPLAY) -> str:
    memory = memory_line(system, 8)
    return TEXT % {
        "system": system,
        "options": options,
        "memory": memory,
        "values": values,
        "bits": bits,
        "job": job,
    }


@pytest.mark.parametrize(
    "parts, expected",
    [
        ({"bits": 8}, "value_bits: found 8; allowed: a power of two: 16, 32"),
        ({"values": 1}, "value_bits: found 16 with values_per_packet 1"),
        ({"system": "ring"}, "value_bits: found 16 with system ring"),
        (
            {"system": "atp", "job": "name: x, command: 'true', numbers: fixed"},
            "numbers: found fixed with value_bits 16",
        ),
        (
            {"job": "name: x, command: 'true', sums: {float32: int32}"},
            "value_bits: found 16, and a job has sums",
        ),
    ],
)
def test_what_cannot_be_is_an_error(parts, expected):
    assert expected in message(text(**parts))


@pytest.mark.parametrize("system", ["esa", "atp", "switchml", "grid", "ps"])
def test_hosts_and_program_know_it(system):
    setup = set_up(experiment(text(system)))
    assert dataplane.program(setup.platform)[1]["VALUE_BITS"] == 16
    assert {host.job.value_bits for host in host_specs(setup)} == {16}
    full = set_up(experiment(text(system, bits=32)))
    assert "VALUE_BITS" not in dataplane.program(full.platform)[1]
    halves = [each.jobs[0].bound_ns for each in (setup, full)]
    assert halves[0] / halves[1] == pytest.approx(198 / 326, abs=1e-3)


@pytest.mark.parametrize("workers, entry", [(3, [7, 2, 1, 1]), (1, [1, 0, 0, 0])])
def test_switches_are_told_how_to_round(workers, entry):
    recorder = Recorder()
    setup = set_up(experiment(text().replace("workers: 3", f"workers: {workers}")))
    dataplane.install(setup, "s1", recorder)
    calls = [call for call in recorder.calls if call[1] == "rounding"]
    assert calls == [("table_add", "rounding", "set_rounding", [0], entry)]


def test_no_host_says_how_long_headers_take_at_least():
    setup = set_up(experiment(text(options=", zeros: header_only", bits=32)))
    assert dataplane.program(setup.platform)[1]["ZEROS"] == 1
    assert {host.job.bound_ns for host in host_specs(setup)} == {None}
    assert all(host.job.omit_zeros for host in host_specs(setup))
