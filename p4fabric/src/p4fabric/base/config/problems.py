"""Problems of a configuration file: all of them at once, each with its place and the
remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from p4fabric.base.config.units import FieldError, describe
from p4fabric.base.errors import UserError, did_you_mean, nearest_word, sentence

SHOWN = 20
COMMAND_LINE = 0  # line of what is not in the file but on the command line

Path = tuple[str | int, ...]


def key_path(path: Path) -> str:
    """Write a path as in `links[0].delay`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        key = part if re.fullmatch(r"[\w-]{1,60}", part) else describe(part)
        text += f".{key}" if text else key
    return text


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `path` is the key's path, () for the file as a whole; `line` counts
    from 1 and is filled in when the place in the file is known. `instead` is set for an unknown
    key: the path of the key that was probably meant, which is then not missing, too. `changed`: the
    command line has changed a part of what is there."""

    path: Path
    message: str
    line: int | None = None
    instead: Path | None = None
    changed: bool = False

    @classmethod
    def missing(cls, path: Path, meaning: str) -> Problem:
        """A key that has to be there is not."""
        return cls(path, sentence("missing", meaning))

    @classmethod
    def unknown(cls, path: Path, known: list[str], remark: str = "", sure: bool = False) -> Problem:
        """A key that is not among the known ones. `remark` is shown if none of them is near, or in
        any case if it is `sure`."""
        near = None if sure else nearest_word(path[-1], known)
        hint = remark if sure else did_you_mean(path[-1], known) or remark
        message = sentence("unknown key", hint, f"allowed: {', '.join(known) or 'none'}")
        return cls(path, message, instead=(*path[:-1], near) if near else None)

    @classmethod
    def of(cls, path: Path, error: FieldError) -> Problem:
        """Problem with a value that does not fit its key."""
        return cls(path, sentence(f"found {error.found}", f"allowed: {error.allowed}", error.hint))

    def __str__(self) -> str:
        place = [f"line {self.line}"] if self.line else []
        if self.line == COMMAND_LINE:
            place = ["on the command line"]
        elif self.changed:
            place = [*place, "changed on the command line"]
        place += [key_path(self.path)] if self.path else []
        return ", ".join(place) + (": " if place else "") + self.message.replace("\n", "\n    ")


class ExperimentError(UserError):
    """An experiment file that cannot be used; `what`: another kind of file, or a part of one.
    `problems` are all that were found, by line."""

    def __init__(self, file: str, problems: Iterable[Problem], what: str = "experiment") -> None:
        self.problems = sorted(problems, key=lambda each: each.line or 0)
        count = len(self.problems)
        lines = [f"{file}: {count} error{'s' if count > 1 else ''} in the {what}"]
        lines += [f"  {problem}" for problem in self.problems[:SHOWN]]
        if count > SHOWN:
            lines.append(f"  ... and {count - SHOWN} more")
        super().__init__("\n".join(lines))
