"""Files of the platforms that a class may live on, by their documented formats.

* **Canvas**: the gradebook's CSV. Columns Student, ID, SIS User ID, SIS Login ID, Section, then a
  column per assignment; rows "Points Possible" and maybe "Manual Posting" before the students.
* **Moodle**: the gradebook's CSV. Columns First name, Last name, ID number, Email address, then one
  per grade item. Or an assignment's offline grading worksheet: Identifier, Full name, Email
  address, and more.
* **Gradescope**: a table of the roster or of grades, with First Name, Last Name, SID, Email.

A class can begin with such a file (`students`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.errors import UserError

from labs.classes.roster import Student
from labs.classes.tables import read_lines

NO_STUDENTS = ("Points Possible", "Manual Posting", "Muted")  # first words of rows of Canvas
TEST_STUDENT = "student, test"  # of Canvas


@dataclass(frozen=True)
class Platform:
    """A platform's columns. Those of which a file has one are alternatives.

    Args:
        id: the university's id.
        names: first and last name; or the whole name.
    """

    name: str
    id: str
    login: str
    email: str
    names: tuple[tuple[str, ...], ...]


CANVAS = Platform("canvas", "SIS User ID", "SIS Login ID", "", (("Student",),))
MOODLE = Platform(
    "moodle",
    "ID number",
    "Username",
    "Email address",
    (("First name", "Last name"), ("First name", "Surname"), ("Full name",)),
)
GRADESCOPE = Platform(
    "gradescope", "SID", "", "Email", (("First Name", "Last Name"), ("Name",), ("Full Name",))
)
PLATFORMS = (CANVAS, MOODLE, GRADESCOPE)


class Sheet:
    """A platform's file: the header, and rows with the numbers of their lines. Raises UserError for
    a file that is of no platform."""

    def __init__(self, path: Path) -> None:
        lines = read_lines(path)
        self.header = lines[0][1] if lines else []
        width = len(self.header)
        self.rows = [(line, [*cells, *[""] * (width - len(cells))]) for line, cells in lines[1:]]
        fitting = [each for each in PLATFORMS if self._fits(each)]
        if not fitting:
            wanted = "Canvas, Moodle or Gradescope"
            raise UserError(
                f"{path}:1: this is no table of {wanted}: columns {', '.join(self.header[:8])}"
            )
        self.platform = fitting[0]

    def _fits(self, platform: Platform) -> bool:
        ids = {platform.id, platform.login, platform.email} & set(self.header) - {""}
        return bool(ids) and any(set(names) <= set(self.header) for names in platform.names)

    def cell(self, cells: Sequence[str], column: str) -> str:
        """The cell of a row in a column; "" where the file has no such column."""
        return cells[self.header.index(column)] if column and column in self.header else ""

    def name(self, cells: Sequence[str]) -> str:
        """The name of a row's student, "last, first" if the file tells both."""
        names = next(names for names in self.platform.names if set(names) <= set(self.header))
        return ", ".join(filter(None, (self.cell(cells, column) for column in reversed(names))))

    @property
    def students(self) -> list[tuple[int, list[str]]]:
        """The rows of students, with the numbers of their lines."""
        if self.platform is not CANVAS:
            return self.rows
        return [
            (line, cells)
            for line, cells in self.rows
            if (name := self.name(cells)) and not name.startswith(NO_STUDENTS)
            if name.casefold() != TEST_STUDENT
        ]


def students(path: Path) -> list[Student]:
    """The students in a file of a platform. Their folders are named after the login, or the part of
    the e-mail address before the @. Raises UserError."""
    sheet, made = Sheet(path), []
    for line, cells in sheet.students:
        login = sheet.cell(cells, sheet.platform.login)
        email = sheet.cell(cells, sheet.platform.email) or (login if "@" in login else "")
        folder = (login or email).partition("@")[0]
        if not folder:
            raise UserError(f"{path}:{line}: no login and no e-mail address to name a folder after")
        made.append(Student(folder, sheet.cell(cells, sheet.platform.id), sheet.name(cells), email))
    if not made:
        raise UserError(f"{path}: there are no students in it")
    return made
