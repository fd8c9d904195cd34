"""The two kinds of errors of a run, and the words that all messages share. The two are separate
because users need different help.

A *user error* is something that the user can correct before anything runs: a misspelt key, a
missing package, no root. The command prints the message and exits with 2. A *run error* is a run
that started and failed: a host died, a value was wrong. The command exits with 1 and leaves a
results folder marked failed. Any other exception is a defect of the program and keeps its
traceback.
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable


class UserError(Exception):
    """Something that the user can put right.

    The message is one clear line, or a block of lines, that names the place and the remedy. It is
    printed as it stands.
    """

    def _render_traceback_(self) -> list[str]:
        """The text in a notebook: the message alone, since the mistake is not in this package."""
        return [f"{type(self).__name__}: {self}"]


class RunError(Exception):
    """A run that started and failed. The message names the cause.

    `log_tail` holds the last lines of the log that explains it ("" where there is none), `log` says
    which file they come from.
    """

    def __init__(self, message: str, log_tail: str = "", log: str | None = None) -> None:
        super().__init__(message)
        self.log_tail = log_tail
        self.log = log


def shortage(error: BaseException | None) -> str:
    """The cause and its remedy if an exception says that memory, the room of a file system or the
    number of processes ran out, else "". The command's last message and the results folder give the
    same cause."""
    code = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or code == errno.ENOMEM:
        return "memory ran out; take a smaller experiment, or close other programs"
    if isinstance(error, OSError) and code in (errno.ENOSPC, errno.EDQUOT):
        return no_room(error.filename)
    # Only fork reports EAGAIN to those who do not expect it; Python has no number for threads.
    if code == errno.EAGAIN or str(error) == "can't start new thread":
        return (
            "no more processes or threads are allowed; raise the limit (pids.max of the control"
            " group or container, `ulimit -u`), or take a smaller experiment"
        )
    return ""


def no_room(path: object) -> str:
    """Resource that a file (None: unknown) lacks on its file system, and the remedy."""
    if path is None:
        return "the file system is full; make room on it"
    folder = os.path.dirname(os.path.abspath(str(path)))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    room = os.statvfs(folder)
    if room.f_files and not room.f_favail and room.f_bavail:
        return (
            f"the file system of {path} has room, but no inode for another file; remove files on"
            " it, or use another one"
        )
    return f"the file system of {path} is full; make room on it"


def require_utf8(name: str, what: str) -> None:
    """Raise UserError for a name that is not UTF-8, which neither tables nor pages can carry."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"the {what} {ascii(name)} is not UTF-8, as names of files and folders have to be;"
            " rename the file or folder"
        ) from None


# Of a message that is shown. It may quote names and values of a file, which are of any length.
LONGEST_LINE = 1000  # characters
MOST_LINES = 300


def legible(message: object) -> str:
    """A message in its shown form: long lines without their middle, and a limited number of
    lines."""
    lines = str(message).split("\n")
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"... and {len(lines) - MOST_LINES} more lines"]
    half = LONGEST_LINE // 2
    shown = (
        line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}" for line in lines
    )
    return "\n".join(shown)


def sentence(*parts: str) -> str:
    """Join the parts of a message that are not empty: with semicolons, but not after a question."""
    text = ""
    for part in parts:
        if part and text:
            text += " " if text.endswith("?") else "; "
        text += part
    return text


def nearest_word(word: object, known: Iterable[str]) -> str:
    """The nearest of the known words, whatever its case, or "" if none is near."""
    if not isinstance(word, str):
        return ""
    by_case = {each.lower(): each for each in known}
    near = difflib.get_close_matches(word.lower(), by_case, 1)
    return by_case[near[0]] if near else ""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A hint for `sentence` that names the nearest of the known words, or ""."""
    near = nearest_word(word, known)
    return f"did you mean {near}?" if near else ""
