"""Marks go to Canvas, Moodle and Gradescope and come from there, in the formats that they document
(sheets.py and gradescope.py name them)."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import zipfile

import pytest

from testbed.labs.grader.commands import main
from tests.support.class_folders import Grader, hand_in, write_class

LAB = "lab2_aggregation"
LAB7 = "lab7_numbers"
# As Canvas exports its gradebook.
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lab 2: aggregation (501),Exam (502),Current Score
,,,,,Manual Posting,,
    Points Possible,,,,,20,60,(read only)
"Lovelace, Ada",11,1815,ada@example.org,INA-1,,50,83.3
"Bo, Bob",12,,bob@example.org,INA-1,7,,
"Ève, Eve",13,1817,eve,INA-1,3,,
"Zed, Zoe",14,1999,zoe,INA-1,,,
"Student, Test",15,,2c1a,INA-1,,,
"""
# As Moodle exports its gradebook, and as an assignment's grading worksheet.
MOODLE = """\
"First name","Last name","ID number",Institution,Department,"Email address",\
"Assignment: Lab 2 (Real)","Assignment: Lab 2 (Percentage)","Assignment: Lab 2 (Feedback)",\
"Quiz: lab 20 (Real)","Last downloaded from this course"
Ada,Lovelace,1815,,,ada@example.org,-,-,,4.00,1795000000
Bob,Bo,,,,BOB@example.org,-,-,,-,1795000000
Eve,Ève,1817,,,,1.00,5.00 %,old,-,1795000000
"""
WORKSHEET = """\
Identifier,"Full name","ID number","Email address",Status,Grade,"Maximum Grade",\
"Grade can be changed","Last modified (submission)","Last modified (grade)","Feedback comments"
"Participant 11","Ada Lovelace",1815,ada@example.org,Submitted,,20.00,Yes,-,-,
"Participant 12","Bob Bo",1816,bob@example.org,Submitted,,20.00,No,-,-,
"Participant 13","Eve Ève",1817,eve@example.org,"No submission",,20.00,Yes,-,-,
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A class in which Ada has 16 and 5 points, Bob 12 and no answers read, Eve handed in nothing
    and may still do so; and a lab 7 of Ada's."""
    grader = Grader(monkeypatch)
    grader.loses["bob"] = ["sums", "negative"]
    made = write_class(tmp_path / "class")
    for student, lab in (("ada", "2"), ("bob", "2"), ("ada", "7")):
        hand_in(made, student, lab)
    text = 'student,lab,q1,q2,q3,q4,comment\nada,2,5,5,5,5,"good; very, good"\n'
    (made / "questions.csv").write_text(text)
    (made / "course.yaml").write_text(
        (made / "course.yaml").read_text().replace("2026-11-30", "2098-11-30")
    )
    assert main(["class", "mark", str(made)]) == 0
    return made


def _read(path):
    text = path.read_text(encoding="utf-8")
    return list(csv.reader(io.StringIO(text)))


def _export(folder, platform, *words):
    target = folder.parent / "out.csv"
    code = main(["class", "export", str(folder), platform, str(target), *words])
    return code, target


def _canvas_scores(rows):
    """What Canvas takes from a gradebook: {(ID, SIS User ID, SIS Login ID, name): {title: score}}.
    The header begins with Student, ID and ends its first part with Section; a row that has "Points
    Possible" first is no student; "TITLE (ID)" is an assignment."""
    header, *rest = rows
    assert header[0] == "Student" and header[1] == "ID" and header[4] == "Section"
    assert header[2:4] == ["SIS User ID", "SIS Login ID"]
    possible = next(row for row in rest if "Points Possible" in row[0])
    students = [r for r in rest if r is not possible and r[0] and r[0] != "Student, Test"]
    scores = {
        tuple([*row[1:4], row[0]]): dict(zip(header[5:], row[5:], strict=True)) for row in students
    }
    return scores, dict(zip(header[5:], possible[5:], strict=True))


def test_a_new_gradebook_for_canvas(folder):
    code, target = _export(folder, "canvas")
    scores, possible = _canvas_scores(_read(target))
    assert code == 0 and possible == {LAB: "20", LAB7: "80"}
    assert scores == {
        ("", "1815", "ada", "Lovelace, Ada"): {LAB: "20", LAB7: "80"},
        ("", "1816", "bob", "Bo, Bob"): {LAB: "12", LAB7: ""},
        ("", "1817", "eve", "Ève, Eve"): {LAB: "", LAB7: ""},
    }


