"""Taking what a student has handed in: only the files asked for, and nothing but plain files.

Somebody else wrote the folder. A name in it can be a link to a file of the grader's user, a pipe
that blocks, or a terabyte of zeros; so files are opened without following links, looked at through
the descriptor, and read up to a limit.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from p4fabric.base.errors import UserError

from labs.grader.lab import Lab

LARGEST_BYTES = 1 << 20


class Unusable(Exception):
    """A submission that cannot be graded; the message is for the student."""


def read_plain(path: Path) -> bytes:
    """The content of a plain file. Raises Unusable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unusable(f"{path.name} is missing") from None
    except OSError as error:
        raise Unusable(f"{path.name} is no plain file ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unusable(f"{path.name} is no plain file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise Unusable(f"{path.name} is larger than {LARGEST_BYTES >> 20} MB")
    return data


def find(lab: Lab, path: Path) -> Path:
    """The folder that holds the files of a submission at `path`: a folder, or its only file."""
    try:
        return _find(lab, path)
    except PermissionError as error:
        raise UserError(f"{path}: {error.strerror}") from None


def _find(lab: Lab, path: Path) -> Path:
    if path.is_file() and len(lab.hand_in) == 1:
        if path.name != lab.hand_in[0]:
            raise UserError(f"{path}: {lab.name} takes a file named {lab.hand_in[0]}")
        return path.parent
    if path.is_dir():
        return path
    what = "no such folder" if not path.exists() else "not a folder"
    raise UserError(f"{path}: {what}; {lab.name} takes a folder with {', '.join(lab.hand_in)}")


def collect(lab: Lab, folder: Path, target: Path, student: str = "") -> dict[str, bytes]:
    """Copy the submission's files, and those that stay as given, to `target`; returns the former.

    Args:
        student: whose personal files those given are.

    Raises Unusable for a file that is missing or none.
    """
    target.mkdir()
    for name, data in lab.given_data(student).items():
        (target / name).write_bytes(data)
    made = {name: read_plain(folder / name) for name in lab.hand_in}
    for name, data in made.items():
        (target / name).write_bytes(data)
    return made
