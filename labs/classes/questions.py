"""Points of the questions, which the teacher gives: four questions of five points in each lab.

    student,lab,q1,q2,q3,q4,comment
    ada,4,5,4.5,3,5,"Why is the late copy harmless?"

An empty cell is a question that has not been read yet. The comment is for the student.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labs.classes.roster import Student, lab_of, named
from labs.classes.tables import read_table
from labs.grader.course import QUESTION_POINTS, Course

QUESTIONS = ("q1", "q2", "q3", "q4")
EACH = QUESTION_POINTS / len(QUESTIONS)
COLUMNS = ("student", "lab", *QUESTIONS, "comment")


@dataclass(frozen=True)
class Answers:
    """Points for a student's answers in a lab; None for those that have not been read."""

    points: tuple[float | None, ...]
    comment: str

    @property
    def total(self) -> float:
        return sum(each or 0.0 for each in self.points)

    @property
    def missing(self) -> list[str]:
        return [q for q, each in zip(QUESTIONS, self.points, strict=True) if each is None]


def read_questions(
    path: Path, roster: dict[str, Student], course: Course
) -> dict[tuple[str, str], Answers]:
    """The answers by (student, lab); none without the file. Raises UserError."""
    made: dict[tuple[str, str], Answers] = {}
    rows = read_table(path, ("student", "lab", *QUESTIONS), COLUMNS) if path.exists() else []
    for row in rows:
        key = named(row, roster).student, lab_of(row, course).name
        if key in made:
            raise row.wrong("lab", f"a second row for {key[1]} of {key[0]}")
        points = tuple(row.number(question, EACH) for question in QUESTIONS)
        made[key] = Answers(points, row["comment"])
    return made