def test_canvas_own_gradebook_is_filled(folder, tmp_path, capsys):
    (tmp_path / "gradebook.csv").write_text(CANVAS, encoding="utf-8")
    code, target = _export(folder, "canvas", "--into", str(tmp_path / "gradebook.csv"))
    rows = _read(target)
    scores, possible = _canvas_scores(rows)
    lab2, exam = "Lab 2: aggregation (501)", "Exam (502)"
    assert code == 0 and possible == {lab2: "20", exam: "60", "Current Score": "(read only)"} | {
        LAB7: "80"
    }
    found = {key[0]: (cells[lab2], cells[exam], cells[LAB7]) for key, cells in scores.items()}
    assert found == {
        "11": ("20", "50", "80"),
        "12": ("12", "", ""),  # by the e-mail address, which is the login here
        "13": ("3", "", ""),  # no mark yet: as it was
        "14": ("", "", ""),
    }
    assert rows[1][5] == "Manual Posting"
    assert rows[-1] == ["Student, Test", "15", "", "2c1a", "INA-1", "", "", "", ""]
    told = capsys.readouterr().out
    assert "warning: Zed, Zoe (line 7): not in the roster" in told
    assert f"no mark yet: eve, {LAB}: not handed in yet" in told


def test_moodles_own_table_is_filled_with_marks_and_feedback(folder, tmp_path):
    (tmp_path / "grades.csv").write_text(MOODLE, encoding="utf-8")
    code, target = _export(folder, "moodle", "--into", str(tmp_path / "grades.csv"), "--lab", "2")
    header, *rows = _read(target)
    before, *_ = csv.reader(io.StringIO(MOODLE))
    assert code == 0 and header == before
    seen = [tuple(row[n] for n in (2, 5, 6, 7, 8, 9)) for row in rows]
    assert seen[0] == (
        *("1815", "ada@example.org", "20", "-"),
        *("tests 80 of 80; questions 20; good; very, good", "4.00"),
    )
    assert seen[1][2] == "12" and seen[1][4] == (
        "tests 60 of 80; points lost in sums 0/15, negative 0/5; questions not read yet: all"
    )
    assert seen[2] == ("1817", "", "1.00", "5.00 %", "old", "-"), "no mark yet: as it was"


def test_a_worksheet_of_moodle_is_filled_where_grades_can_be_changed(folder, tmp_path, capsys):
    (tmp_path / "sheet.csv").write_text(WORKSHEET, encoding="utf-8")
    words = ["--into", str(tmp_path / "sheet.csv")]
    code, _ = _export(folder, "moodle", *words)
    assert code == 2 and "this is a worksheet for one lab; say which" in capsys.readouterr().err
    code, target = _export(folder, "moodle", *words, "--lab", "lab2")
    rows = _read(target)[1:]
    assert code == 0 and [(row[0], row[5]) for row in rows] == [
        ("Participant 11", "20"),
        ("Participant 12", ""),
        ("Participant 13", ""),
    ]
    assert rows[0][10].startswith("tests 80 of 80")
    assert "warning: bob (line 3): grade cannot be changed" in capsys.readouterr().out


def test_a_new_table_for_moodle(folder):
    code, target = _export(folder, "moodle")
    header, *rows = _read(target)
    assert code == 0 and header[:4] == ["First name", "Last name", "ID number", "Email address"]
    assert header[4:6] == [LAB, f"{LAB} (feedback)"]
    assert [row[:5] for row in rows] == [
        ["Ada", "Lovelace", "1815", "ada@example.org", "20"],
        ["Bob", "Bo", "1816", "bob@example.org", "12"],
        ["Eve", "Ève", "1817", "eve@example.org", ""],
    ]


@pytest.mark.parametrize(
    "platform, text, old, new, told",
    [
        (
            "canvas",
            CANVAS,
            ",20,60",
            ",100,60",
            ":3: lab2_aggregation has 100 points there, and 20",
        ),
        ("canvas", CANVAS, "1817,eve,", "1817,ada,", ":6: this is eve and ada of the roster"),
        ("canvas", CANVAS, "Exam (502)", "lab2 (2)", ":1: several columns are about lab2_aggreg"),
        ("canvas", MOODLE, "", "", ":1: this is no table of canvas"),
        ("moodle", MOODLE, "Assignment: Lab 2", "Assignment 2", ":1: no column is about lab2_agg"),
        ("moodle", WORKSHEET, "20.00", "100.00", ":2: lab2_aggregation has 100.00 points there"),
    ],
)
def test_a_table_that_does_not_fit_is_one_line(
    platform, text, old, new, told, folder, tmp_path, capsys
):
    (tmp_path / "theirs.csv").write_text(text.replace(old, new) if old else text, encoding="utf-8")
    words = ["--into", str(tmp_path / "theirs.csv"), "--lab", "2"]
    code, target = _export(folder, platform, *words)
    error = capsys.readouterr().err
    assert code == 2 and told in error and error.count("\n") == 1 and not target.exists(), error


