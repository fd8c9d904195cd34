"""The option `sum`, and the old key `value_bits`: what does not go together, and who is told of
it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed import dataplane
from testbed.number_formats import MOST_PACKED
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from testbed.systems import SYSTEMS
from tests.support.experiments import experiment, memory_line, message
from tests.support.switches import Recorder

TEXT = """
name: test
topology: {kind: star, hosts: 5}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s, sum: %(sum)s}
%(memory)s
values_per_packet: %(values)d
value_bits: %(bits)d
jobs:
  - {%(job)s, workers: %(workers)d}
"""
REPLAY = "model: alexnet, iterations: 1, scale: 0.001"
RANKS = (
    "model: {transformer: llama2-7b, sequence: 64, global_batch: 3, layers: 1}, iterations: 1,"
    " parallel: {dp: 3}"
)
OLD = {"sum": "int32", "bits": 16}


def text(system="esa", sum="float32", bits=32, job=REPLAY, values=64, workers=3) -> str:
    parts = {"system": system, "sum": sum, "bits": bits, "job": job, "values": values}
    return TEXT % {**parts, "workers": workers, "memory": memory_line(system, 8)}


@pytest.mark.parametrize(
    "parts, expected",
    [
        ({"sum": "int16", "values": 1}, "found int16 with values_per_packet 1; allowed: 2 values"),
        ({"sum": "int8", "values": 2}, "found int8 with values_per_packet 2; allowed: 4 values"),
        ({"sum": "int8", "system": "ring"}, "sum: found int8 with system ring, whose workers"),
        (
            {"sum": "int8", "workers": 259},
            "found int8, and job alexnet-0 has 259 workers: a sum of",
        ),
        ({"sum": "float32_exact", "system": "atp"}, "with system atp; switches pass on sums of"),
        ({"sum": "mx8"}, "found mx8 with system esa; switches pass on sums of"),
        ({"sum": "mx8", "system": "ps", "values": 16}, "packet 16; allowed: 32 values or more"),
        ({"sum": "float32_exact", "system": "tree"}, "workers of a job that gets no tree pass on"),
        ({"sum": "float32_exact", "system": "ring"}, "with system ring; workers pass on sums of"),
        ({"sum": "bfloat16", "system": "ring"}, "sum: found bfloat16 with system ring, whose"),
        ({"bits": 16}, "value_bits: found 16 with sum: float32"),
        ({**OLD, "values": 1}, "value_bits: found 16 with values_per_packet 1"),
        ({**OLD, "system": "ring"}, "value_bits: found 16 with system ring"),
        (
            {**OLD, "job": "name: x, command: 'true', sums: {float32: int32}"},
            "value_bits: found 16, and a job has sums",
        ),
        (
            {"sum": "int8", "job": "name: x, command: 'true', sums: {bfloat16: int16}"},
            "jobs[0].sums: found int16 with sum: int8; allowed: int8, int32: a switch program has",
        ),
        ({"job": "command: 'true', sums: {tp: float32}"}, "sums: found tp; types of a program: fl"),
        ({"job": f"{REPLAY}, sums: {{tp: float32}}"}, "sums: is for jobs that are programs"),
        ({"job": f"{RANKS}, sums: {{dp: int32}}"}, "found int32 with sum: float32; allowed: float"),
        (
            {"job": f"{RANKS}, sums: {{tp: float32}}"},
            "jobs[0].sums: found tp; groups and types of the program: dp, float32",
        ),
        (
            {"job": "name: x, command: 'true', numbers: fixed", "system": "atp"},
            "found fixed with value_bits 16 or sum: float32; a fixed scale is that of int32",
        ),
    ],
)
def test_what_does_not_go_together_is_an_error(parts, expected):
    assert expected in message(text(**parts))


ARRIVALS = """
name: test
runtime: virtual
topology: {kind: star, hosts: 9}
links: {bandwidth: 1 Gbit/s}
system: {name: esa, sum: %(sum)s}
memory: {aggregators: 64}
virtual: {keep_sums: %(kept)s}
arrivals:
  poisson: {jobs: 3, load: 50 %%, kinds: [{model: %(model)s, workers: 3, iterations: 2}]}
