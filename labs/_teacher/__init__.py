"""The teacher's part of the labs: solutions, and typical mistakes with the checks that must fail.

`python -m labs export` leaves it out of the students' copy. A submission with a mistake is the
solution with some lines replaced, so that it follows changes of the solution.
"""

from __future__ import annotations

import importlib
import shutil
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Mistake:
    """A typical mistake.

    Args:
        name: of the mistake.
        why: what the student has overlooked.
        edits: (old, new) texts; each old one occurs exactly once in the solution's file.
        loses: names of the checks that must fail; all others must pass.
        file: of the solution; "" if it has only one.
    """

    name: str
    why: str
    edits: tuple[tuple[str, str], ...]
    loses: frozenset[str]
    file: str = ""


def solution(lab: str) -> Path:
    """The folder of the reference solution."""
    return HERE / lab / "solution"


def mistakes(lab: str) -> list[Mistake]:
    """The typical mistakes of a lab."""
    return importlib.import_module(f"labs._teacher.{lab}.mistakes").MISTAKES


def write_mistake(lab: str, mistake: Mistake, target: Path) -> Path:
    """Write the solution with a mistake to the new folder `target`; returns the file that has it.
    Raises ValueError if an edit does not fit the solution."""
    shutil.copytree(solution(lab), target)
    files = sorted(path for path in target.iterdir() if path.is_file())
    changed = target / mistake.file if mistake.file else files[0]
    text = changed.read_text()
    for old, new in mistake.edits:
        if text.count(old) != 1:
            raise ValueError(f"{lab}, {mistake.name}: {old!r} occurs {text.count(old)} times")
        text = text.replace(old, new)
    changed.write_text(text)
    return changed
