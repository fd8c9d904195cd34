"""Points that the teacher has changed by hand, each with a reason.

    student,lab,test,points,reason
    ada,4,shadow,15,"the test's fault, see the forum"
    bob,6,,40,"oral examination"

With a test's name, the points are those of this test; the rest of the mark is computed as ever.
Without one they are the student's mark in this lab, whatever else there is: tests, questions and
late days do not count then.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labs.classes.roster import Student, lab_of, named
from labs.classes.tables import Row, read_table
from labs.grader.course import Course
from labs.grader.lab import Lab

COLUMNS = ("student", "lab", "test", "points", "reason")


@dataclass(frozen=True)
class Override:
    """Points given by hand, and the row that says so."""

    points: float
    reason: str
    where: str


@dataclass
class Overrides:
    """Changes of a student's lab: single tests by name, or the mark."""

    tests: dict[str, Override]
    mark: Override | None = None


def read_overrides(
    path: Path, roster: dict[str, Student], course: Course
) -> dict[tuple[str, str], Overrides]:
    """The overrides by (student, lab); none without the file. Raises UserError."""
    made: dict[tuple[str, str], Overrides] = {}
    rows = read_table(path, COLUMNS, COLUMNS) if path.exists() else []
    for row in rows:
        student, lab = named(row, roster), lab_of(row, course)
        both = made.setdefault((student.student, lab.name), Overrides({}))
        points = row.number("points", _most(row, lab, course))
        if points is None:
            raise row.wrong("points", "how many?")
        if not row["reason"]:
            raise row.wrong("reason", "give the reason, which the student sees")
        override = Override(points, row["reason"], row.where)
        before = both.tests.get(row["test"]) if row["test"] else both.mark
        if before is not None:
            raise row.wrong("test", f"{before.where} is about the same")
        if row["test"]:
            both.tests[row["test"]] = override
        else:
            both.mark = override
    return made


def _most(row: Row, lab: Lab, course: Course) -> float:
    """The most points that can be given. Raises UserError for a test that the lab does not have."""
    if not row["test"]:
        return course.most(lab) + course.most_questions(lab)
    for check in lab.checks:
        if check.name == row["test"]:
            return check.points
    tests = ", ".join(check.name for check in lab.checks)
    raise row.wrong("test", f"{lab.name} has no test {row['test']!r} (it has: {tests})")
