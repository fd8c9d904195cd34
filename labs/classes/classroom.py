"""A class as it is on the disk: its tables, what has been handed in, and what has been graded."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from p4fabric.base.errors import UserError

from labs.classes import overrides, questions
from labs.classes.feedback import write_feedback
from labs.classes.gradings import Grading, Key, read_gradings, write_gradings
from labs.classes.handed_in import HandedIn, look
from labs.classes.marks import Mark, compute, write_marks
from labs.classes.overrides import Overrides, read_overrides
from labs.classes.questions import Answers, read_questions
from labs.classes.roster import COLUMNS, Student, read_roster
from labs.classes.sheets import students
from labs.classes.tables import write_table, write_text
from labs.grader.course import Course, read_course
from labs.grader.lab import Lab, find_lab, lab_names
from labs.grader.seeds import Seed

SUBMISSIONS, RESULTS = "submissions", "results"
COURSE = """\
# What counts, and until when: labs/TEACHERS.md. Take out labs that the course does not have.
secret: secret.txt
late: {percent_per_day: 10, days: 3, free: 0}
labs:
"""
LAB = "  {name}: {{points: 80, questions: 20}}  # deadline: 2026-11-30 23:59\n"


@dataclass
class Class:
    """A class; see `read_class`."""

    folder: Path
    course: Course
    roster: dict[str, Student]
    questions: dict[Key, Answers]
    overrides: dict[Key, Overrides]
    found: dict[Key, HandedIn]
    gradings: dict[Key, Grading]

    @property
    def results(self) -> Path:
        return self.folder / RESULTS

    @property
    def seed(self) -> Seed:
        return Seed(secret=self.course.secret)

    def keep(self, each: HandedIn, grading: Grading) -> None:
        """Keep a grading, on the disk, too."""
        self.gradings[each.student.student, each.lab.name] = grading
        write_gradings(self.results / "gradings.json", self.gradings)

    def wanted(self, students: Collection[str], labs: Sequence[str]) -> list[HandedIn]:
        """Submissions to grade of some students and labs; of all without any. Raises UserError
        for those that the class does not have."""
        for student in students:
            if student not in self.roster:
                raise UserError(f"--student {student}: not in {self.folder / 'roster.csv'}")
        names = {self.lab(name).name for name in labs}
        return [
            each
            for (student, lab), each in self.found.items()
            if (not students or student in students) and (not names or lab in names)
            if not each.why
        ]

    def lab(self, name: str) -> Lab:
        """A lab of the course. Raises UserError."""
        lab = find_lab(name)
        if not self.course.includes(lab):
            raise UserError(f"--lab {name}: {self.folder / 'course.yaml'} has no {lab.name}")
        return lab

    def open(self, wanted: Sequence[HandedIn]) -> list[HandedIn]:
        """Those that are not graded as they are now."""
        made = []
        for each in wanted:
            old = self.gradings.get((each.student.student, each.lab.name))
            if old is None or old.key != each.key or not old.judged:
                made.append(each)
        return made

    def marks(self, now: datetime | None = None) -> list[Mark]:
        """The marks of all students in all labs. Raises UserError."""
        now = datetime.now() if now is None else now
        return compute(self.course, self.found, self.gradings, self.questions, self.overrides, now)

    def write(self, marks: Sequence[Mark]) -> None:
        """results/marks.csv, and results/feedback/STUDENT.md."""
        write_marks(self.results / "marks.csv", marks)
        write_feedback(self.results / "feedback", marks)


def read_class(folder: Path) -> Class:
    """The class in a folder. Raises UserError that names what is wrong in which file."""
    if not (folder / "roster.csv").exists():
        raise UserError(
            f"{folder / 'roster.csv'}: there is none, so this is no class; make one:"
            f" python -m labs class new {folder}"
        )
    course = read_course(folder / "course.yaml")
    if not course.secret:
        raise UserError(f"{folder / 'course.yaml'}: secret: a class needs one (labs/TEACHERS.md)")
    roster = read_roster(folder / "roster.csv", course)
    return Class(
        folder,
        course,
        roster,
        read_questions(folder / "questions.csv", roster, course),
        read_overrides(folder / "overrides.csv", roster, course),
        look(folder / SUBMISSIONS, roster, course, Seed(secret=course.secret)),
        read_gradings(folder / RESULTS / "gradings.json"),
    )


def new_class(folder: Path, source: Path | None) -> list[Student]:
    """Begin a class in a new folder, with the students of a platform's file, if there is one.
    Raises UserError."""
    if folder.exists():
        raise UserError(f"{folder} exists already; name a folder that does not")
    found = students(source) if source else []
    rows = [[each.student, each.id, each.name, each.email] for each in found]
    (folder / SUBMISSIONS).mkdir(parents=True)
    write_table(folder / "roster.csv", COLUMNS, rows)
    write_table(folder / "questions.csv", questions.COLUMNS, [])
    write_table(folder / "overrides.csv", overrides.COLUMNS, [])
    write_text(folder / "course.yaml", COURSE + "".join(LAB.format(name=n) for n in lab_names()))
    write_text(folder / "secret.txt", secrets.token_urlsafe(32) + "\n")
    (folder / "secret.txt").chmod(0o600)
    if found:
        read_roster(folder / "roster.csv", read_course(folder / "course.yaml"))
    return found
