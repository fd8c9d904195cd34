"""The students of a class: a table with a row for each.

    student,id,name,email,extra_days,lab4
    ada,1815001,"Lovelace, Ada",ada@example.org,,2026-12-20 23:59
    bob,1815002,"Bo, Bob",bob@example.org,2,

`student` is the name of the student's folder in submissions/, from which the hidden numbers follow,
too. `id` and `email` identify the student elsewhere (Moodle, Canvas, Gradescope). Two optional
kinds of columns extend deadlines: `extra_days` all of them, and a lab's name that of this lab.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from p4fabric.base.errors import UserError

from labs.classes.tables import FORMULAS, Row, read_lines, read_table
from labs.grader.course import Course
from labs.grader.lab import Lab, find_lab

COLUMNS = ("student", "id", "name", "email")
EXTRA = "extra_days"
MOST_DAYS = 366


@dataclass(frozen=True)
class Student:
    """A student.

    Args:
        student: the name of the folder.
        id: of the university or the platform; "" if there is none.
        name: as people say it, or "last, first".
        extra_days: by which all deadlines are later.
        deadlines: own ones, by the lab's name; without the extra days.
        where: the row in the roster.
    """

    student: str
    id: str = ""
    name: str = ""
    email: str = ""
    extra_days: float = 0.0
    deadlines: dict[str, datetime] = field(default_factory=dict)
    where: str = ""

    def deadline(self, lab: Lab, course: Course) -> datetime | None:
        """The student's deadline of a lab; None: there is none."""
        if lab.name in self.deadlines:
            return self.deadlines[lab.name]
        until = course.deadline(lab)
        return None if until is None else until + timedelta(days=self.extra_days)


def read_roster(path: Path, course: Course) -> dict[str, Student]:
    """The students by the names of their folders, in the order of the file. Raises UserError."""
    header = lines[0][1] if (lines := read_lines(path)) else []
    labs = {column: found.name for column in header if (found := _lab(column)) is not None}
    rows = read_table(path, COLUMNS, (*COLUMNS, EXTRA, *labs))
    for column, lab in labs.items():
        if course.labs and lab not in course.labs:
            raise UserError(f"{path}:1: {column}: the course has no {lab}")
        if list(labs.values()).count(lab) > 1:
            raise UserError(f"{path}:1: {column}: {lab} has two columns")
    made: dict[str, Student] = {}
    known: dict[tuple[str, str], str] = {}
    for row in rows:
        student = _student(row, labs)
        for column in ("student", "id", "email"):
            value = row[column].casefold()
            if value and (before := known.setdefault((column, value), row.where)) != row.where:
                raise row.wrong(column, f"{row[column]} is in {before}, too")
        made[student.student] = student
    if not made:
        raise UserError(f"{path}: there are no students in it")
    return made


def _lab(column: str) -> Lab | None:
    """The lab that a column is about."""
    if not column.startswith("lab"):
        return None
    try:
        return find_lab(column)
    except UserError:
        return None


def _student(row: Row, labs: dict[str, str]) -> Student:
    name = row["student"]
    if not name or name.startswith(".") or "/" in name or not name.isprintable():
        raise row.wrong("student", f"{name!r} is no name of a folder")
    for column in ("student", "id", "email"):
        if row[column][:1] in tuple(FORMULAS):
            raise row.wrong(column, f"{row[column]!r} is a formula for a spreadsheet")
    if row["email"] and ("@" not in row["email"] or " " in row["email"]):
        raise row.wrong("email", f"{row['email']!r} is no e-mail address")
    times = {lab: row.time(column) for column, lab in labs.items()}
    return Student(
        name,
        row["id"],
        row["name"],
        row["email"],
        row.number(EXTRA, MOST_DAYS) or 0.0,
        {lab: when for lab, when in times.items() if when is not None},
        row.where,
    )


def named(row: Row, roster: dict[str, Student]) -> Student:
    """The student of a row of another table. Raises UserError for one who is not in the class."""
    if row["student"] not in roster:
        raise row.wrong("student", f"{row['student']!r} is not in the roster")
    return roster[row["student"]]


def lab_of(row: Row, course: Course) -> Lab:
    """The lab of a row of another table. Raises UserError for one that the course does not have."""
    try:
        lab = find_lab(row["lab"])
    except UserError as error:
        raise row.wrong("lab", str(error)) from None
    if not course.includes(lab):
        raise row.wrong("lab", f"the course has no {lab.name}")
    return lab
