"""Cheats earn nothing for what they do not do, and collecting hidden values is useless."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Collection
from pathlib import Path

import pytest

from labs._teacher import solution
from labs._teacher.cheats import CHEATS, Cheat
from labs.grader.grade import Grade, grade
from labs.grader.lab import find_lab
from labs.grader.report import gradescope
from labs.grader.seeds import Seed
from labs.tests.support import first_of
from labs.tests.support.hostile_submission import NO_SANDBOX
from labs.tests.support.ordinary_user import USER, WHO, run_as

pytestmark = NO_SANDBOX
SECRET = b"the secret of the class of 2026"
# A few for whoever runs the tests, and as an ordinary user; the others with --slow.
QUICK = {
    "plans by the shape of the network",
    "answers for the grader",
    "stands in for the grader's modules",
    "a port that does not exist",
}
QUICK_AS_ANOTHER = {"floats behind the quantiser's back", "workers that meet somewhere"}


def _hidden(lab: str, folder: Path, student: str = "solution") -> Grade:
    return grade(find_lab(lab), folder, Seed(student=student, secret=SECRET))


def _only(monkeypatch: pytest.MonkeyPatch, name: str, wanted: Collection[str]) -> None:
    """The lab has only these checks, which saves time."""
    lab = find_lab(name)
    assert set(wanted) <= {check.name for check in lab.checks}
    monkeypatch.setattr(lab, "checks", [c for c in lab.checks if c.name in wanted])


def _cases(quick: Collection[str], cheats: Collection[Cheat] = CHEATS) -> list:
    return [
        pytest.param(c, id=f"{c.lab}-{c.name}", marks=() if c.name in quick else pytest.mark.slow)
        for c in cheats
    ]


def _depends_on_the_user(cheat: Cheat) -> bool:
    """What cheats in Python may reach is another user's matter. A P4 program runs in the grader's
    switch, whoever grades; and a user without a home compiles the testbed's hosts for the first run
    of an experiment, in minutes."""
    names = [cheat.file] if cheat.file else [p.name for p in solution(cheat.lab).iterdir()]
    in_p4 = any(name.endswith(".p4") for name in names)
    return not in_p4 and (cheat.lab != "lab13_measuring" or "runs" in cheat.loses)


def _statuses(cheat: Cheat) -> dict[str, str]:
    """Status of each test of a cheat."""
    with tempfile.TemporaryDirectory() as name:
        cheat.write(Path(name) / "cheat")
        made = _hidden(cheat.lab, Path(name) / "cheat")
    return {o.check.name: o.status for o in made.outcomes}


@pytest.mark.parametrize("cheat", _cases(QUICK))
def test_a_cheat_does_not_get_the_points(cheat, monkeypatch):
    _only(monkeypatch, cheat.lab, cheat.loses)
    made = _statuses(cheat)
    assert set(made) == cheat.loses and set(made.values()) <= {"fail", "not run"}, made


@pytest.fixture(scope="module")
def cache():
    """A folder for what the ordinary user compiles."""
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, USER, USER)
        yield name


@pytest.mark.skipif(os.geteuid() != 0, reason="the test above runs as an ordinary user already")
@pytest.mark.parametrize("cheat", _cases(QUICK_AS_ANOTHER, [*filter(_depends_on_the_user, CHEATS)]))
def test_nor_where_an_ordinary_user_grades(cheat, cache, monkeypatch):
    one = {min(cheat.loses)}
    _only(monkeypatch, cheat.lab, one)

    def graded() -> dict[str, str]:
        os.environ["XDG_CACHE_HOME"] = cache  # this user has no home
        return _statuses(cheat)

    made = run_as("ordinary user", graded)
    assert set(made) == one and set(made.values()) <= {"fail", "not run"}, made


@pytest.mark.parametrize("who", WHO)
def test_a_solution_elsewhere_on_the_machine_is_of_no_use_whoever_grades(who, monkeypatch):
    _only(monkeypatch, "lab9_routing", ["rates"])
    (cheat,) = [c for c in CHEATS if c.name == "imports the solution"]
    text = (solution(cheat.lab) / "planner.py").read_text() + cheat.more

    def graded() -> list:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "planner.py").write_text(text)
            made = grade(find_lab("9"), Path(name))
            return [made.points, made.problem]

    points, problem = run_as(who, graded)
    assert points == 0 and "No module named 'labs'" in problem


def test_answers_for_another_students_maze_are_wrong(monkeypatch):
    _only(monkeypatch, "lab1_forwarding", ["answers"])
    made = _hidden("lab1_forwarding", solution("lab1_forwarding"), "eve")
    (failed,) = [o for o in made.outcomes if o.status != "pass"]
    assert failed.check.name == "answers" and "another student's maze" in failed.lines[0]


# What tells everything that it gets, in every way that an output could have.
TELLTALE = """
import sys, traceback

