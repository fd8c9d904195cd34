"""Marking a folder of submissions: a subfolder per student, in it a folder per lab or the files.

    submissions/ada/lab2_aggregation/aggregation.p4        all labs that are there
    submissions/ada/aggregation.p4                         with --lab 2

One row of CSV per student and lab, and the same with all tests as JSON. Nothing that one submission
does keeps the others from being marked.
"""

from __future__ import annotations

import csv
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from p4fabric.base.errors import UserError

from labs.grader.course import Course
from labs.grader.grade import Grade, Outcome, grade
from labs.grader.lab import Lab, find_lab, lab_names
from labs.grader.report import gradescope, outcome_lines, printable
from labs.grader.seeds import Seed
from labs.grader.submission import Unusable, read_plain

COLUMNS = ("student", "lab", "points", "of", "late_days", "seconds", "failed", "problem")
WITHOUT = Course()
PROBLEM = 300  # characters of a problem in a row


Submission = tuple[str, Lab, Path]
"""Student, lab, folder."""


def submissions(folder: Path, lab: Lab | None) -> list[Submission]:
    """All that is below `folder`; links are no students. Raises UserError if there is nothing."""
    found = list(_below(folder, lab))
    if not found:
        wanted = "a folder per student" if lab else "folders per student and lab (or give --lab)"
        raise UserError(f"{folder}: no submissions; there should be {wanted}")
    return found


def _below(folder: Path, lab: Lab | None) -> Iterator[Submission]:
    try:
        students = sorted(e.name for e in os.scandir(folder) if e.is_dir(follow_symlinks=False))
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; mark takes a folder of folders") from None
    for student in students:
        if lab is not None:
            yield student, lab, folder / student
            continue
        for name in lab_names():
            path = folder / student / name
            if is_folder(path):
                yield student, find_lab(name), path


def not_marked(folder: Path, lab: Lab | None) -> list[tuple[str, str]]:
    """Students of whom nothing or not all can be marked, and why: links, and empty folders."""
    made = []
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if entry.is_symlink():
            made.append((entry.name, "the student's folder is a link, which is not followed"))
        elif entry.is_dir(follow_symlinks=False) and lab is None:
            links = [n for n in lab_names() if (folder / entry.name / n).is_symlink()]
            made += [(entry.name, f"{n} is a link, which is not followed") for n in links]
            if not links and not any(is_folder(folder / entry.name / n) for n in lab_names()):
                made.append((entry.name, "there is no lab in the student's folder"))
    return made


def is_folder(path: Path) -> bool:
    """True for a folder, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


@dataclass(frozen=True)
class Mark:
    """The result of a submission. `points` is None where it has to be graded again."""

    student: str
    lab: Lab
    points: float | None
    of: float
    late_days: int
    grade: Grade

    def row(self) -> list[Any]:
        """Row for the CSV."""
        failed = [o.check.name for o in self.grade.outcomes if o.status != "pass"]
        problem = printable(" ".join(self.grade.problem.split())[:PROBLEM])
        if self.points is None:
            problem = f"not judged, run again. {problem}".strip()
        points = "" if self.points is None else f"{self.points:g}"
        head = [plain(self.student), self.lab.name, points, f"{self.of:g}", self.late_days]
        return [*head, f"{self.grade.seconds:.1f}", " ".join(failed), problem]

    def as_dict(self) -> dict[str, Any]:
        """Mark for the JSON."""
        tests = [
            {
                "name": o.check.name,
                "title": o.check.title,
                "points": o.points,
                "of": o.check.points,
                "status": o.status,
                "output": outcome_lines(o),
            }
            for o in self.grade.outcomes
        ]
        return {
            "student": printable(self.student),
            "lab": self.lab.name,
            "points": self.points,
            "of": self.of,
            "late_days": self.late_days,
            "judged": self.grade.judged,
            "problem": printable(self.grade.problem),
            "tests": tests,
        }


def mark(
    found: Sequence[Submission],
    seed: Seed,
    jobs: int,
    output: IO[str],
    told: Callable[[Mark], None] = lambda made: None,
    course: Course = WITHOUT,
    others: Sequence[tuple[str, str]] = (),
) -> list[Mark]:
    """Grade all submissions, `jobs` at a time, and write the CSV; `seed` is completed with each
    student's name. `others` are students of whom something cannot be marked, and why; they get a
    row without a lab."""
    writer = csv.writer(output)
    writer.writerow(COLUMNS)
    for student, why in others:
        writer.writerow([plain(student), *[""] * (len(COLUMNS) - 2), f"not marked: {why}"])

    marks = []
    with ThreadPoolExecutor(jobs) as pool:
        grades = pool.map(lambda task: graded(task, seed), found)
        for (student, lab, folder), made in zip(found, grades, strict=True):
            late = course.late_days(lab, folder)
            points = course.points(lab, made.points, late) if made.judged else None
            each = Mark(student, lab, points, course.most(lab), late, made)
            marks.append(each)
            writer.writerow(each.row())
            output.flush()
            told(each)
    return marks


def write_gradescope(marks: Sequence[Mark], folder: Path) -> None:
    """Gradescope's results files, STUDENT/LAB.json in the new folder `folder`."""
    for each in marks:
        path = folder / each.student / f"{each.lab.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        made = gradescope(each.grade)
        if each.points is not None:
            made["score"] = round(each.points / each.of * each.lab.points, 2) if each.of else 0
        path.write_text(json.dumps(made, indent=2) + "\n")


def write_jplag(found: Sequence[Submission], folder: Path) -> None:
    """The layout that JPlag reads, in the new folder `folder`: LAB/submissions/STUDENT/ with what
    was handed in, and LAB/base/ with the skeleton, whose text all have in common."""
    for student, lab, source in found:
        target = folder / lab.name / "submissions" / student
        target.mkdir(parents=True, exist_ok=True)
        for name in lab.hand_in:
            try:
                (target / name).write_bytes(read_plain(source / name))
            except Unusable:
                continue  # `mark` tells that it is missing
        base = folder / lab.name / "base"
        base.mkdir(exist_ok=True)
        for name, data in lab.skeleton("").items():
            (base / name).write_bytes(data)


def graded(task: Submission, seed: Seed) -> Grade:
    """A grade, also where the grader itself has a fault; with a second try where the machine was
    too busy."""
    made = _graded(task, seed)
    return made if made.judged else _graded(task, seed)


def _graded(task: Submission, seed: Seed) -> Grade:
    student, lab, folder = task
    try:
        return grade(lab, folder, replace(seed, student=student))
    except UserError:
        raise
    except Exception as error:
        problem = f"the grader could not judge this: {type(error).__name__}: {error}"
        return Grade(lab, [Outcome(check, "not judged") for check in lab.checks], problem)


def plain(text: str) -> str:
    """A name that no spreadsheet takes for a formula, and every file can hold."""
    return f"'{printable(text)}" if text.startswith(tuple("=+-@")) else printable(text)
