"""A mistake in a table of a class is one line that names the file and the line, exit code 2."""

from __future__ import annotations

import pytest

from labs.commands import main
from labs.tests.support.class_folders import ROSTER, hand_in, write_class

QUESTIONS = "student,lab,q1,q2,q3,q4,comment\n"
OVERRIDES = "student,lab,test,points,reason\n"


def roster(*columns: str) -> str:
    """The class's students, with empty columns behind theirs."""
    return ROSTER.replace("email\n", ",".join(["email", *columns]) + "\n", 1)


@pytest.fixture
def folder(tmp_path):
    return write_class(tmp_path / "class")


@pytest.mark.parametrize(
    "name, text, told",
    [
        ("roster.csv", "", "the first line names the columns"),
        ("roster.csv", "student,id,name,email\n", "there are no students in it"),
        ("roster.csv", "student,id,name\nada,1,Ada\n", ":1: column 'email' is missing"),
        ("roster.csv", ROSTER.replace("name", "nmae", 1), ":1: there is no column 'nmae' (there"),
        ("roster.csv", ROSTER.replace("id", "name", 1), ":1: column 'name' is there twice"),
        ("roster.csv", ROSTER + "ada,1,,a@b.c\n", ":5: student: ada is in "),
        ("roster.csv", ROSTER + "zoe,1815,,a@b.c\n", ":5: id: 1815 is in "),
        ("roster.csv", ROSTER + "zoe,1,,ADA@example.org\n", ":5: email: ADA@example.org is in "),
        ("roster.csv", ROSTER + "../zoe,1,,\n", ":5: student: '../zoe' is no name of a folder"),
        ("roster.csv", ROSTER + "zoe,=1+1,,\n", ":5: id: '=1+1' is a formula"),
        ("roster.csv", ROSTER + "zoe,1,,zoe\n", ":5: email: 'zoe' is no e-mail address"),
        ("roster.csv", ROSTER + "zoe,1,,,,\n", ":5: 6 cells in a table of 4 columns"),
        ("roster.csv", ROSTER + 'zoe,1,"Zoe\n', ":5: this is no CSV"),
        ("roster.csv", roster("lab2") + "z,1,,,soon\n", ":5: lab2: 'soon' is no time such as"),
        ("roster.csv", roster("lab2") + "z,1,,,2026-02-30\n", ":5: lab2: '2026-02-30' is no time"),
        ("roster.csv", roster("lab5"), ":1: lab5: the course has no lab5"),
        (
            "roster.csv",
            roster("lab2", "lab2_aggregation"),
            ":1: lab2: lab2_aggregation has two columns",
        ),
        (
            "roster.csv",
            roster("extra_days") + "z,1,,,many\n",
            ":5: extra_days: 'many' is no number",
        ),
        (
            "questions.csv",
            QUESTIONS + "zoe,2,5,5,5,5,\n",
            ":2: student: 'zoe' is not in the roster",
        ),
        ("questions.csv", QUESTIONS + "ada,2,5,5,6,5,\n", ":2: q3: 6 is not from 0 to 5"),
        ("questions.csv", QUESTIONS + "ada,2,5,5,5,x,\n", ":2: q4: 'x' is no number"),
        ("questions.csv", QUESTIONS + "ada,99,5,5,5,5,\n", ":2: lab: there is no lab '99'"),
        (
            "questions.csv",
            QUESTIONS + "ada,5,5,5,5,5,\n",
            ":2: lab: the course has no lab5_sharing",
        ),
        (
            "questions.csv",
            QUESTIONS + "ada,2,5,5,5,5,\n\nada,lab2,1,1,1,1,\n",
            ":4: lab: a second row for lab2_aggregation of ada",
        ),
        ("overrides.csv", OVERRIDES + "zoe,2,,1,why\n", ":2: student: 'zoe' is not in the roster"),
        ("overrides.csv", OVERRIDES + "ada,2,sums,11,why\n", ":2: points: 11 is not from 0 to 10"),
        ("overrides.csv", OVERRIDES + "ada,2,,21,why\n", ":2: points: 21 is not from 0 to 20"),
        (
            "overrides.csv",
            OVERRIDES + "ada,2,smus,1,why\n",
            ":2: test: lab2_aggregation has no test",
        ),
        ("overrides.csv", OVERRIDES + "ada,2,sums,1,\n", ":2: reason: give the reason"),
        ("overrides.csv", OVERRIDES + "ada,2,sums,,why\n", ":2: points: how many?"),
        (
            "overrides.csv",
            OVERRIDES + "ada,2,,1,why\nada,2,,2,why\n",
            "overrides.csv:2 is about the same",
        ),
        (
            "overrides.csv",
            OVERRIDES + "ada,2,sums,1,why\n",
            ":2: test: nothing handed in; without a test's name",
        ),
        ("results/gradings.json", "[{}]", "damaged (KeyError: 'grading'); move it away"),
        ("course.yaml", "labs: {2: {}}", "secret: a class needs one"),
    ],
)
def test_a_mistake_in_a_table_is_one_line(name, text, told, folder, capsys):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    before = sorted(path.name for path in folder.rglob("*"))
    assert main(["class", "mark", str(folder)]) == 2
    error = capsys.readouterr().err
    assert told in error and name in error and error.count("\n") == 1, error
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_a_table_that_is_no_utf_8_names_its_line(folder, capsys):
    (folder / "roster.csv").write_bytes(ROSTER.encode("latin-1"))
    assert main(["class", "mark", str(folder)]) == 2
    assert "roster.csv:4: this is no UTF-8; save it as" in capsys.readouterr().err


def test_a_spreadsheets_semicolons_and_mark_are_read(folder, capsys):
    text = 'student;id;name;email\nada;1;"Love; Ada";ada@example.org\n'
    (folder / "roster.csv").write_text("\ufeff" + text, encoding="utf-8")
    assert main(["class", "mark", str(folder)]) == 0
    assert '"Love; Ada"' in (folder / "results" / "marks.csv").read_text() or (
        "Love; Ada" in (folder / "results" / "marks.csv").read_text()
    )


def test_a_submission_of_nobody_and_of_no_lab_are_errors(folder, capsys):
    hand_in(folder, "zoe", "2")
    assert main(["class", "mark", str(folder)]) == 2
    assert "'zoe' is not in the roster; add the student" in capsys.readouterr().err
    (folder / "submissions" / "zoe").rename(folder / "submissions" / "ada")
    hand_in(folder, "ada", "5")
    assert main(["class", "mark", str(folder)]) == 2
    assert "the course has no lab5_sharing; add it to course.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, told",
    [
        (["mark", "nowhere"], "there is none, so this is no class; make one"),
        (["mark", "class", "--student", "zoe"], "--student zoe: not in"),
        (["mark", "class", "--lab", "5"], "--lab 5: class/course.yaml has no lab5_sharing"),
        (["mark", "class", "--jobs", "0"], "--jobs 0: at least one"),
        (["again", "class", "--test", "sums"], "--test: say which lab's test"),
        (["similar", "class", "--also", "nowhere"], "lay the submissions out for JPlag"),
        (["export", "class", "canvas", "new.csv"], "import CLASS/results/marks.csv"),
        (["new", "class"], "class exists already"),
        (["new", "other", "--from", "class/course.yaml"], "this is no table of Canvas, Moodle or"),
    ],
)
def test_wrong_arguments_are_one_line(words, told, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder.parent)
    assert main(["class", *words]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1, error
    assert not (folder.parent / "other").exists() and not (folder.parent / "new.csv").exists()
