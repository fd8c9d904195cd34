"""A class from the roster to the marks: who has handed in what, and what is graded again."""

from __future__ import annotations

import csv
import shutil
from datetime import datetime

import pytest

from labs.classes.classroom import read_class
from labs.commands import main
from labs.grader.lab import find_lab
from labs.tests.support.class_folders import COURSE, Grader, hand_in, write_class

DAY_S = 86400
LAB = "lab2_aggregation"
AFTER = datetime(2027, 1, 1)


@pytest.fixture
def grader(monkeypatch):
    return Grader(monkeypatch)


@pytest.fixture
def folder(tmp_path):
    return write_class(tmp_path / "class")


def _marks(folder, now=AFTER):
    marks = read_class(folder).marks(now)
    return {(m.student.student, m.lab.name): m for m in marks}


def _rows(folder):
    with (folder / "results" / "marks.csv").open(encoding="utf-8", newline="") as file:
        return {(row["student"], row["lab"]): row for row in csv.DictReader(file)}


def test_everybody_in_the_roster_has_a_row_in_every_lab(folder, grader, capsys):
    hand_in(folder, "ada", "2")
    (folder / "submissions" / "bob").symlink_to(folder / "submissions" / "ada")
    (folder / "submissions" / "eve" / LAB).mkdir(parents=True)
    (folder / "submissions" / "eve" / "lab7").mkdir()
    assert main(["class", "mark", str(folder)]) == 0
    rows = _rows(folder)
    assert list(rows) == [(s, lab) for s in ("ada", "bob", "eve") for lab in (LAB, "lab7_numbers")]
    assert list(rows["ada", LAB].values()) == [
        *("ada", "1815", "Lovelace, Ada", "ada@example.org", LAB, "16", "16", "80", ""),
        *("0", "0", "", ""),
    ]
    assert rows["bob", LAB]["remark"] == "the student's folder is a link, which is not followed"
    assert rows["eve", LAB]["remark"] == f"{LAB} has no aggregation.p4"
    assert rows["eve", "lab7_numbers"]["remark"] == "nothing handed in (but there is lab7)"
    told = capsys.readouterr().out
    assert f"bob, {LAB}: the student's folder is a link" in told
    assert grader.asked == [("ada", LAB, 9)]


def test_marking_tells_of_each_lab_and_who_has_handed_in_nothing(folder, grader, capsys):
    (folder / "course.yaml").write_text(COURSE.replace("2026-11-30", "2025-11-30"))
    grader.loses["ada"] = ["sums"]
    hand_in(folder, "ada", "2")
    hand_in(folder, "bob", "2")
    hand_in(folder, "bob", "7")
    grader.too_busy = {"bob"}
    assert main(["class", "mark", str(folder)]) == 3
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert told[:3] == [
        ["ada", LAB, "70", "of", "80"],
        ["bob", LAB, "not", "judged"],
        ["bob", "lab7_numbers", "not", "judged"],
    ]
    head = ["lab", "graded", "not", "handed", "in", "late", "no", "mark", "yet", "mean"]
    assert told[3:6] == [
        head,
        [LAB, "2", "1", "2", "1", "0.0", "of", "16"],  # ada is a year late, eve has nothing
        ["lab7_numbers", "1", "2", "0", "3"],
    ]
    assert told[6] == ["eve,", f"{LAB}:", "nothing", "handed", "in"]


def test_a_students_file_has_it_all(folder, grader):
    grader.loses["ada"] = ["sums"]
    hand_in(folder, "ada", "2")
    (folder / "questions.csv").write_text("student,lab,q1,q2,q3,q4,comment\nada,2,0,5,,5,why?\n")
    assert main(["class", "mark", str(folder)]) == 0
    lab = find_lab("2")
    lost = [check for check in lab.checks if check.name == "sums"]
    tests = "\n".join(
        f"* 0 of {check.points}: {check.title} (fail)\n\n        why sums\n"
        if check in lost
        else f"* {check.points} of {check.points}: {check.title} (pass)"
        for check in lab.checks
    )
    assert (folder / "results" / "feedback" / "ada.md").read_text() == (
        f"# Lovelace, Ada\n\n## {LAB}: 16 of 20 points\n\n* questions not read yet: q3\n"
        f"* questions: 0, 5, -, 5 (of 5 each)\n* why?\n\n{tests}\n\n"
    )
    assert (folder / "results" / "feedback" / "bob.md").read_text() == "# Bob Bo\n\n"


def test_nothing_has_no_points_after_the_deadline_and_no_mark_before(folder, grader):
    hand_in(folder, "ada", "2")
    main(["class", "mark", str(folder)])
    before, after = _marks(folder, datetime(2026, 11, 1)), _marks(folder)
    assert before["bob", LAB].points is None and before["bob", LAB].remarks == (
        "not handed in yet",
    )
    assert after["bob", LAB].points == 0 and after["bob", LAB].remarks == ("nothing handed in",)
    assert after["bob", "lab7_numbers"].points is None
    (folder / "course.yaml").write_text("secret: secret.txt\nlabs: {2: {}, 7: {}}")
    marks = _marks(folder)
    assert marks["bob", LAB].points == 0, "without a deadline: when others have handed in"
    assert marks["bob", "lab7_numbers"].points is None
    (folder / "questions.csv").write_text("student,lab,q1,q2,q3,q4\nbob,2,5,,,\n")
    marks = _marks(folder)
    assert marks["bob", LAB].points == 5 and marks["bob", LAB].of == 100, "answers alone"


