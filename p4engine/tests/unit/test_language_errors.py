"""What the P4-16 specification forbids, and what the author of such a program is told.

By the specification's chapters. A part of a program stands in the frame of programs.py.
"""

from __future__ import annotations

import pytest
from p4engine.backend.build import translate
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.preprocessor.preprocess import preprocess
from p4engine_testing.programs import source

from p4engine import P4Error

BLOCKS = "control CT(inout bit<8> x); control Use(inout bit<8> x)(CT c) { apply { c.apply(x); } }"

CASES = [
    # ---- types of parsers and controls ----
    (
        {
            "top": BLOCKS + " control Wide(inout bit<9> w) { apply { } }",
            "locals": "Wide() w; Use(w) u;",
        },
        "parameter 'w' of Wide must be bit<8>, not bit<9>",
    ),
    (
        {
            "top": BLOCKS + " control In(in bit<8> w) { apply { } }",
            "locals": "In() i; Use(i) u;",
        },
        "parameter 'w' of In must be 'inout'",
    ),
    (
        {"top": BLOCKS + " control No() { apply { } }", "locals": "No() n; Use(n) u;"},
        "No has 0 parameters, but CT has 1",
    ),
    ({"top": BLOCKS, "locals": "Use(7) u;"}, "'c' needs a control, not int"),
]


def messages(folder, text):
    """The errors of a program; none if it can be translated to C."""
    path = folder / "program.p4"
    path.write_text(text)
    diagnostics = Diagnostics()
    try:
        tokens, _ = preprocess(path, {}, (), diagnostics)
        translate(tokens, diagnostics, "program")
    except P4Error as error:
        return [d.message for d in error.diagnostics if d.severity == "error"]
    return []


@pytest.mark.parametrize(("parts", "message"), CASES, ids=[c[1][:40] for c in CASES])
def test_refused(tmp_path, parts, message):
    found = messages(tmp_path, source(**parts))
    assert any(message in m for m in found), found
