"""Marks for Canvas and Moodle, in the formats of sheets.py: a new file, or the platform's own with
the marks filled in.

The platform's own file is the safer way. It has the platform's ids, so nobody is mistaken, and its
assignments with their most points, which have to be those of the course.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.errors import UserError
from testbed.labs.classes.feedback import in_a_line
from testbed.labs.classes.marks import Mark
from testbed.labs.classes.roster import Student
from testbed.labs.classes.sheets import CANVAS, MOODLE, POSSIBLE, Platform, Sheet
from testbed.labs.classes.tables import write_table

FEEDBACK = "feedback"
OTHER_FORMS = ("(percentage)", "(letter)")  # of a grade in Moodle
CHANGEABLE, MOST = "Grade can be changed", "Maximum Grade"  # of Moodle's worksheet
WORKSHEET = ("Grade", "Feedback comments")


@dataclass
class ByKey:
    """Marks by student and lab."""

    marks: Sequence[Mark]
    labs: dict[str, float] = field(default_factory=dict)  # with the most points
    students: dict[str, Student] = field(default_factory=dict)
    by_key: dict[tuple[str, str], Mark] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for mark in self.marks:
            self.labs[mark.lab.name] = mark.of
            self.students[mark.student.student] = mark.student
            self.by_key[mark.student.student, mark.lab.name] = mark

    def cell(self, student: str, lab: str) -> str:
        points = self.by_key[student, lab].points
        return "" if points is None else f"{points:g}"

    def text(self, student: str, lab: str) -> str:
        return in_a_line(self.by_key[student, lab])


@dataclass
class Left:
    """What has not been filled in: rows of students who are not in the roster, students who have no
    row, and rows that may not be changed."""

    strangers: list[str]
    absent: list[str]
    locked: list[str]


def write_new(target: Path, platform: Platform, marks: Sequence[Mark]) -> None:
    """A new file with all marks, for Canvas or Moodle."""
    own = ByKey(marks)
    if platform is CANVAS:
        header = ["Student", "ID", CANVAS.id, CANVAS.login, "Section", *own.labs]
        rows = [[f"    {POSSIBLE}", "", "", "", "", *(f"{most:g}" for most in own.labs.values())]]
        for name, student in own.students.items():
            first, last = student.names
            whole = ", ".join(filter(None, (last, first)))
            cells = [own.cell(name, lab) for lab in own.labs]
            rows.append([whole, "", student.id, name, "", *cells])
    else:
        header = [*MOODLE.names[0], MOODLE.id, MOODLE.email]
        header += [column for lab in own.labs for column in (lab, f"{lab} ({FEEDBACK})")]
        rows = []
        for name, student in own.students.items():
            both = [(own.cell(name, lab), own.text(name, lab)) for lab in own.labs]
            rows.append([*student.names, student.id, student.email, *(c for b in both for c in b)])
    write_table(target, header, rows)


def fill(source: Path, target: Path, platform: Platform, marks: Sequence[Mark]) -> Left:
    """Write a platform's file with the marks in it. Where there is no mark yet, a cell stays as it
    is. Raises UserError."""
    own, sheet = ByKey(marks), Sheet(source, platform)
    columns = {lab: _columns(sheet, lab, own) for lab in own.labs}
    left, seen = Left([], [], []), set()
    for line, cells in sheet.students:
        student = sheet.find(cells, own.students)
        if student is None:
            left.strangers.append(f"{sheet.name(cells)} (line {line})")
            continue
        seen.add(student.student)
        if sheet.cell(cells, CHANGEABLE).casefold() == "no":
            left.locked.append(f"{student.student} (line {line})")
            continue
        for lab, (points, text) in columns.items():
            if sheet.cell(cells, MOST):
                _same_most(sheet, line, lab, sheet.cell(cells, MOST), own)
            if own.by_key[student.student, lab].points is not None:
                cells[points] = own.cell(student.student, lab)
                if text is not None:
                    cells[text] = own.text(student.student, lab)
    left.absent = [name for name in own.students if name not in seen]
    write_table(target, sheet.header, [cells for _, cells in sheet.rows])
    return left


def _columns(sheet: Sheet, lab: str, own: ByKey) -> tuple[int, int | None]:
    """The columns of a lab's points and of the feedback; None: there is none. Raises UserError."""
    where, header = f"{sheet.path}:1", sheet.header
    if MOST in header and WORKSHEET[0] in header:
        if len(own.labs) > 1:
            raise UserError(f"{where}: this is a worksheet for one lab; say which (--lab)")
        text = header.index(WORKSHEET[1]) if WORKSHEET[1] in header else None
        return header.index(WORKSHEET[0]), text
    found = list(_named(header, lab))
    if not found and sheet.platform is CANVAS:
        return _new_column(sheet, lab, own), None
    if len(found) != 1:
        which = "several columns are" if found else "no column is"
        columns = ", ".join(header[n] for n in found or range(len(header)))
        raise UserError(
            f"{where}: {which} about {lab}; name the assignment {lab}, and export again ({columns})"
        )
    points = found[0]
    for line, cells in sheet.rows:
        if sheet.platform is CANVAS and cells[0].startswith(POSSIBLE) and cells[points]:
            _same_most(sheet, line, lab, cells[points], own)
    about = [n for n in _named(header, lab, feedback=True) if n != points]
    return points, about[0] if about else None


def _named(header: Sequence[str], lab: str, feedback: bool = False) -> Iterator[int]:
    """Columns that are about a lab: they have its name, or "lab 4"."""
    number = re.match(r"lab(\d+)", lab)
    short = rf"\blab[ _-]?0*{number[1]}(?!\d)" if number else re.escape(lab)
    for n, column in enumerate(header):
        if not re.search(short, column, re.IGNORECASE):
            continue
        text = column.casefold().strip()
        if text.endswith(f"({FEEDBACK})") == feedback and not text.endswith(OTHER_FORMS):
            yield n


def _new_column(sheet: Sheet, lab: str, own: ByKey) -> int:
    """A new assignment of Canvas."""
    sheet.header.append(lab)
    for _, cells in sheet.rows:
        cells.append(f"{own.labs[lab]:g}" if cells[0].startswith(POSSIBLE) else "")
    return len(sheet.header) - 1


def _same_most(sheet: Sheet, line: int, lab: str, text: str, own: ByKey) -> None:
    """Raises UserError where a platform's assignment has another number of points than the
    course."""
    try:
        same = abs(float(text.replace(",", ".")) - own.labs[lab]) < 0.005
    except ValueError:
        same = False
    if not same:
        raise UserError(
            f"{sheet.path}:{line}: {lab} has {text} points there, and {own.labs[lab]:g} in the"
            " course; make them equal"
        )