def test_questions_count_beside_the_tests(folder, grader):
    grader.loses["ada"] = ["sums", "negative"]  # 15 of 80
    for student in ("ada", "bob", "eve"):
        hand_in(folder, student, "2")
    main(["class", "mark", str(folder)])
    assert _marks(folder)["ada", LAB].points == 13 and _marks(folder)["ada", LAB].of == 16
    rows = "ada,2,5,4.5,3,2.5,well\nbob,lab2_aggregation,5,,5,5,\n"
    (folder / "questions.csv").write_text(f"student,lab,q1,q2,q3,q4,comment\n{rows}")
    main(["class", "mark", str(folder)])
    marks = _marks(folder)
    assert [marks[s, LAB].points for s in ("ada", "bob", "eve")] == [16, 19, 16]
    assert {marks[s, LAB].of for s in ("ada", "bob", "eve")} == {20}
    assert marks["bob", LAB].remarks == ("questions not read yet: q2",)
    assert marks["eve", LAB].remarks == ("questions not read yet: all",)
    assert marks["ada", "lab7_numbers"].of == 80, "no questions there"
    feedback = (folder / "results" / "feedback" / "ada.md").read_text()
    assert "# Lovelace, Ada" in feedback and "questions: 5, 4.5, 3, 2.5 (of 5 each)" in feedback
    assert "* well" in feedback and f"## {LAB}: 16 of 20 points" in feedback
    assert "        why sums" in feedback and "lab7" not in feedback


def test_late_days_cost_points_when_the_free_ones_are_used(folder, grader):
    text = COURSE.replace("2099-01-01", "2026-11-30 23:59").replace("free: 1", "free: 2")
    (folder / "course.yaml").write_text(text.replace("2026-11-30 23:59}", "2026-11-29 23:59}", 1))
    hand_in(folder, "ada", "2", 0.5 * DAY_S)  # 2 days after this lab's deadline
    hand_in(folder, "ada", "7", 1.5 * DAY_S)
    hand_in(folder, "bob", "2", -0.5 * DAY_S)  # 1 day
    hand_in(folder, "bob", "7", 3.5 * DAY_S)
    main(["class", "mark", str(folder)])
    marks = _marks(folder)
    seen = {key: (m.late_days, m.free_days, m.points) for key, m in marks.items()}
    assert seen["ada", LAB] == (2, 2, 16) and seen["ada", "lab7_numbers"] == (2, 0, 64)
    assert seen["bob", LAB] == (1, 1, 16) and seen["bob", "lab7_numbers"] == (4, 1, 56)
    row = _rows(folder)["bob", "lab7_numbers"]
    assert (row["late_days"], row["free_days"]) == ("4", "1")
    assert "days late: 4, 1 of them free" in (folder / "results/feedback/bob.md").read_text()


def test_a_student_can_have_own_deadlines(folder, grader):
    roster = "student,id,name,email,extra_days,lab2\nada,,,,,2026-12-02\nbob,,,,1.5,\neve,,,,,\n"
    (folder / "roster.csv").write_text(roster)
    for student in ("ada", "bob", "eve"):
        hand_in(folder, student, "2", 1.4 * DAY_S)
    main(["class", "mark", str(folder)])
    assert [_marks(folder)[s, LAB].late_days for s in ("ada", "bob", "eve")] == [0, 0, 2]
    now = datetime(2026, 12, 1, 12)
    shutil.rmtree(folder / "submissions" / "ada")
    shutil.rmtree(folder / "submissions" / "eve")
    marks = _marks(folder, now)
    assert marks["ada", LAB].points is None and marks["eve", LAB].points == 0


def test_points_given_by_hand_stand_with_their_reason(folder, grader):
    grader.loses = {"ada": ["sums"], "bob": ["sums"]}
    hand_in(folder, "ada", "2")
    hand_in(folder, "bob", "2", DAY_S * 9)
    main(["class", "mark", str(folder)])
    assert [_marks(folder)[s, LAB].points for s in ("ada", "bob")] == [14, 0]
    rows = "ada,2,sums,5,the forum\nbob,2,,12.5,ill\neve,2,,3,sent by e-mail\n"
    (folder / "overrides.csv").write_text(f"student,lab,test,points,reason\n{rows}")
    main(["class", "mark", str(folder)])
    marks = _marks(folder)
    assert [marks[s, LAB].points for s in ("ada", "bob", "eve")] == [15, 12.5, 3]
    assert _rows(folder)["ada", LAB]["remark"] == "sums: 5 by hand: the forum"
    assert _rows(folder)["eve", LAB]["remark"] == "by hand: sent by e-mail; nothing handed in"
    told = (folder / "results/feedback/ada.md").read_text()
    assert "sums: 5 by hand: the forum" in told and "5 of 10: " in told
    assert "(fail, points by hand)" in told


