"""Lexer and preprocessor: macros, conditions, includes, places."""

from __future__ import annotations

import pytest
from p4engine.frontend.diagnostics import Diagnostics, Fatal
from p4engine.frontend.lexer import parse_number
from p4engine.frontend.preprocessor.files import Files
from p4engine.frontend.preprocessor.preprocess import preprocess


def run(tmp_path, text, defines=None, **files):
    for name, content in files.items():
        (tmp_path / f"{name}.p4").write_text(content)
    path = tmp_path / "main.p4"
    path.write_text(text)
    diagnostics = Diagnostics()
    try:
        tokens, _ = preprocess(path, defines or {}, (), diagnostics)
    except Fatal:
        tokens = []
    return [t.text for t in tokens[:-1]], tokens, [e.message for e in diagnostics.errors]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("12", (12, None, False)),
        ("8w0xF_F", (255, 8, False)),
        ("4s0b101", (5, 4, True)),
        ("0o17", (15, None, False)),
        ("0d10", (10, None, False)),
        ("0b2", None),
        ("8x1", None),
    ],
)
def test_numbers(text, want):
    assert parse_number(text) == want


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    assert run(tmp_path, '\ufeff#include "b.p4"\n2', b="\ufeff1")[0] == ["1", "2"]


def test_macros_with_arguments_and_pasting(tmp_path):
    text = "#define TWO(M, h) M(h##0) M(h##1)\n#define F(n) v##n;\nTWO(F, a)\n"
    assert run(tmp_path, text)[0] == ["va0", ";", "va1", ";"]


def test_stringising_and_variadic(tmp_path):
    assert run(tmp_path, "#define S(x, ...) #x __VA_ARGS__\nS(a + b, c, d)")[0] == [
        '"a + b"',
        "c",
        ",",
        "d",
    ]


def test_a_macro_does_not_expand_itself(tmp_path):
    assert run(tmp_path, "#define X X + Y\n#define Y X\nX")[0] == ["X", "+", "X"]


def test_conditions(tmp_path):
    text = (
        "#if defined(A) && A > 2\none\n#elif A == 2 || 0\ntwo\n#else\nthree\n#endif\n"
        "#ifndef B\nfour\n#endif"
    )
    assert run(tmp_path, text, {"A": 3})[0] == ["one", "four"]
    assert run(tmp_path, text, {"A": 2})[0] == ["two", "four"]
    assert run(tmp_path, text, {"B": 1})[0] == ["three"]


def test_include_and_places(tmp_path):
    text = '#include "part.p4"\n#define N x\n  N y'
    texts, tokens, _ = run(tmp_path, text, part="\n\nz")
    assert texts == ["z", "x", "y"]
    assert [(t.place.line, t.place.column) for t in tokens[:-1]] == [(3, 1), (3, 3), (3, 5)]


def test_comments_and_continued_lines(tmp_path):
    texts, tokens, _ = run(tmp_path, "a /* x\n y */ b // c\n#define L 1 \\\n  2\nL")
    assert texts == ["a", "b", "1", "2"]
    assert tokens[1].place.line == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#if 1", "no #endif"),
        ("#endif", "without #if"),
        ('#include "nothing.p4"', "cannot find"),
        (f'#include "{"x" * 5000}"', "cannot find"),
        ("#define F(a) a\nF(1", "not closed"),
        ("#define F(a) a\nF(1, 2)", "takes 1 arguments, 2 given"),
        ("#error stop here", "stop here"),
        ("#if 1 / 0\n#endif", "division by zero"),
        ("#nonsense", "unknown preprocessor directive"),
        ("a /* b", "never closed"),
    ],
)
def test_errors(tmp_path, text, message):
    errors = run(tmp_path, text)[2]
    assert any(message in e for e in errors), errors


def test_a_file_that_includes_itself_ends(tmp_path):
    assert "too deeply" in run(tmp_path, '#include "main.p4"')[2][0]


CHANGES = {
    "the program": lambda here: (here / "main.p4").write_text("#define N 1\n"),
    "an included file": lambda here: (here / "far" / "part.p4").write_text("2\n"),
    "an included file is gone": lambda here: (here / "far" / "part.p4").unlink(),
    "an earlier folder has the file, too": lambda here: (here / "near" / "part.p4").write_text("1"),
    "a link leads elsewhere": lambda here: (
        (here / "link.p4").unlink(),
        (here / "other.p4").write_text("#pragma once\n3\n"),
        (here / "link.p4").symlink_to("other.p4"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_file_that_was_looked_at_is_noticed(tmp_path, change):
    for folder in ("near", "far"):
        (tmp_path / folder).mkdir()
    (tmp_path / "far" / "part.p4").write_text("1\n")
    (tmp_path / "once.p4").write_text("#pragma once\n3\n")
    (tmp_path / "link.p4").symlink_to("once.p4")
    path = tmp_path / "main.p4"
    path.write_text('#include <part.p4>\n#include "once.p4"\n#include "link.p4"\n')

    def texts() -> tuple[list[str], Files]:
        files, diagnostics = Files(), Diagnostics()
        folders = (tmp_path / "near", tmp_path / "far")
        return [t.text for t in preprocess(path, {}, folders, diagnostics, None, files)[0]], files

    before, files = texts()
    assert before[:-1] == ["1", "3"] and files.unchanged()
    (tmp_path / "bystander.p4").write_text("4")
    assert files.unchanged()
    CHANGES[change](tmp_path)
    assert not files.unchanged()


def test_an_error_is_told_every_time(tmp_path):
    """Although the tokens of a file are kept."""
    for _ in range(2):
        assert run(tmp_path, "1 /* 2")[2] == ["this comment is never closed"]
