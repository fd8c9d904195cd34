"""Marking a folder of submissions: a subfolder per student, in it a folder per lab or the files.

    submissions/ada/lab2_aggregation/aggregation.p4        all labs that are there
    submissions/ada/aggregation.p4                         with --lab 2

One row of CSV per student and lab. Nothing that one submission does keeps the others from being
marked.
"""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import IO

from testbed.errors import UserError
from testbed.labs.grader.grade import Grade, Outcome, grade
from testbed.labs.grader.lab import Lab, find_lab, lab_names
from testbed.labs.grader.report import printable
from testbed.labs.grader.seeds import Seed

COLUMNS = ("student", "lab", "points", "of", "seconds", "failed", "problem")
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
            if _is_folder(path):
                yield student, find_lab(name), path


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def mark(
    found: Sequence[Submission],
    seed: Seed,
    jobs: int,
    output: IO[str],
    told: Callable[[str, Grade], None] = lambda student, made: None,
) -> None:
    """Grade all submissions, `jobs` at a time, and write the CSV; `seed` is completed with each
    student's name."""
    writer = csv.writer(output)
    writer.writerow(COLUMNS)

    def one(task: Submission) -> Grade:
        made = _graded(task, seed)
        return made if made.judged else _graded(task, seed)  # the machine may be less busy now

    with ThreadPoolExecutor(jobs) as pool:
        for (student, each, _), made in zip(found, pool.map(one, found), strict=True):
            failed = [o.check.name for o in made.outcomes if o.status != "pass"]
            problem = printable(" ".join(made.problem.split())[:PROBLEM])
            if not made.judged:
                problem = f"not judged, run again. {problem}".strip()
            points = made.points if made.judged else ""
            row = [points, each.points, f"{made.seconds:.1f}", " ".join(failed), problem]
            writer.writerow([_plain(student), each.name, *row])
            output.flush()
            told(student, made)


def _graded(task: Submission, seed: Seed) -> Grade:
    """A grade, also where the grader itself has a fault."""
    student, lab, folder = task
    try:
        return grade(lab, folder, replace(seed, student=student))
    except UserError:
        raise
    except Exception as error:
        problem = f"the grader could not judge this: {type(error).__name__}: {error}"
        return Grade(lab, [Outcome(check, "not judged") for check in lab.checks], problem)


def _plain(text: str) -> str:
    """A name that no spreadsheet takes for a formula, and every file can hold."""
    return f"'{printable(text)}" if text[:1] in "=+-@" else printable(text)
