"""A class of the labs on the disk, and a grader for it that runs nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pytest

from labs.grader import mark as marking
from labs.grader.grade import Grade, Outcome
from labs.grader.lab import find_lab

DEADLINE = datetime(2026, 11, 30, 23, 59)
COURSE = """
secret: secret.txt
late: {percent_per_day: 10, days: 3, free: 1}
labs:
  lab2_aggregation: {points: 16, questions: 4, deadline: 2026-11-30 23:59}
  lab7_numbers: {points: 80, deadline: 2099-01-01}
"""
ROSTER = """student,id,name,email
ada,1815,"Lovelace, Ada",ada@example.org
bob,1816,Bob Bo,bob@example.org
eve,1817,"Ève, Eve",eve@example.org
"""


def write_class(folder: Path, roster: str = ROSTER, course: str = COURSE) -> Path:
    """A class without submissions."""
    (folder / "submissions").mkdir(parents=True)
    (folder / "roster.csv").write_text(roster, encoding="utf-8")
    (folder / "course.yaml").write_text(course)
    (folder / "secret.txt").write_text("a secret that nobody guesses\n")
    return folder


def hand_in(folder: Path, student: str, lab: str, late_s: float = -60, text: str = "") -> Path:
    """A submission so many seconds after DEADLINE; its folder."""
    found = find_lab(lab)
    target = folder / "submissions" / student / found.name
    target.mkdir(parents=True, exist_ok=True)
    for name in found.hand_in:
        (target / name).write_text(text or f"// {student}\n")
        os.utime(target / name, (DEADLINE.timestamp() + late_s,) * 2)
    return target


class Grader:
    """A grader that runs nothing. `loses`: tests that fail, by student; `graded`: what it was asked
    for, (student, lab, tests)."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.loses: dict[str, Iterable[str]] = {}
        self.too_busy: set[str] = set()
        self.asked: list[tuple[str, str, int]] = []
        patch.setattr(marking, "grade", self)

    def __call__(self, lab, folder, seed):
        self.asked.append((seed.student, lab.name, len(lab.checks)))
        lost = set(self.loses.get(seed.student, ()))
        busy = seed.student in self.too_busy
        outcomes = []
        for check in lab.checks:
            status = "not judged" if busy else "fail" if check.name in lost else "pass"
            outcomes.append(
                Outcome(check, status, [f"why {check.name}"] if check.name in lost else [])
            )
        return Grade(lab, outcomes)
