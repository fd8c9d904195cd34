"""A file for each student: the mark of each lab, with the output of failed tests, the comment on
the questions, late days, and what has been changed by hand and why.

It holds what the grader tells students in any case: no hidden number, and nothing of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from labs.classes.gradings import Test
from labs.classes.marks import Mark
from labs.classes.questions import EACH
from labs.classes.tables import write_text
from labs.grader.report import printable

INDENT = "        "  # of text that is no Markdown


def write_feedback(folder: Path, marks: Iterable[Mark]) -> None:
    """FOLDER/STUDENT.md of each student."""
    students: dict[str, list[Mark]] = {}
    for mark in marks:
        students.setdefault(mark.student.student, []).append(mark)
    for name, own in students.items():
        student = own[0].student
        head = f"# {printable(student.name or name)}\n"
        parts = [head, *("\n".join(_lab(mark)) for mark in own if _told(mark))]
        write_text(folder / f"{name}.md", "\n".join(parts) + "\n")


def _told(mark: Mark) -> bool:
    """Labs that are still open, with nothing handed in, are left out."""
    return mark.points is not None or mark.grading is not None


def _lab(mark: Mark) -> Iterator[str]:
    points = "no mark yet" if mark.points is None else f"{mark.points:g} of {mark.of:g} points"
    yield f"## {mark.lab.name}: {points}\n"
    for remark in mark.remarks:
        yield f"* {printable(remark)}"
    if mark.late_days:
        free = f", {mark.free_days} of them free" if mark.free_days else ""
        yield f"* days late: {mark.late_days}{free}"
    if mark.answers is not None:
        given = ", ".join("-" if p is None else f"{p:g}" for p in mark.answers.points)
        yield f"* questions: {given} (of {EACH:g} each)"
        if mark.answers.comment:
            yield f"* {printable(mark.answers.comment)}"
    yield ""
    for test in mark.outcomes:
        yield from _test(test, test.name in mark.overrides)
    yield ""


def _test(test: Test, by_hand: bool) -> Iterator[str]:
    status = f"{test.status}, points by hand" if by_hand else test.status
    yield f"* {test.points:g} of {test.of}: {test.title} ({status})"
    if test.output and test.status != "pass":
        lines = "\n".join(test.output).split("\n")
        yield "\n" + "\n".join(f"{INDENT}{line}" for line in lines) + "\n"
