"""Messages to the author of a wrong program: place, message, source line, and several at once."""

from __future__ import annotations

import pytest
from p4engine_testing.programs import source

from p4engine import P4Error, compile_program


def errors(tmp_path, text):
    path = tmp_path / "wrong.p4"
    path.write_text(text)
    with pytest.raises(P4Error) as caught:
        compile_program(path)
    return [d for d in caught.value.diagnostics if d.severity == "error"]


def messages(tmp_path, **parts):
    return [d.message for d in errors(tmp_path, source(**parts))]


def test_place_and_source_line(tmp_path):
    [error] = errors(tmp_path, source(apply="\n        hdr.h.a = hdr.h.q;"))
    assert error.file.endswith("wrong.p4")
    assert error.source_line == "        hdr.h.a = hdr.h.q; }"
    assert error.column == 25
    assert str(error).splitlines()[2].index("^") == 4 + 24


def test_an_empty_program_is_wrong_in_its_own_file(tmp_path):
    (only,) = errors(tmp_path, "")
    assert only.file.endswith("wrong.p4") and "no 'main'" in only.message


def test_several_errors_in_one_run(tmp_path):
    found = messages(
        tmp_path, apply="hdr.h.x = 1; y = 2; hdr.h.a = ;", locals="action a( { } action b() { 1; }"
    )
    assert len(found) >= 3
    found = messages(tmp_path, apply="hdr.h.x = 1; y = 2; hdr.h.a = true;")
    assert len(found) == 3


def test_warnings_do_not_stop(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            parser="state start { transition accept; } state lost { transition accept; }",
            locals="table t { actions = { NoAction; } }",
            apply="bit<4> x = 20; return; hdr.h.a = 1;",
        )
    )
    texts = [w.message for w in compile_program(path).warnings]
    for part in ("never reached", "never applied", "does not fit"):
        assert any(part in t for t in texts), texts
    assert compile_program(path).cached
    assert [w.message for w in compile_program(path).warnings] == texts


USAGE = [
    ("bit<8> x;", "'x' is never used"),
    ("bit<8> x; x = 3;", "'x' is assigned, but never read"),
    ("bit<32> x; hdr.h.a = x;", "'x' is read, but nothing is ever assigned to it"),
    ("bit<32> x; hdr.h.a = x; x = 1;", "'x' is read before anything is assigned to it"),
    (
        "bit<32> x; for (bit<8> i = 0; i < 3; i = i + 1) { bit<32> y; x = 1; y = y + x; }",
        "'y' is read before anything is assigned to it",
    ),
    ("bit<32> x; if (hdr.h.a == 1) { return; } else { hdr.h.b = x; } x = 2;", "'x' is read before"),
    ("bit<32> x; if (hdr.h.a == 1) { x = 1; } hdr.h.b = x;", None),
    ("bit<32> x; r.read(x, 1);", None),
    ("bit<32> x; r.read(x, 1); hdr.h.b = x;", None),
    ("bit<32> x; switch (hdr.h.a) { 1: { x = 1; } default: { exit; } } hdr.h.b = x;", None),
    ("for (bit<8> i = 0; i < 3; i = i + 1) { hdr.h.a = hdr.h.a + 1; }", None),
    ("for (bit<8> i in 1..3) { hdr.h.a = hdr.h.a + 1; }", None),
    ("bit<32> x; x[7:0] = 1; hdr.h.a = x;", None),
    ("h_t x; x.setValid(); hdr.h = x;", None),
    ("@noWarn bit<8> x;", None),
]


@pytest.mark.parametrize(("apply", "message"), USAGE, ids=[u[0][:40] for u in USAGE])
def test_usage_of_variables(tmp_path, monkeypatch, apply, message):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    path = tmp_path / "program.p4"
    path.write_text(source(locals="register<bit<32>>(4) r;", apply=apply))
    found = [w.message for w in compile_program(path).warnings]
    assert len(found) == (message is not None), found
    assert message is None or message in found[0]


def test_unused_actions(tmp_path, monkeypatch):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            locals="action a() {} action b() { a(); } action c() {} @noWarn action d() {}"
            " table t { key = { hdr.h.a: exact; } actions = { b; NoAction; } }",
            apply="t.apply();",
        )
    )
    assert [w.message for w in compile_program(path).warnings] == ["action 'c' is never used"]


def test_without_a_compiler(tmp_path, monkeypatch):
    path = tmp_path / "program.p4"
    path.write_text(source())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(P4Error, match="apt-get install gcc"):
        compile_program(path)


def test_cache_of_another_user_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "program.p4"
    path.write_text(source())
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: type("Entry", (), {"pw_dir": str(tmp_path)})())
    with pytest.raises(P4Error, match="belongs to another user"):
        compile_program(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "}",
        "control",
        "a" * 5000,
        "(" * 3000,
        "x = " + "(1+" * 2000,
        "{" * 500,
        "\0\x01",
        "V1Switch() main;",
    ],
)
def test_any_text_gives_a_diagnostic(tmp_path, text):
    for prefix in ("", "#include <v1model.p4>\n", "#include <v1model.p4>\ncontrol c() { apply { "):
        assert all("internal" not in d.message for d in errors(tmp_path, prefix + text))
