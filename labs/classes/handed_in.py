"""Submissions of each student of a class, lab by lab: something, nothing, a link or an empty
folder. Nothing that is in the folder of submissions is dropped: who is not in the roster, and labs
that the course does not have, are errors.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.errors import UserError

from labs.classes.roster import Student
from labs.grader.course import Course, handed_in_at
from labs.grader.lab import Lab, find_lab, lab_names
from labs.grader.mark import is_folder
from labs.grader.seeds import Seed
from labs.grader.submission import Unusable, read_plain

NOTHING = "nothing handed in"
LINK = "is a link, which is not followed"


@dataclass(frozen=True)
class HandedIn:
    """Submission of a student in a lab.

    Args:
        why: why there is nothing to grade; "": there is something.
        at: when its newest file was written, in seconds since 1970; None: there is nothing.
        key: of what a grading depends on: the files, and the student's hidden numbers.
    """

    student: Student
    lab: Lab
    folder: Path
    why: str = ""
    at: float | None = None
    key: str = ""


def labs_of(course: Course) -> list[Lab]:
    """The labs of a course, in order; without a list of labs, all."""
    return [find_lab(name) for name in lab_names() if not course.labs or name in course.labs]


def look(
    folder: Path, roster: dict[str, Student], course: Course, seed: Seed
) -> dict[tuple[str, str], HandedIn]:
    """Submissions by student and lab. Raises UserError for what would be
    dropped."""
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; here is a folder per student") from None
    links = {each.name for each in entries if each.is_symlink()}
    for each in entries:
        if each.name not in roster and (each.name in links or each.is_dir()):
            raise UserError(
                f"{folder / each.name}: {each.name!r} is not in the roster; add the student, or"
                " rename the folder"
            )
    for name in roster:
        if name not in links:
            _refuse_strays(folder / name, course)
    labs = labs_of(course)
    return {
        (student.student, lab.name): _one(folder, student, lab, links, seed)
        for student in roster.values()
        for lab in labs
    }


def _refuse_strays(folder: Path, course: Course) -> None:
    """Raises UserError for a lab that the course does not have."""
    for name in lab_names():
        if (folder / name).exists() and not course.includes(find_lab(name)):
            raise UserError(f"{folder / name}: the course has no {name}; add it to course.yaml")


def _one(folder: Path, student: Student, lab: Lab, links: set[str], seed: Seed) -> HandedIn:
    path = folder / student.student / lab.name
    if student.student in links:
        return HandedIn(student, lab, path, f"the student's folder {LINK}")
    if path.is_symlink():
        return HandedIn(student, lab, path, f"{lab.name} {LINK}")
    if not is_folder(path):
        return HandedIn(student, lab, path, NOTHING + _others(path.parent))
    files = {name: _content(path / name) for name in lab.hand_in}
    if not any(files.values()):
        return HandedIn(student, lab, path, f"{lab.name} has no {' and no '.join(lab.hand_in)}")
    at = handed_in_at(lab, path)
    text = [seed.key(lab.name), *(f"{name} {digest}" for name, digest in files.items())]
    return HandedIn(student, lab, path, "", at, _digest("\n".join(text).encode()))


def _content(path: Path) -> str:
    """A digest of a file; "": there is none, or it is none that can be graded."""
    try:
        return _digest(read_plain(path))
    except Unusable:
        return ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:24]


def _others(folder: Path) -> str:
    """Folders of a student that are no lab's, perhaps by mistake."""
    if not is_folder(folder):
        return ""
    known = lab_names()
    found = [e.name for e in os.scandir(folder) if e.is_dir() and e.name not in known]
    return f" (but there is {', '.join(sorted(found)[:3])})" if found else ""