"""


@pytest.mark.parametrize(
    "parts, expected",
    [
        ({"job": RANKS}, "parts: found 8, and group dp.0 of job llama2-7b-0 has 3 ranks; allowed"),
        ({"sum": "int8"}, "sums of int8 are rounded by the number of workers. Take another format"),
        ({"sum": "bfloat16"}, "parts of bfloat16 are hardly ever rounded. Take another format"),
        ({"job": REPLAY, "workers": 3}, "job alexnet-0 has 3 ranks; allowed: 3, 6, 12"),
        ({"job": RANKS.replace("dp: 3", "dp: 3, sharding: zero1")}, "reduce_scatter of group dp.0"),
    ],
)
def test_parts_of_sums_need_ranks_that_share_them(parts, expected):
    assert expected in message(
        text(**parts) + "runtime: virtual\nvirtual: {keep_sums: true, sum_parts: 8}"
    )


def test_jobs_that_arrive_are_asked_too():
    wrong = message(ARRIVALS % {"sum": "float32", "kept": "true", "model": "alexnet"})
    assert "keep_sums: found true with arrivals" in wrong


@pytest.mark.parametrize("system", SYSTEMS)
def test_hosts_and_switches_are_told(system):
    setup = set_up(experiment(text(system)))
    assert {host.job.sum for host in host_specs(setup)} == {"float32"}
    defines = dataplane.program(setup.platform)[1]
    assert defines.get("ADDER") == (1 if SYSTEMS[system].memory else None)
    plain = set_up(experiment(text(system, sum="int32")))
    assert "ADDER" not in dataplane.program(plain.platform)[1]


def test_the_old_key_is_the_format_int16_with_a_warning():
    old = experiment(text(sum="int32", bits=16))
    assert any("value_bits: 16 is now the system's option sum: int16" in w for w in old.warnings)
    both = [set_up(each) for each in (old, experiment(text(sum="int16")))]
    made = [[replace(host.job, sum="") for host in host_specs(setup)] for setup in both]
    assert made[0] == made[1]
    assert dataplane.program(both[0].platform) == dataplane.program(both[1].platform)


def test_two_sums_share_a_word_unless_a_program_needs_it():
    assert "PACKED" in dataplane.program(set_up(experiment(text(sum="int8"))).platform)[1]
    command = text(sum="int8", job="name: x, command: 'true'")
    assert "PACKED" not in dataplane.program(set_up(experiment(command)).platform)[1]
    assert "INTEGERS" not in dataplane.program(set_up(experiment(command)).platform)[1]
    floats = dataplane.program(set_up(experiment(command.replace("int8", "float32"))).platform)
    assert "INTEGERS" in floats[1]
    assert "INTEGERS" not in dataplane.program(set_up(experiment(text())).platform)[1]
    most = text(sum="int8", workers=258, system="esa").replace("hosts: 5", "hosts: 259")
    assert experiment(most).jobs[0].workers == 258 == MOST_PACKED


def test_an_algorithm_of_hosts_beside_the_system_adds_in_the_same_format():
    platform = set_up(experiment(text("tree"))).platform
    assert platform.of_algorithm("ring").sum.name == "float32"


@pytest.mark.parametrize("system", ["esa", "atp", "switchml", "grid", "ps"])
def test_values_of_16_bits_halve_the_least_time(system):
    short, full = (set_up(experiment(text(system, sum=name))) for name in ("int16", "int32"))
    assert dataplane.program(short.platform)[1]["VALUE_BITS"] == 16
    assert "VALUE_BITS" not in dataplane.program(full.platform)[1]
    assert {host.job.value_bits for host in host_specs(short)} == {16}
    bounds = [each.jobs[0].bound_ns for each in (short, full)]
    assert bounds[0] / bounds[1] == pytest.approx(198 / 326, abs=1e-3)


@pytest.mark.parametrize("workers, entry", [(3, [7, 2, 1, 1]), (1, [1, 0, 0, 0])])
def test_switches_are_told_how_to_round(workers, entry):
    recorder = Recorder()
    dataplane.install(set_up(experiment(text(sum="int16", workers=workers))), "s1", recorder)
    calls = [call for call in recorder.calls if call[1] == "rounding"]
    assert calls == [("table_add", "rounding", "set_rounding", [0], entry)]


def test_no_host_says_how_long_headers_take_at_least():
    zeros = text(sum="int32").replace("name: esa", "name: esa, zeros: header_only")
    setup = set_up(experiment(zeros))
    assert dataplane.program(setup.platform)[1]["ZEROS"] == 1
    hosts = [host.job for host in host_specs(setup)]
    assert all(job.omit_zeros and job.bound_ns is None for job in hosts)