def test_only_what_is_new_or_changed_is_graded(folder, grader):
    for student in ("ada", "bob"):
        hand_in(folder, student, "2")
    main(["class", "mark", str(folder)])
    main(["class", "mark", str(folder)])
    assert len(grader.asked) == 2
    hand_in(folder, "ada", "2", 60)  # later, and the same
    main(["class", "mark", str(folder)])
    assert len(grader.asked) == 2 and _marks(folder)["ada", LAB].late_days == 1
    hand_in(folder, "ada", "2", text="// better")
    assert _marks(folder)["ada", LAB].points is None
    main(["class", "mark", str(folder), "--student", "bob"])
    assert len(grader.asked) == 2
    main(["class", "mark", str(folder)])
    assert len(grader.asked) == 3
    (folder / "secret.txt").write_text("another secret, with other numbers")
    main(["class", "mark", str(folder)])
    assert len(grader.asked) == 5


def test_what_was_not_judged_has_no_mark_and_is_graded_again(folder, grader, capsys):
    hand_in(folder, "ada", "2")
    grader.too_busy = {"ada"}
    assert main(["class", "mark", str(folder)]) == 3
    assert _rows(folder)["ada", LAB]["points"] == "" and len(grader.asked) == 2
    assert _rows(folder)["ada", LAB]["remark"] == "not judged, mark again"
    grader.too_busy = set()
    assert main(["class", "mark", str(folder)]) == 0
    assert _rows(folder)["ada", LAB]["points"] == "16"


def test_a_grading_again_shows_old_against_new(folder, grader, capsys):
    grader.loses = {"ada": ["sums", "others"], "bob": ["sums"]}
    for student in ("ada", "bob"):
        hand_in(folder, student, "2")
    main(["class", "mark", str(folder)])
    grader.loses, grader.asked = {"ada": ["others"]}, []
    capsys.readouterr()
    words = ["class", "again", str(folder), "--student", "ada", "--lab", "2"]
    assert main([*words, "--test", "sums", "--compare"]) == 0
    assert grader.asked == [("ada", LAB, 1)], "one test alone"
    told = capsys.readouterr().out
    assert [line.split() for line in told.splitlines()[1:3]] == [
        ["ada", LAB, "sums", "0", "(fail)", "10", "(pass)"],
        ["ada", LAB, "mark", "13", "15"],
    ]
    assert _marks(folder)["ada", LAB].points == 13, "only compared"
    assert main([*words, "--test", "sums"]) == 0
    assert _marks(folder)["ada", LAB].points == 15
    tests = read_class(folder).gradings["ada", LAB].tests
    assert [t.name for t in tests if t.status == "fail"] == ["others"], "the others are kept"
    assert main(["class", "again", str(folder)]) == 0
    assert _marks(folder)["bob", LAB].points == 16
    log = list(csv.reader((folder / "results/again.csv").open()))
    assert [row[1:] for row in log] == [
        ["student", "lab", "test", "old", "new", "kept"],
        *([["ada", LAB, "sums", "0 (fail)", "10 (pass)", k] for k in ("old",)]),
        ["ada", LAB, "mark", "13", "15", "old"],
        ["ada", LAB, "sums", "0 (fail)", "10 (pass)", "new"],
        ["ada", LAB, "mark", "13", "15", "new"],
        ["bob", LAB, "sums", "0 (fail)", "10 (pass)", "new"],
        ["bob", LAB, "mark", "14", "16", "new"],
    ]
    assert main([*words, "--test", "smus"]) == 2
    assert "--test smus: there are absorbed, " in capsys.readouterr().err
    hand_in(folder, "ada", "2", text="// changed")
    assert main([*words, "--test", "sums"]) == 2
    assert "changed since it was graded" in capsys.readouterr().err
    hand_in(folder, "eve", "2")
    assert main(["class", "again", str(folder), "--student", "eve"]) == 2
    assert "eve, lab2_aggregation: not graded yet" in capsys.readouterr().err


def test_gradings_of_other_labs_are_told(folder, grader, capsys):
    hand_in(folder, "ada", "2")
    main(["class", "mark", str(folder)])
    path = folder / "results" / "gradings.json"
    text = path.read_text()
    own = read_class(folder).gradings["ada", LAB].labs
    path.write_text(text.replace(own, "labs of old"))
    capsys.readouterr()
    assert main(["class", "mark", str(folder)]) == 0
    told = "1 results are from other versions of the labs (labs of old); this is "
    assert told + own in capsys.readouterr().out


def test_a_course_with_questions_or_free_days_needs_a_class(folder, capsys):
    hand_in(folder, "ada", "2")
    words = ["mark", str(folder / "submissions"), "--course", str(folder / "course.yaml")]
    assert main(words) == 2
    assert "late: free: this needs the list of the students" in capsys.readouterr().err
    (folder / "course.yaml").write_text("labs: {2: {questions: 3}}")
    assert main(words) == 2
    assert f"{LAB}: questions: this needs the list" in capsys.readouterr().err
