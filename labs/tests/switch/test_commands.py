"""The commands around the grader: results for Gradescope, marking a folder, the students' kit."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from p4fabric.base.errors import UserError

from labs._teacher import solution
from labs.commands import main
from labs.grader.grade import grade
from labs.grader.lab import find_lab, lab_names
from labs.grader.mark import mark, plain, submissions
from labs.grader.pack import export, start
from labs.grader.seeds import Seed
from labs.tests.support import ROOT

LAB = "lab2_aggregation"
P4 = "aggregation.p4"
SKELETON = str(ROOT / "labs" / LAB / "skeleton")


def _submit(folder: Path, student: str, text: str, lab: str = LAB) -> None:
    target = folder / student / lab
    target.mkdir(parents=True)
    (target / P4).write_text(text)


def test_a_folder_is_marked_whatever_is_in_it(tmp_path):
    folder = tmp_path / "submissions"
    _submit(folder, "ada", (solution(LAB) / P4).read_text())
    _submit(folder, "=bob", "control {")
    (folder / "ada" / "notes.txt").write_text("no lab")
    (folder / "eve" / LAB).mkdir(parents=True)
    (folder / "mallory").symlink_to(folder / "ada")
    output = io.StringIO()
    mark(submissions(folder, None), Seed(3), 1, output)
    rows = list(csv.DictReader(io.StringIO(output.getvalue())))
    assert [(r["student"], r["points"], r["of"]) for r in rows] == [
        ("'=bob", "0", "80"),
        ("ada", "80", "80"),
        ("eve", "0", "80"),
    ]
    assert "aggregation.p4:1:" in rows[0]["problem"] and "is missing" in rows[2]["problem"]


def test_gradescope_gets_a_score_per_test(tmp_path, capsys):
    skeleton = find_lab("2").folder / "skeleton"
    assert main(["grade", "2", str(skeleton), "--json", "-", "--trace"]) == 1
    made = json.loads(capsys.readouterr().out)
    assert made["score"] == 5 == sum(test["score"] for test in made["tests"])
    assert [test["status"] for test in made["tests"]] == ["passed"] + ["failed"] * 8
    assert sum(test["max_score"] for test in made["tests"]) == 80
    # What Gradescope's specification of results.json knows.
    head = {"score", "execution_time", "output", "output_format", "tests"}
    each = {"score", "max_score", "status", "name", "number", "output", "output_format"}
    assert set(made) == head and set(made["tests"][0]) == each | {"visibility"}
    told = made["tests"][1]["output"]
    for part in ("sent", "expected  ports 1, 2, 3", "got       nothing"):
        assert part in told
    assert re.search(r"values=\[(\d), \1, \1, \1\]", told)
    assert "the packet's way" in told and "count.read(n, 0);" in told and "dropped" in told


@pytest.mark.slow
def test_a_wrong_field_is_named(tmp_path):
    text = (
        (solution(LAB) / P4).read_text().replace("hdr.sum.worker = 255;", "hdr.sum.worker = 254;")
    )
    (tmp_path / P4).write_text(text)
    made = grade(find_lab("2"), tmp_path)
    failed = ["\n".join(o.lines) for o in made.outcomes if o.status == "fail"]
    assert any("Sum.worker" in lines and "expected 255, got 254" in lines for lines in failed)


@pytest.mark.parametrize(
    "words, told",
    [
        (["grade", "99", "."], "there is no lab '99'"),
        (["grade", "2", "nowhere"], "no such folder"),
        (["mark", "nowhere"], "No such file"),
        (["mark", "."], "no submissions"),
        (["mark", ".", "--csv", "kept"], "no submissions"),
        (["mark", ".", "--jobs", "0"], "--jobs 0"),
        (["start", "2", "."], "exists already"),
        (["start", "2", "kept/mine"], "kept/mine: cannot be written: Not a directory"),
        (["export", "kept/kit"], "kept/kit: cannot be written: Not a directory"),
        (["grade", "2", SKELETON, "--json", "nowhere/x.json"], "there is no folder nowhere"),
        (["grade", "2", SKELETON, "--json", "."], "this is a folder; name a file"),
    ],
)
def test_wrong_arguments_are_one_line(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("kept").write_text("marks")
    assert main(words) == 2
    captured = capsys.readouterr()
    assert told in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert [path.name for path in Path().iterdir()] == ["kept"]
    assert Path("kept").read_text() == "marks"


def test_a_folder_of_another_user_is_one_line(tmp_path, capsys):
    (tmp_path / "theirs").mkdir(mode=0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may read everything
    try:
        assert main(["grade", "2", str(tmp_path / "theirs" / LAB)]) == 2
    finally:
        os.seteuid(user)
    assert capsys.readouterr().err.endswith(f"theirs/{LAB}: Permission denied\n")


@pytest.mark.parametrize("lab", lab_names())
def test_a_student_starts_with_all_files(lab, tmp_path):
    start(find_lab(lab), tmp_path / "mine")
    found = find_lab(lab)
    assert {p.name for p in (tmp_path / "mine").iterdir()} == {*found.hand_in, *found.given}


@pytest.mark.slow
def test_the_kit_grades_alone_and_holds_no_solution(tmp_path):
    kit = tmp_path / "kit"
    export(kit, ["lab2_aggregation"])
    files = [p for p in kit.rglob("*") if p.is_file()]
    for path in files:
        assert "_teacher" not in path.parts
    taught = {p.read_bytes() for p in solution(LAB).iterdir()}
    assert not taught & {p.read_bytes() for p in files}
    readme = (kit / "labs/README.md").read_text()
    assert not list(kit.glob("labs/lab1*"))
    assert "lab1_" not in readme and "TEACHERS" not in readme
    shutil.copytree(solution(LAB), tmp_path / "mine")
    command = [sys.executable, "-m", "labs", "grade", "2", str(tmp_path / "mine")]
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=kit, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "80 of 80 points" in done.stdout


def test_a_kit_for_an_autograder_is_whole(tmp_path):
    export(tmp_path / "kit", ["lab9_routing"])
    export(tmp_path / "whole", ["lab9_routing"], with_teacher=True)
    kits = [tmp_path / name / "labs" for name in ("kit", "whole")]
    assert [(kit / "_teacher/lab9_routing/judge.py").exists() for kit in kits] == [False, True]
    assert [(kit / "TEACHERS.md").exists() for kit in kits] == [False, True]
    code = "".join(path.read_text() for path in kits[0].rglob("*.py"))
    assert "def rate" in code and "def bottleneck" not in code and "def baselines" not in code


@pytest.mark.skipif(not (ROOT / ".venv").is_dir(), reason="the checkout has no environment .venv")
def test_the_commands_find_the_environment():
    done = subprocess.run(
        ["/usr/bin/python3", "-S", "-m", "labs", "list"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and LAB in done.stdout, done.stderr


@pytest.mark.parametrize("number", ["9", "12"])
def test_practice_numbers_are_those_of_the_teachers_part(number):
    lab = find_lab(number)
    assert (lab.folder / "practice.json").read_text() == lab.judge().practice()


def test_hidden_numbers_need_the_teachers_part(monkeypatch, tmp_path):
    lab = find_lab("9")
    monkeypatch.setattr(type(lab), "judge", lambda self: None)
    with pytest.raises(UserError, match="teacher's part"):
        grade(lab, solution(lab.name), Seed(student="ada", secret=b"a" * 20))
    few = [check for check in lab.checks if check.name in ("rates", "on_leaf_spine")]
    monkeypatch.setattr(lab, "checks", few)
    made = grade(lab, solution(lab.name))  # practice does not
    assert made.points == lab.points


SCHEDULER = "lab12_scheduler"


def test_a_league_orders_by_score(monkeypatch, tmp_path, capsys):
    """With fewer workloads than it has."""
    lab = find_lab(SCHEDULER)
    checks = importlib.import_module(f"labs.{SCHEDULER}.checks")
    (ranked,) = [check for check in lab.checks if check.common]
    few = replace(ranked, run=lambda t: checks.compare(t, "esa", 2, 0.0))
    monkeypatch.setattr(lab, "checks", [few])
    folders = {"ada": lab.folder / "skeleton", "bob": solution(SCHEDULER), "eve": tmp_path / "none"}
    (tmp_path / "none").mkdir()
    for student, source in folders.items():
        shutil.copytree(source, tmp_path / "class" / student / SCHEDULER)
    (tmp_path / "secret").write_text("a secret of the class")
    assert main(["league", str(tmp_path / "class"), "--secret", str(tmp_path / "secret")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[1] for row in rows[:2]] == ["bob", "ada"] and [r[0] for r in rows[:2]] == ["1", "2"]
    assert float(rows[0][2]) > 1 > float(rows[1][2])
    assert rows[2] == ["eve", "scheduler.p4", "is", "missing"]


def test_a_lab_without_scores_has_no_league(tmp_path, capsys):
    shutil.copytree(solution(LAB), tmp_path / "ada" / LAB)
    assert main(["league", str(tmp_path), "--lab", "2"]) == 2
    assert "has no league" in capsys.readouterr().err


@pytest.mark.parametrize("first", "=+-@")
def test_no_name_becomes_a_formula_in_a_spreadsheet(first):
    assert plain(f"{first}HYPERLINK(1)") == f"'{first}HYPERLINK(1)"
    assert plain(f"a{first}b") == f"a{first}b" and plain("") == ""
