"""A submission that loops, crashes, prints without end, writes, or looks around harms nothing."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from labs._teacher import solution
from labs.grader.box import Box, BoxDied, BoxError, Refused, remove, scratch_folder
from labs.grader.grade import grade, prepare
from labs.grader.lab import find_lab
from labs.grader.report import gradescope, show_end, show_outcome
from labs.grader.submission import LARGEST_BYTES
from labs.tests.support import first_of
from labs.tests.support.hostile_submission import ATTEMPTS, NO_SANDBOX

P4 = "aggregation.p4"
pytestmark = NO_SANDBOX


@pytest.fixture
def scratch():
    folder = scratch_folder()
    (folder / "source").mkdir()
    yield folder
    remove(folder)


@pytest.fixture
def hostile(scratch):
    (scratch / "source" / "hostile.py").write_text(ATTEMPTS)
    with Box("python", scratch, 5) as box:
        box.call("module_load", "hostile.py")
        yield box
    assert not psutil.pid_exists(box.pid) and not psutil.pid_exists(box._process.pid)


def test_a_submission_sees_nothing_of_the_grader(hostile, monkeypatch):
    environment, arguments, descriptors = hostile.call("function", "surroundings", [])
    assert not {"HOME", "USER", "SUDO_USER", "SSH_AUTH_SOCK"} & set(environment)
    assert arguments == [""]
    assert len(descriptors) == 5, "nothing, output twice, requests and replies"


RARE = [pytest.param(n, marks=pytest.mark.slow) for n in ("sleep", "abort", "leave", "large")]


@pytest.mark.parametrize("name", ["loop", "spam", "forged", *RARE])
def test_a_submission_that_does_not_end_well_is_stopped(hostile, name):
    with pytest.raises(BoxDied):
        hostile.call("function", name, [], limit_s=0.3)
    with pytest.raises(BoxDied):
        hostile.call("function", "surroundings", [])
    assert len(hostile.printed) <= 4096


def test_a_deeply_nested_answer_is_an_error(hostile):
    with pytest.raises(BoxError):
        hostile.call("function", "nested", [])


def test_an_error_without_a_text_is_named(hostile):
    with pytest.raises(Refused, match=r"^Unspeakable\n  hostile.py, line \d+, in strange"):
        hostile.call("function", "strange", [])
    assert hostile.alive


def test_a_number_that_json_cannot_carry_is_refused(hostile):
    with pytest.raises(Refused, match="a whole number of 16610 bits"):
        hostile.call("function", "huge", [])
    assert hostile.alive


WEIRD = """
class Weird(Exception):
    def __str__(self):
        return "\\x1b[2J\\udcff"