@pytest.mark.parametrize(
    "text, want",
    [
        (
            CANVAS,
            [
                ("ada", "1815", "Lovelace, Ada", "ada@example.org"),
                ("bob", "", "Bo, Bob", "bob@example.org"),
                ("eve", "1817", "Ève, Eve", ""),
                ("zoe", "1999", "Zed, Zoe", ""),
            ],
        ),
        (WORKSHEET.replace("Eve", "E"), [("ada", "1815", "Ada Lovelace", "ada@example.org")]),
        (
            "First Name,Last Name,SID,Email,Sections,lab 2,lab 2 - Max Points\n"
            "Ada,Lovelace,1815,ada@example.org,,3,20\n",
            [("ada", "1815", "Lovelace, Ada", "ada@example.org")],
        ),
    ],
)
def test_a_class_begins_with_a_table_of_a_platform(text, want, tmp_path, monkeypatch, capsys):
    (tmp_path / "theirs.csv").write_text(text, encoding="utf-8")
    folder = tmp_path / "class"
    assert main(["class", "new", str(folder), "--from", str(tmp_path / "theirs.csv")]) == 0
    rows = [tuple(row) for row in _read(folder / "roster.csv")]
    assert rows[0] == ("student", "id", "name", "email") and rows[1 : len(want) + 1] == want
    assert f"{folder}: a class of {len(rows) - 1} students; edit" in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == [
        *("course.yaml", "overrides.csv", "questions.csv", "roster.csv", "secret.txt"),
        "submissions",
    ]
    assert (folder / "secret.txt").stat().st_mode & 0o077 == 0
    Grader(monkeypatch)
    hand_in(folder, "ada", "2")
    assert main(["class", "mark", str(folder)]) == 0
    marks = _read(folder / "results" / "marks.csv")
    assert [row[:4] for row in marks if row[4] == LAB][0] == list(want[0])


def test_a_class_goes_to_canvas_and_back(folder, tmp_path):
    """Who is in a gradebook of ours is in a class made of it."""
    _, target = _export(folder, "canvas")
    assert main(["class", "new", str(tmp_path / "next"), "--from", str(target)]) == 0
    own = [row[:3] for row in _read(tmp_path / "next" / "roster.csv")[1:]]
    assert own == [
        ["ada", "1815", "Lovelace, Ada"],
        ["bob", "1816", "Bo, Bob"],
        ["eve", "1817", "Ève, Eve"],
    ]


def test_gradescope_gets_a_roster_and_autograders_that_hand_out_the_marks(folder, tmp_path):
    target = tmp_path / "scope"
    assert main(["class", "export", str(folder), "gradescope", str(target)]) == 0
    assert sorted(p.name for p in target.iterdir()) == [f"{LAB}.zip", f"{LAB7}.zip", "roster.csv"]
    header, *rows = _read(target / "roster.csv")
    assert header == ["First Name", "Last Name", "Email", "SID"]
    assert rows[0] == ["Ada", "Lovelace", "ada@example.org", "1815"]
    source = tmp_path / "autograder" / "source"
    with zipfile.ZipFile(target / f"{LAB}.zip") as archive:
        archive.extractall(source)
        assert all(i.external_attr >> 16 & 0o111 for i in archive.infolist()[:2])
    assert os.path.exists(source / "setup.sh")
    assert _hand_out(source, "ADA@example.org")["score"] == 20
    made = _hand_out(source, "bob@example.org")
    assert made["score"] == 12 and made["output"].startswith("12 of 20 points. tests 60 of 80")
    assert [t["score"] for t in made["tests"]] == [5, 15, 0, 0, 10, 15, 10, 5]
    assert [t["status"] for t in made["tests"]].count("failed") == 2
    assert "why sums" in made["tests"][2]["output"]
    assert _hand_out(source, "ada@example.org")["tests"][8]["name"] == "Questions"
    assert "score" not in _hand_out(source, "eve@example.org")


def _hand_out(source, email):
    """What Gradescope gets when a user's submission is graded."""
    root = source.parent
    user = {"email": email, "id": 1234, "name": "Student User"}
    (root / "submission_metadata.json").write_text(json.dumps({"id": 1, "users": [user]}))
    command = [sys.executable, "-I", str(source / "run_autograder"), str(root)]
    subprocess.run(command, check=True)
    return json.loads((root / "results" / "results.json").read_text())


def test_gradescope_needs_e_mail_addresses(folder, tmp_path, capsys):
    text = (folder / "roster.csv").read_text().replace("bob@example.org", "")
    (folder / "roster.csv").write_text(text)
    assert main(["class", "export", str(folder), "gradescope", str(tmp_path / "scope")]) == 2
    assert "roster.csv:3: email: Gradescope knows students by" in capsys.readouterr().err
    words = ["class", "export", str(folder), "gradescope", str(tmp_path / "s"), "--into", "x"]
    assert main(words) == 2
