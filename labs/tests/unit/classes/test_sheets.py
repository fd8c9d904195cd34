"""A class begins with a table of Canvas, Moodle or Gradescope, in the formats of sheets.py."""

from __future__ import annotations

import csv
import io

import pytest

from labs.commands import main
from labs.tests.support.class_folders import Grader, hand_in

LAB = "lab2_aggregation"
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
# As Moodle exports an assignment's grading worksheet.
WORKSHEET = """\
Identifier,"Full name","ID number","Email address",Status,Grade,"Maximum Grade",\
"Grade can be changed","Last modified (submission)","Last modified (grade)","Feedback comments"
"Participant 11","Ada Lovelace",1815,ada@example.org,Submitted,,20.00,Yes,-,-,
"Participant 12","Bob Bo",1816,bob@example.org,Submitted,,20.00,No,-,-,
"Participant 13","Eve Ève",1817,eve@example.org,"No submission",,20.00,Yes,-,-,
"""


def _read(path):
    text = path.read_text(encoding="utf-8")
    return list(csv.reader(io.StringIO(text)))


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
