"""A wrong value says what has made it: the step of the switch, and what explains the number."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from testbed.cli import main as commands
from testbed.results import find, read
from testbed.workload.wrong_value import explained
from tests.support.paths import ROOT

TEXT = """
name: wrong
runtime: virtual
topology: {topology}
links: {{bandwidth: 1 Gbit/s, delay: 5 us}}
system: {{name: {system}, program: {program}}}
memory: {{aggregators: 256}}
jobs:
  - {{name: victim, model: resnet18, workers: 3, iterations: 1, scale: 0.0005, compute_scale: 0}}
"""
STAR = "{kind: star, hosts: 4}"
RACKS = "{kind: two_level, tors: 2, hosts: 2, servers: 1}"


def failure(
    tmp_path, capsys, adding: str, topology: str = STAR, system: str = "esa, window: 32"
) -> str:
    """The error of a run whose switches compute `adding`, of the sum that they hold (`was`) and the
    value that has come (`came`), at offset 5 of packets."""
    folder = tmp_path / "p4"
    shutil.copytree(ROOT / "p4", folder)
    memory = folder / "value_memory.p4"
    sums = "EACH_VALUE(SUM_VALUE)"
    text = memory.read_text()
    assert text.count(sums) == 1
    wrong = f"""
        bit<32> was;
        bit<32> came = hdr.values.v05;
        value_05.read(was, meta.slot);
        {sums}
        value_05.write(meta.slot, {adding});
        hdr.values.v05 = {adding};
"""
    memory.write_text(text.replace(sums, wrong))
    path = tmp_path / "wrong.yaml"
    program = folder / f"{system.split(',')[0]}.p4"
    path.write_text(TEXT.format(topology=topology, system=system, program=program))
    results = tmp_path / "results"
    assert commands.main([str(path), "--results", str(results), "--no-report"]) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "adding, words, system",
    [
        ("was | came", "the bitwise or of the workers' values, not their sum", "esa, window: 32"),
        ("was", r"the addition of the values of workers \d, \d is missing", "switchml"),
        ("was + came + came", r"worker \d's value was added twice", "esa, window: 32"),
        ("was - came", r"worker \d's value was subtracted", "esa, window: 32"),
    ],
)
def test_the_step_and_the_number_are_named(adding, words, system, tmp_path, capsys):
    """Of SwitchML, too, whose packets have numbers of their own."""
    error = failure(tmp_path, capsys, adding, system=system)
    assert re.search(
        r"wrong value: job victim, iteration 0, tensor (\S+) \(\d+\), position \d+", error
    )
    found = re.search(r"packets: ina\.job == 0 && ina\.fragment == (\d+)", error)
    assert found, error
    assert "switches on its way: s1 (allocations, additions" in error
    # Values are read in aggregators of a pool alone.
    step, where = "additions", r"aggregator \d+"
    if system == "switchml":
        step, where = "completions", "the packet that went on then"
    named = rf"went wrong: at s1, {step} by gradient \{{\d\}} at \d+ ns: {where} .*{words}"
    assert re.search(named, error), error
    place = re.search(r"next: \S+ (trace \S+ --fragment \S+)", error)
    # The next command works as it stands.
    assert commands.main(shlex.split(place[1])) == 0
    out = capsys.readouterr().out
    assert f"ina.fragment == {found[1]})" in out
    stored = read(find(tmp_path / "results")[-1])
    assert stored.state == "failed" and "went wrong: at s1" in stored.error


def test_the_first_of_several_switches_is_named(tmp_path, capsys):
    error = failure(tmp_path, capsys, "was + came + 1", RACKS)
    assert re.search(r"went wrong: at s[12], completions by gradient", error)
    assert "it differs by 1" in error
    assert "s3 (" in error.split("switches on its way: ")[1].splitlines()[0]


PARTS = {0: 100, 1: -7, 2: 3000}
RIGHT = sum(PARTS.values())


@pytest.mark.parametrize(
    "found, words",
    [
        (RIGHT - 3000, "the addition of worker 2's value is missing (3000)"),
        (RIGHT + 7 - 100, "the addition of the values of workers 0, 1 is missing"),
        (RIGHT + 100, "worker 0's value was added twice (100)"),
        (RIGHT - 2 * 3000, "worker 2's value was subtracted"),
        (100 | -7 | 3000, "the bitwise or of the workers' values"),
        (100 ^ -7 ^ 3000, "the bitwise xor of the workers' values"),
        ((100 - 7) | 3000, "worker 2's value went in by a bitwise or, not by an addition"),
        (3000, "the addition of the values of workers 0, 1 is missing"),
        (0, "it is 0: nothing was added"),
        (int.from_bytes(RIGHT.to_bytes(4, "little"), "big", signed=True), "the wrong order"),
        (RIGHT + 12345, "it differs by 12345"),
    ],
)
def test_numbers_are_explained(found, words):
    assert words in explained(found, RIGHT, PARTS)


def test_sums_wrap_as_32_bits_do():
    parts = {0: 2**31 - 1, 1: 5}
    right = 2**31 + 4 - 2**32
    assert "worker 1's value was added twice" in explained(right + 5, right, parts)


def test_of_recorded_gradients_only_one_is_known():
    assert "worker 1's value was added twice" in explained(12, 10, {1: 2})
    assert "only this worker's values are known" in explained(1234, 10, {1: 2})
