"""Marks of a course: points, deadlines, files for other tools, and where the solutions are."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest
from p4fabric.base.errors import UserError

from labs import commands
from labs.commands import main
from labs.grader import lab as labs
from labs.grader import mark as marking
from labs.grader import pack
from labs.grader.course import read_course
from labs.grader.grade import Grade, Outcome
from labs.grader.lab import find_lab, lab_names
from labs.grader.pairs import Meeting
from labs.tests.support.class_folders import hand_in

COURSE = """
secret: secret.txt
late: {percent_per_day: 10, days: 3}
labs:
  lab2_aggregation: {points: 20, deadline: 2026-11-30 23:59}
  7: {deadline: 2026-12-01}
"""


@pytest.fixture
def course(tmp_path):
    (tmp_path / "secret.txt").write_text("a secret that nobody guesses\n")
    (tmp_path / "course.yaml").write_text(COURSE)
    return tmp_path / "course.yaml"


@pytest.fixture
def folder(tmp_path):
    """Submissions of two students, one a day and a half late."""
    hand_in(tmp_path, "ada", "2")
    hand_in(tmp_path, "eve", "2", 36 * 3600)
    return tmp_path / "submissions"


@pytest.fixture
def half(monkeypatch):
    """A grader that passes half of the points, and the seeds that it gets."""
    seeds = []

    def graded(lab, folder, seed):
        seeds.append(seed)
        left, outcomes = lab.points / 2, []
        for check in lab.checks:
            status = "pass" if check.points <= left else "fail"
            left -= check.points if status == "pass" else 0
            outcomes.append(Outcome(check, status, [] if status == "pass" else ["why"]))
        return Grade(lab, outcomes)

    monkeypatch.setattr(marking, "grade", graded)
    return seeds


def test_a_course_has_points_deadlines_and_a_secret(course, folder, half, tmp_path, capsys):
    results = tmp_path / "marks.json"
    words = ["mark", str(folder), "--course", str(course), "--json", str(results)]
    scores = tmp_path / "scores"
    assert main([*words, "--gradescope", str(scores)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["student"], r["lab"], r["points"], r["of"], r["late_days"]) for r in rows] == [
        ("ada", "lab2_aggregation", "10", "20", "0"),
        ("eve", "lab2_aggregation", "8", "20", "2"),
    ]
    assert [(seed.student, seed.hidden) for seed in half] == [("ada", True), ("eve", True)]
    made = json.loads(results.read_text())
    assert [(m["student"], m["points"], m["late_days"]) for m in made] == [
        ("ada", 10.0, 0),
        ("eve", 8.0, 2),
    ]
    assert sum(test["points"] for test in made[0]["tests"]) == 40
    assert {test["status"] for test in made[0]["tests"]} == {"pass", "fail"}
    score = json.loads((scores / "eve" / "lab2_aggregation.json").read_text())
    assert score["score"] == 32 and sum(t["max_score"] for t in score["tests"]) == 80


def test_a_submission_of_a_lab_that_the_course_does_not_name_is_an_error(
    course, folder, half, capsys
):
    (folder / "ada" / "lab5_sharing").mkdir()
    assert main(["mark", str(folder), "--course", str(course)]) == 2
    told = capsys.readouterr().err
    assert "it does not name lab5_sharing, which students have handed in" in told and not half


def test_a_lab_that_a_course_names_twice_is_an_error(course):
    course.write_text(COURSE + "  lab7_numbers: {points: 3}\n")
    with pytest.raises(UserError, match="lab7_numbers is named twice, the second time as"):
        read_course(course)


def test_links_and_empty_folders_are_listed_and_not_marked(folder, half, tmp_path, capsys):
    (folder / "mallory").symlink_to(folder / "ada")
    (folder / "trudy").mkdir()
    (folder / "trudy" / "lab2_aggregation").symlink_to(folder / "ada" / "lab2_aggregation")
    (folder / "bob").mkdir()
    assert main(["mark", str(folder), "--csv", str(tmp_path / "marks.csv")]) == 0
    told = capsys.readouterr().err.splitlines()
    link = "is a link, which is not followed"
    assert told == [
        "warning: bob: there is no lab in the student's folder; not marked",
        f"warning: mallory: the student's folder {link}; not marked",
        f"warning: trudy: lab2_aggregation {link}; not marked",
    ]
    rows = list(csv.DictReader((tmp_path / "marks.csv").open()))
    assert [(r["student"], r["lab"]) for r in rows] == [
        *(("bob", ""), ("mallory", ""), ("trudy", "")),
        *((name, "lab2_aggregation") for name in ("ada", "eve")),
    ]
    assert rows[2]["problem"] == f"not marked: lab2_aggregation {link}" and len(half) == 2


def test_a_class_whose_parts_meet_is_a_table(tmp_path, monkeypatch, capsys):
    lab = find_lab("14")
    found = [(student, lab, tmp_path) for student in ("ada", "bob")]
    asked = []

    def meet(found, seed, jobs, partners):
        asked.append((len(found), jobs, partners))
        return made

    monkeypatch.setattr(commands, "submissions", lambda folder, lab: found)
    monkeypatch.setattr(commands, "pairs", meet)
    made = [Meeting("ada", "bob", "works"), Meeting("bob", "=ada", "fails", "no\nanswer")]
    words = ["pairs", str(tmp_path), "--csv", str(tmp_path / "pairs.csv"), "--partners", "0"]
    assert main([*words, "--jobs", "3"]) == 0 and asked == [(2, 3, 0)]
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    first, second = lab.sides
    assert said[0] == f"{first} of {second} of result why".split()
    assert said[1] == ["ada", "bob", "works"] and said[2][:3] == ["bob", "=ada", "fails"]
    _, *rows = csv.reader(io.StringIO((tmp_path / "pairs.csv").read_text()))
    assert rows == [["ada", "bob", "works", ""], ["bob", "'=ada", "fails", "no\nanswer"]]
    made.append(Meeting("bob", "ada", "not judged"))
    assert main(words) == 3
    del found[1]
    assert main(words) == 2
    assert "fewer than two students" in capsys.readouterr().err
    for option, value in ("--jobs", "0"), ("--partners", "-1"):
        assert main([*words, option, value]) == 2
        assert f"{option} {value}: at least" in capsys.readouterr().err


def test_a_kit_without_a_whole_checkout_warns(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commands, "export", lambda *asked: None)
    for warning, teacher, what in (
        ("", [], "ready to be handed out"),
        ("the files have changed", ["--with-teacher"], "for an autograder alone"),
    ):
        monkeypatch.setattr(commands, "warning", lambda warning=warning: warning)
        assert main(["export", str(tmp_path / "kit"), *teacher]) == 0
        said = capsys.readouterr()
        assert what in said.out
        assert said.err == (f"warning: {warning}\n" if warning else "")


def test_late_points_end_after_the_last_day(course):
    made, lab = read_course(course), find_lab("2")
    assert [made.points(lab, 80, days) for days in (0, 1, 3, 4)] == [20, 18, 14, 0]
    assert made.most(find_lab("7")) == 80


@pytest.mark.parametrize(
    "text, told",
    [
        ("labs: {lab99: {}}", "there is no lab 'lab99'"),
        ("labs: {2: {pionts: 3}}", "there is no key 'pionts' (there are: deadline, points, q"),
        ("labs: {2: {points: many}}", "2: points: 'many' is no number from 0 on"),
        ("labs: {2: {deadline: soon}}", "'soon' is no time such as 2026-11-30 23:59"),
        ("late: 3", "late: keys are expected here"),
        ("labs: [2", "this is no YAML"),
        ("secret: none.txt", "none.txt: No such file"),
    ],
)
def test_a_mistake_in_a_course_is_one_line(text, told, tmp_path):
    (tmp_path / "course.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_course(tmp_path / "course.yaml")
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_jplag_gets_submissions_and_what_all_have_in_common(folder, tmp_path, capsys):
    target = tmp_path / "jplag"
    (folder / "eve" / "lab2_aggregation" / "notes.txt").write_text("not handed in")
    assert main(["jplag", str(folder), str(target)]) == 0
    files = {str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()}
    start = "lab2_aggregation"
    assert {f for f in files if f.startswith(start)} == {
        f"{start}/submissions/ada/aggregation.p4",
        f"{start}/submissions/eve/aggregation.p4",
        f"{start}/base/aggregation.p4",
    }
    assert "--base-code" in capsys.readouterr().out
    assert main(["jplag", str(folder), str(target)]) == 2


def test_labs_are_in_the_order_of_their_numbers(monkeypatch, tmp_path):
    for name in ("lab10_more", "lab9_routing", "lab1_forwarding", "lab2_aggregation"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "checks.py").write_text("")
    monkeypatch.setattr(labs, "LABS", tmp_path)
    assert lab_names() == ["lab1_forwarding", "lab2_aggregation", "lab9_routing", "lab10_more"]


def _git(at: Path, *words: str) -> None:
    name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *name, *words], cwd=at, check=True, capture_output=True)


def test_solutions_in_a_published_repository_are_warned_of(monkeypatch, tmp_path):
    path = tmp_path / "labs" / "_teacher" / "lab2_aggregation" / "solution" / "a.p4"
    path.parent.mkdir(parents=True)
    path.write_text("x")
    monkeypatch.setattr(pack, "ROOT", tmp_path)
    monkeypatch.setattr(pack, "TEACHER", tmp_path / "labs" / "_teacher")
    assert pack.warning() == "", "no repository"
    _git(tmp_path, "init")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-m", "labs")
    assert pack.warning() == "", "not published"
    _git(tmp_path, "remote", "add", "origin", "https://example.org/labs.git")
    assert "https://example.org/labs.git" in pack.warning()
    assert "labs solutions FOLDER" in pack.warning()
    assert ", commit " in pack.version()
    pack.move_solutions(tmp_path / "kept")
    assert (tmp_path / "kept/_teacher/lab2_aggregation/solution/a.p4").read_text() == "x"
    assert not (tmp_path / "labs" / "_teacher").exists()
    _git(tmp_path, "commit", "-am", "without solutions")
    assert pack.warning() == ""


def test_a_kit_names_its_version(tmp_path, capsys):
    assert main(["export", str(tmp_path / "kit"), "--lab", "2"]) == 0
    named = (tmp_path / "kit" / "VERSION").read_text().strip()
    assert named == pack.version() and named.startswith("labs ")
    assert named in capsys.readouterr().out.replace("\n", " ")
