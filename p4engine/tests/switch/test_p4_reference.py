"""The compiler against an independent evaluator of the language, over random programs."""

from __future__ import annotations

import pytest
from p4engine.switch.library import Switch
from p4engine_testing.programs import send
from p4engine_testing.reference.campaign import Difference, check, with_control
from p4engine_testing.reference.evaluate import Machine, Undefined
from p4engine_testing.reference.generate import generate, packets
from p4engine_testing.reference.tree import text

from p4engine import compile_program


def compare(seed: int, folder, count: int) -> int:
    """Run `count` packets through both; returns how many could be compared."""
    program = generate(seed)
    path = folder / "program.p4"
    path.write_text(text(program))
    switch = Switch(compile_program(path))
    machine = Machine(program)
    compared = 0
    for data in packets(program, seed, count):
        try:
            want = machine.packet(data)
        except Undefined:
            # What the packet did to the registers is unknown too: take it from the switch.
            send(switch, data)
            for name in machine.registers:
                machine.registers[name] = list(switch.register_read(name))
            continue
        assert send(switch, data) == want, f"seed {seed}, packet {data.hex()}\n{path.read_text()}"
        compared += 1
    for name, values in machine.registers.items():
        assert list(switch.register_read(name)) == values, f"seed {seed}, register {name}"
    return compared


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(tmp_path, monkeypatch, seed):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O1")
    assert compare(seed, tmp_path, 100) > 30


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_random_programs(tmp_path):
    """With the flags that users get, whose optimisations are part of what is tested."""
    assert sum(compare(seed, tmp_path, 200) for seed in range(10_000, 10_040)) > 3_000


@pytest.mark.parametrize("seed", range(4))
def test_builds_agree(tmp_path, seed):
    """Without and with optimisation, and traced, also with control calls between the packets."""
    assert check(seed, tmp_path, 40) > 10


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_builds_of_many_programs_agree(tmp_path):
    """The first of the campaign's (p4engine_testing/reference/campaign.py)."""
    assert sum(check(seed, tmp_path, 60) for seed in range(30_000, 30_010)) > 120


def test_a_build_that_differs_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    path = tmp_path / "program.p4"
    found = 0
    for seed in range(4):
        switches = {}
        right = text(generate(seed))
        for name, code in ("right", right), ("wrong", right.replace(" - ", " + ")):
            path.write_text(code)
            switches[name] = Switch(compile_program(path))
        try:
            with_control(switches, seed, 100)
        except Difference:
            found += 1
    assert found


def test_the_evaluator_finds_a_wrong_program(tmp_path, monkeypatch):
    """A program that differs in one operator must be told apart by some seed."""
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O1")
    found = 0
    for seed in range(4):
        program = generate(seed)
        wrong = text(program).replace("|+|", "+").replace(" - ", " + ")
        path = tmp_path / "program.p4"
        path.write_text(wrong)
        switch, machine = Switch(compile_program(path)), Machine(program)
        for data in packets(program, seed, 200):
            try:
                found += send(switch, data) != machine.packet(data)
            except Undefined:
                continue
    assert found
