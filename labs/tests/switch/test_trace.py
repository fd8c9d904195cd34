"""The trace that students see begins where their program decides."""

from __future__ import annotations

import shutil

from p4engine.backend.build import compile_program
from p4engine.switch.library import Switch

from labs.grader.packets import agg
from labs.grader.trace import fold
from labs.tests.support import ROOT


def _trace(tmp_path) -> list[str]:
    labs = ROOT / "labs"
    for path in ("lab4_loss/skeleton/loss.p4", "common/packet.p4", "common/values.p4"):
        shutil.copy(labs / path, tmp_path)
    program = compile_program(tmp_path / "loss.p4", {"VALUES": 8, "SLOTS": 8}, trace=True)
    switch = Switch(program, ports=[1, 2], seed=0)
    switch.trace(packets=None)
    switch.table_add("job", "aggregate", [2], [7, 3, 1, 5, 6])
    packet = agg(1, "switch", job=2, kind=1, bitmap=1, values=list(range(8)))
    switch.receive(1, bytes(packet), 0)
    switch.run()
    lines = switch.trace_lines()
    switch.close()
    return lines


def test_parser_and_values_are_folded_and_decisions_stay(tmp_path):
    whole = _trace(tmp_path)
    short = fold(whole)
    assert short[0].startswith(
        "parser AggParser: 90 bytes on port 1: ethernet, ip, udp, agg, values ("
    )
    assert short[1] == "ingress LossIngress"
    (index,) = [n for n, line in enumerate(short) if "value_" in line]
    assert "value_00.write(index = 0, value = 0)" in short[index]
    assert short[index + 1].strip() == "(7 more like it, for the other values)"
    for text in ("hit, entry 0", "meta.count = 1", "dropped"):
        assert any(text in line for line in short)
    assert len(short) < len(whole) - 55


def test_a_short_parser_stays():
    lines = ["parser P: 3 bytes on port 1", "  packet.extract(hdr.token);", "ingress I", "dropped"]
    assert fold(lines) == lines