def tell(*values):
    text = repr(values)[:2000]
    print(text)
    print(text, file=sys.stderr)
    raise type("Error_" + text.encode().hex()[:200], (Exception,), {})(text)

quantise = dequantise = switch_add = safe_scale = block_exponents = tell
shared_exponents = quantise_blocks = dequantise_blocks = tell
"""
LEAVING = """
import os

def quantise(values, scale):
    print(values)
    os._exit(int(values[9]) % 256)
"""
WRONG = "\ndef quantise(values, scale):\n    return (values * 0 + 7).astype('int32')\n"


@pytest.mark.parametrize("text", first_of([TELLTALE, LEAVING, WRONG], 1))
def test_a_hidden_test_shows_no_value(text, tmp_path, monkeypatch):
    _only(monkeypatch, "lab7_numbers", ["rounding", "overflow", "block_sums"])
    more = (solution("lab7_numbers") / "quantise.py").read_text() + text
    (tmp_path / "quantise.py").write_text(more)
    made = _hidden("lab7_numbers", tmp_path)
    failed = [o for o in made.outcomes if o.status == "fail"]
    assert failed
    for outcome in made.outcomes:
        assert not outcome.printed and not outcome.notes and not outcome.trace
        for line in outcome.lines:
            assert not re.search(r"\d{3}|[eE]rror_|\d\.\d", line), line
    shown = json.dumps([test["output"] for test in gradescope(made)["tests"]])
    assert "float" not in shown and "array" not in shown


def test_a_hidden_test_of_a_switch_names_fields_and_no_values(tmp_path, monkeypatch):
    _only(monkeypatch, "lab2_aggregation", ["header"])
    text = (solution("lab2_aggregation") / "aggregation.p4").read_text()
    assert text.count("hdr.sum.worker = 255;") == 1
    (tmp_path / "aggregation.p4").write_text(
        text.replace("hdr.sum.worker = 255;", "hdr.sum.worker = (bit<8>) hdr.sum.v0;")
    )
    made = _hidden("lab2_aggregation", tmp_path)
    (failed,) = [o for o in made.outcomes if o.status == "fail"]
    assert failed.lines == ["a packet that leaves differs in Sum.worker"]


def test_the_numbers_change_with_the_student_and_never_with_the_submission(tmp_path, monkeypatch):
    lab = find_lab("7")
    seen = []

    def note(t):
        seen.append(t.random.getrandbits(64))

    first = lab.checks[0]
    monkeypatch.setattr(lab, "checks", [type(first)(first.name, first.title, 10, note)])
    (tmp_path / "quantise.py").write_text("x = 1\n")
    for student in ("ada", "ada", "eve"):
        _hidden("lab7_numbers", tmp_path, student)
    (tmp_path / "quantise.py").write_text("x = 2\n")
    _hidden("lab7_numbers", tmp_path, "ada")
    assert seen[0] == seen[1] == seen[3] and len(set(seen)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/urandom", "/etc/passwd", "/proc/cpuinfo"])
def test_a_program_that_includes_what_has_no_end_is_told_and_shows_nothing(path, tmp_path):
    text = (solution("lab2_aggregation") / "aggregation.p4").read_text()
    (tmp_path / "aggregation.p4").write_text(f'#include "{path}"\n{text}')
    made = _hidden("lab2_aggregation", tmp_path)
    assert made.points == 0 and made.judged and "does not compile" in made.problem
    assert "root:" not in made.problem