print("\\x1b]0;title\\x07")
"""


@pytest.mark.parametrize("end", ["raise Weird", "def __getattr__(name): raise Weird"])
def test_output_of_a_submission_cannot_harm_a_terminal_or_a_file(end, tmp_path, monkeypatch):
    monkeypatch.setattr(find_lab("7"), "checks", find_lab("7").checks[:2])
    (tmp_path / "quantise.py").write_text(WEIRD + end)
    made = grade(find_lab("7"), tmp_path)
    output = io.StringIO()
    console = Console(file=output, width=200)
    for number, outcome in enumerate(made.outcomes, 1):
        show_outcome(console, number, outcome)
    show_end(console, made)
    shown = output.getvalue() + json.dumps(gradescope(made), ensure_ascii=False)
    shown.encode()  # a lone surrogate could not be written
    assert "\x1b" not in shown and "\\x1b[2J" in shown


@pytest.mark.parametrize(
    "file, text, kept",
    [
        ("congestion.p4", "control {", {"increase", "decrease", "once", "limits"}),
        pytest.param(
            "window.py",
            "while True: pass",
            {"marked_flags", "marked_ip", "per_port", "others"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_broken_file_costs_only_the_tests_that_need_it(file, text, kept, tmp_path):
    shutil.copytree(solution("lab8_congestion"), tmp_path / "mine")
    (tmp_path / "mine" / file).write_text(text)
    made = grade(find_lab("8"), tmp_path / "mine")
    assert {o.check.name for o in made.outcomes if o.status == "pass"} == kept, made.problem
    assert {o.status for o in made.outcomes if o.check.name not in kept} == {"not run"}
    assert made.problem.startswith(file) and len(made.problem.splitlines()) < 6


def test_leftovers_of_a_killed_grader_are_removed_by_the_next(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"ina-labs-{2**30}-left" / "source").mkdir(parents=True)  # no process has this id
    (tmp_path / f"ina-labs-{os.getpid()}-mine").mkdir()
    made = scratch_folder()
    assert {p.name for p in tmp_path.iterdir()} == {made.name, f"ina-labs-{os.getpid()}-mine"}


# ---- P4 ----


def _p4(edits: dict[str, str]) -> str:
    text = (solution("lab2_aggregation") / P4).read_text()
    for old, new in edits.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def _compile(scratch: Path, text: str, limit_s: float = 20) -> str:
    (scratch / "source" / P4).write_text(text)
    with Box("compile", scratch, limit_s) as box:
        return box.call("compile", P4, {}, False, limit_s=limit_s)[0]


def test_a_program_cannot_include_somebody_elses_file(scratch, tmp_path):
    secret = tmp_path / "secret.p4"
    secret.write_text("the answer is forty-two\n")
    prepare(scratch)
    with pytest.raises(Refused) as caught:
        _compile(scratch, f'#include "{secret}"\n' + _p4({}))
    assert "forty-two" not in str(caught.value)


INJECTIONS = [
    (
        "        job.apply();",
        '        job.apply();\n        log_msg("x\\"); __builtin_trap(); (\\" %s %n {}");',
    ),
    ("    action drop() {", '    @name("x\\"); __builtin_trap(); (\\"") action drop() {'),
    ("    action drop() {", '    @name("x\\n#include \\"/etc/passwd\\"\\n") action drop() {'),
    ("    action drop() {", '    @name("x*/ __builtin_trap(); /*") action drop() {'),
]


@pytest.mark.parametrize("old, new", first_of(INJECTIONS, 1))
def test_texts_of_a_program_do_not_get_into_its_c(old, new, scratch):
    prepare(scratch)
    key = _compile(scratch, _p4({old: new}))
    with Box("switch", scratch, 5) as box:
        number = box.call("load", key, [0, 1], 0, False)
        box.call("send", number, [[1, bytes(60), 0]], None)


@pytest.mark.slow
@pytest.mark.parametrize("text", [b"\xff\xfec\0o\0n\0", b"control \0 {", b"\x80"])
def test_what_is_no_text_is_told(text, tmp_path):
    (tmp_path / P4).write_bytes(text)
    made = grade(find_lab("2"), tmp_path)
    assert made.points == 0 and made.judged and made.problem.startswith(f"{P4} does not compile")


def _living_children() -> set[int]:
    """Other tests of this process may have left helpers, such as multiprocessing's tracker."""
    children = psutil.Process().children()
    return {p.pid for p in children if p.status() != psutil.STATUS_ZOMBIE}


@pytest.mark.slow
def test_a_program_that_grows_without_end_is_stopped_in_the_compiler(scratch):
    before = _living_children()
    bomb = "#define A0 0 +\n" + "".join(f"#define A{n} A{n - 1} A{n - 1}\n" for n in range(1, 40))
    prepare(scratch)
    with pytest.raises(BoxError):
        _compile(
            scratch, _p4({"const bit<8>  GRADIENT = 1;": f"{bomb}const bit<32> Z = A39 0;"}), 1
        )
    assert _living_children() <= before


def test_a_program_that_never_ends_is_stopped(scratch):
    prepare(scratch)
    loop = "for (bit<32> i = 0; i < 2; i = i * 1) { count.write(0, (bit<8>) i); }"
    key = _compile(scratch, _p4({"        job.apply();": f"        job.apply();\n        {loop}"}))
    with Box("switch", scratch, 5) as box:
        box.call("load", key, [0, 1], 0, False)
        with pytest.raises(BoxDied, match="was stopped after"):
            box.call("send", 0, [[1, bytes(60), 0]], None, limit_s=0.3)


# ---- what is handed in ----


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "missing", "large"])
def test_only_plain_files_of_a_sane_size_are_taken(what, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the answer is forty-two\n")
    path = tmp_path / "submission" / P4
    path.parent.mkdir()
    if what == "link":
        path.symlink_to(secret)
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "large":
        path.write_bytes(bytes(LARGEST_BYTES + 1))
    made = grade(find_lab("2"), path.parent)
    assert made.points == 0 and P4 in made.problem and "42" not in made.problem


def test_a_program_with_an_error_says_where_and_nothing_is_left(tmp_path):
    before = set(Path("/tmp").glob("ina-labs-*"))
    (tmp_path / P4).write_text(_p4({"n = n + 1;": "n = m + 1;"}))
    made = grade(find_lab("2"), tmp_path)
    assert made.points == 0 and "aggregation.p4:" in made.problem and "m + 1" in made.problem
    assert set(Path("/tmp").glob("ina-labs-*")) <= before
