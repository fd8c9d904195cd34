"""Programs that the P4-16 specification forbids, and the messages to their authors; and what it
allows. The programs are in p4engine_testing/data/p4_rules.txt.
"""

from __future__ import annotations

import pytest
from p4engine.backend.build import translate
from p4engine.frontend.diagnostics import Diagnostics, Fatal
from p4engine.frontend.preprocessor.preprocess import preprocess
from p4engine_testing.language import rules
from p4engine_testing.programs import source

from p4engine import P4Error, compile_program

RULES = rules()


def messages(folder, text):
    """(errors, warnings) of a program, which is translated to C and not compiled further."""
    path = folder / "program.p4"
    path.write_text(text)
    diagnostics = Diagnostics()
    try:
        tokens, _ = preprocess(path, {}, (), diagnostics)
        translate(tokens, diagnostics, "program")
    except (P4Error, Fatal):
        return [d.message for d in diagnostics.errors], []
    return [], [d.message for d in diagnostics.warnings]


@pytest.mark.parametrize("rule", [pytest.param(r, id=r.name) for r in RULES])
def test_rule(tmp_path, rule):
    errors, warnings = messages(tmp_path, source(**rule.parts))
    if rule.kind == "-":
        assert any(rule.message in e for e in errors), errors
    else:
        assert errors == []
    if rule.kind == "~":
        assert [rule.message in w for w in warnings] == [True], warnings


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_accepted_programs_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    path = tmp_path / "program.p4"
    for rule in RULES:
        if rule.kind == "+":
            path.write_text(source(**rule.parts))
            compile_program(path)


RESERVED = (
    "abstract action bit bool break const continue control default else enum error exit extern"
    " false for header header_union if in inout int match_kind out package parser return select"
    " string struct switch table this transition true tuple typedef value_set varbit void _"
)


@pytest.mark.parametrize("word", RESERVED.split())
def test_reserved_words(tmp_path, word):
    found, _ = messages(tmp_path, source(metadata=f"bit<8> {word};"))
    assert len(found) == 1 and f"'{word}'" in found[0], found


def test_text_that_is_skipped_may_hold_anything(tmp_path):
    text = "\n#if 0\n don't `look\n#endif\n hdr.h.a = 1;"
    assert messages(tmp_path, source(apply=text))[0] == []
