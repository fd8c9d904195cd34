"""Marks of a class, computed from what is kept and from the tables: tests, questions, overrides,
late days.

Points of tests and questions are scaled to what they count in the course, added, and reduced for
days after the deadline. A student's free late days are used for the labs in the order of their
deadlines. An override of a mark stands for all of this.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError

from labs.classes.gradings import Grading, Key, Test
from labs.classes.handed_in import NOTHING, HandedIn
from labs.classes.overrides import Override, Overrides
from labs.classes.questions import Answers
from labs.classes.roster import Student
from labs.classes.tables import write_table
from labs.grader.course import Course, days_late
from labs.grader.lab import Lab
from labs.grader.mark import PROBLEM, plain
from labs.grader.report import printable

COLUMNS = (
    *("student", "id", "name", "email", "lab", "points", "of", "tests", "questions"),
    *("late_days", "free_days", "failed", "remark"),
)
OPEN = "not handed in yet"


@dataclass(frozen=True)
class Mark:
    """A student's mark in a lab.

    Args:
        points: None where there is no mark yet.
        of: the most points.
        tests: points of the tests, overrides included; None: not graded.
        answers: None where nobody has read them.
        late_days: after the student's deadline.
        free_days: of these, those that cost nothing.
        remarks: reasons why there are no points, or other points.
    """

    student: Student
    lab: Lab
    points: float | None
    of: float
    tests: float | None = None
    answers: Answers | None = None
    late_days: int = 0
    free_days: int = 0
    grading: Grading | None = None
    overrides: dict[str, Override] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def outcomes(self) -> list[Test]:
        """The tests, with the points that have been changed."""
        tests = self.grading.tests if self.grading else []
        return [
            replace(t, points=self.overrides[t.name].points) if t.name in self.overrides else t
            for t in tests
        ]

    def row(self) -> list[Any]:
        """Row for marks.csv."""
        s = self.student
        failed = [test.name for test in self.outcomes if test.points < test.of]
        questions = "" if self.answers is None else f"{self.answers.total:g}"
        return [
            *(s.student, s.id, plain(s.name), s.email, self.lab.name),
            *("" if self.points is None else f"{self.points:g}", f"{self.of:g}"),
            *("" if self.tests is None else f"{self.tests:g}", questions),
            *(self.late_days, self.free_days, " ".join(failed)),
            plain("; ".join(self.remarks)[:PROBLEM]),
        ]


def compute(
    course: Course,
    found: Mapping[Key, HandedIn],
    gradings: Mapping[Key, Grading],
    questions: Mapping[Key, Answers],
    overrides: Mapping[Key, Overrides],
    now: datetime,
) -> list[Mark]:
    """The marks of all students in all labs, student by student. Raises UserError for an override
    of a test of what is not graded."""
    asked = {lab for _, lab in questions}
    due = {each.lab.name for each in found.values() if each.at is not None}
    made = []
    for each in found.values():
        key = each.student.student, each.lab.name
        grading = gradings.get(key)
        mark = Mark(
            each.student,
            each.lab,
            None,
            course.most(each.lab) + (course.most_questions(each.lab) if key[1] in asked else 0.0),
            answers=questions.get(key),
            late_days=days_late(each.at, each.student.deadline(each.lab, course)),
            grading=grading if grading and grading.key == each.key else None,
        )
        made.append(_with_tests(mark, overrides.get(key, Overrides({})), each.why))
    return [
        _with_points(
            mark,
            course,
            overrides.get((mark.student.student, mark.lab.name), Overrides({})).mark,
            found[mark.student.student, mark.lab.name].why,
            mark.lab.name in asked,
            _closed(mark, course, now, due),
        )
        for mark in _free(made, course)
    ]


def _closed(mark: Mark, course: Course, now: datetime, due: Collection[str]) -> bool:
    """True if a missing submission counts as zero: after the deadline, or without one as soon
    as anybody has handed in."""
    deadline = mark.student.deadline(mark.lab, course)
    if deadline is None:
        return mark.lab.name in due
    return now.timestamp() > deadline.timestamp()


def _with_tests(mark: Mark, overrides: Overrides, why: str) -> Mark:
    """The mark with the points of its tests."""
    changed = overrides.tests
    if changed and mark.grading is None:
        first = next(iter(changed.values()))
        raise UserError(
            f"{first.where}: test: {why or 'not graded yet'}; without a test's name the points are"
            " the mark"
        )
    mark = replace(mark, overrides=changed)
    if mark.grading is None or any(t.status == "not judged" for t in _open(mark)):
        return mark
    return replace(mark, tests=round(sum(test.points for test in mark.outcomes), 1))


def _open(mark: Mark) -> Iterable[Test]:
    """Tests whose points nobody has given by hand."""
    return (test for test in mark.outcomes if test.name not in mark.overrides)


def _free(marks: list[Mark], course: Course) -> list[Mark]:
    """The marks with the free late days of each student used."""
    left: dict[str, int] = {}
    used: dict[Key, int] = {}

    def order(mark: Mark) -> float:
        deadline = course.deadline(mark.lab)
        return deadline.timestamp() if deadline else math.inf

    for mark in sorted(marks, key=order):
        name = mark.student.student
        days = min(mark.late_days, left.setdefault(name, course.free_days))
        left[name] -= days
        used[name, mark.lab.name] = days
    return [replace(m, free_days=used[m.student.student, m.lab.name]) for m in marks]


def _with_points(
    mark: Mark, course: Course, by_hand: Override | None, why: str, asked: bool, closed: bool
) -> Mark:
    """The mark with its points, and the remarks."""
    remarks = [f"{n}: {o.points:g} by hand: {o.reason}" for n, o in mark.overrides.items()]
    if by_hand is not None:
        remarks = [f"by hand: {by_hand.reason}", *([why] if why else [])]
        return replace(mark, points=by_hand.points, remarks=tuple(remarks))
    answers = mark.answers.total if mark.answers else 0.0
    if why:
        none = why if closed or why != NOTHING else OPEN
        points = course.points(mark.lab, 0.0, 0, answers) if closed else None
        return replace(mark, points=points, remarks=(none,))
    if mark.grading is not None and mark.grading.problem:
        remarks.append(" ".join(mark.grading.problem.split()))
    if mark.tests is None:
        text = "not graded" if mark.grading is None else "not judged, mark again"
        return replace(mark, remarks=(text, *remarks))
    if asked and (mark.answers is None or mark.answers.missing):
        unread = "all" if mark.answers is None else ", ".join(mark.answers.missing)
        remarks.append(f"questions not read yet: {unread}")
    points = course.points(mark.lab, mark.tests, mark.late_days - mark.free_days, answers)
    return replace(mark, points=points, remarks=tuple(remarks))


def write_marks(path: Path, marks: Iterable[Mark]) -> None:
    """marks.csv."""
    write_table(path, COLUMNS, [[printable(str(c)) for c in mark.row()] for mark in marks])


def summary(marks: Iterable[Mark]) -> list[tuple[str, ...]]:
    """A row per lab: its name, how many have handed in, nothing, late, without a mark yet, and the
    mean of the points with the most."""
    rows = []
    labs: dict[str, list[Mark]] = {}
    for mark in marks:
        labs.setdefault(mark.lab.name, []).append(mark)
    for name, some in labs.items():
        points = [mark.points for mark in some if mark.points is not None]
        mean = f"{sum(points) / len(points):.1f} of {some[0].of:g}" if points else ""
        handed_in = sum(mark.grading is not None or mark.tests is not None for mark in some)
        late = sum(mark.late_days > 0 for mark in some)
        open_ = sum(mark.points is None for mark in some)
        counts = (handed_in, len(some) - handed_in, late, open_)
        rows.append((name, *map(str, counts), mean))
    return rows
