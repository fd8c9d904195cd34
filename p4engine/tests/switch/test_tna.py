"""Programs for TNA: packets in and packets out, with the control plane's commands in between."""

from __future__ import annotations

import pytest
from p4engine.control.commands import Commands
from p4engine.switch.library import Switch
from p4engine_testing.tna import Case, cases, source

from p4engine import P4Error, compile_program


@pytest.fixture(autouse=True)
def fast_c(monkeypatch):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_programs(tmp_path, case: Case):
    path = tmp_path / "program.p4"
    path.write_text(source(**case.parts))
    if case.error:
        with pytest.raises(P4Error) as caught:
            compile_program(path)
        assert case.error in str(caught.value)
        assert len(caught.value.diagnostics) == 1
        return
    switch = Switch(compile_program(path), ports=[*range(16), 130])
    commands = Commands(switch)
    for number, step in enumerate(case.steps):
        now_ns = 1_000_000 * number
        if step.command:
            word, *words = step.command.split()
            printed = commands.call(word, words)
            assert step.prints in (printed or "").replace("\n", " "), step.command
            continue
        switch.receive(step.port, step.data, now_ns)
        left = [(port, bytes(data)) for _, port, data in switch.advance(now_ns)]
        assert left == step.leaves, step
