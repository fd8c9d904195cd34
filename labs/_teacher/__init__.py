"""The teacher's side of the labs: solutions, and wrong submissions with what they should lose.

Left out of what students get (`python -m labs export`). A wrong submission is the solution with
some lines replaced, so that it stays true when the solution changes.
"""

from __future__ import annotations

import importlib
import shutil
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Wrong:
    """A typical mistake.

    Args:
        name: of the mistake.
        why: what the student has overlooked.
        edits: (old, new) texts; each old one occurs once in the solution's file.
        loses: names of the checks that must fail, and no others.
        file: of the solution; "" where there is only one.
    """

    name: str
    why: str
    edits: tuple[tuple[str, str], ...]
    loses: frozenset[str]
    file: str = ""


def solution(lab: str) -> Path:
    """The folder of the reference solution."""
    return HERE / lab / "solution"


def wrong(lab: str) -> list[Wrong]:
    """The lab's wrong submissions."""
    return importlib.import_module(f"testbed.labs._teacher.{lab}.wrong").WRONG


def write_wrong(lab: str, mistake: Wrong, target: Path) -> None:
    """Write a wrong submission to the folder `target`. Raises ValueError where it does not fit."""
    shutil.copytree(solution(lab), target)
    name = mistake.file or next(p.name for p in sorted(target.iterdir()) if p.is_file())
    text = (target / name).read_text()
    for old, new in mistake.edits:
        if text.count(old) != 1:
            raise ValueError(f"{lab}, {mistake.name}: {old!r} occurs {text.count(old)} times")
        text = text.replace(old, new)
    (target / name).write_text(text)
