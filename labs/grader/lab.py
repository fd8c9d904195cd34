"""A lab: what a student hands in, and the checks that it has to pass.

A lab's `checks.py` makes one `Lab` named LAB and hangs its checks on it:

    LAB = Lab(title="First aggregation", hand_in=("aggregation.p4",), program="aggregation.p4")

    @LAB.check(10, "A gradient is absorbed")
    def absorbed(t: Bench) -> None:
        switch = t.switch()
        switch.expect(1, gradient(0, [1, 2, 3, 4]), {})

A check passes when it returns, and fails when it raises `Failure`. It must be true for every seed
of `t.random`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import UserError

from labs.grader.sandbox import PYTHON_PACKAGES

if TYPE_CHECKING:
    from labs.grader.bench import Bench

LABS = Path(__file__).resolve().parents[1]
SUBMISSION_S = 60.0  # of the submission's processor time, for all checks together
TEST_S = 20.0  # of the submission's processor time; calls have limits of their own (bench.py)


@dataclass(frozen=True)
class Check:
    """One test of a lab."""

    name: str
    title: str
    points: int
    run: Callable[[Bench], None]
    limit_s: float = TEST_S
    virtual: bool = False  # it needs virtual time, so it is never played on a network
    common: bool = False  # its numbers are the same for all of a class, for a league table
    side: str = ""  # the judged part of the submission (Lab.sides); "both": all together


@dataclass
class Lab:
    """A lab's checks, and which files they judge.

    Args:
        hand_in: the files that a student edits; only these are taken from a submission.
        given: files that stay as they are, in the skeleton or (of several labs) in labs/common.
        judged: the checks have a part that students do not get: judge.py in the lab's folder of
            labs/_teacher.
        sides: parts of a submission that meet parts of others', with their files; see pairs.py.
        personal: makes those files of the skeleton that differ between students, name to text, from
            a student's name.
        program: the P4 program among `hand_in`, if there is one.
        module: the Python module among `hand_in`, if there is one.
        testbed: the checks run experiments, for which the whole testbed has to be there.
        switch: the checks run programs of ours in a switch, although none is handed in.
        packages: Python packages that the module may import.
        seconds: of the submission's processor time, for all checks together.
        defines: compile-time parameters of the program.
        ports: of the switch.
    """

    title: str
    hand_in: tuple[str, ...]
    given: tuple[str, ...] = ()
    program: str = ""
    module: str = ""
    switch: bool = False
    testbed: bool = False
    packages: tuple[str, ...] = PYTHON_PACKAGES
    seconds: float = SUBMISSION_S
    defines: dict[str, int] = field(default_factory=dict)
    ports: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    judged: bool = False
    sides: dict[str, tuple[str, ...]] = field(default_factory=dict)
    personal: Callable[[str], dict[str, str]] | None = None
    checks: list[Check] = field(default_factory=list)
    name: str = ""  # of its folder

    def check(
        self,
        points: int,
        title: str,
        limit_s: float = TEST_S,
        virtual: bool = False,
        common: bool = False,
        side: str = "",
    ) -> Callable:
        """Decorator: the function is a check of this lab. The arguments are those of `Check`."""

        def add(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
            name = function.__name__
            made = Check(name, title, points, function, limit_s, virtual, common, side)
            self.checks.append(made)
            return function

        return add

    @property
    def folder(self) -> Path:
        return LABS / self.name

    def judge(self) -> Any:
        """The teacher's part of the checks, a module; None in a kit for students."""
        if not (LABS / "_teacher" / self.name / "judge.py").is_file():
            return None
        return importlib.import_module(f"labs._teacher.{self.name}.judge")

    def given_data(self, student: str) -> dict[str, bytes]:
        """The files that a student gets and does not edit."""
        own = [self.folder / "skeleton" / name for name in self.given]
        found = [p if p.exists() else LABS / "common" / p.name for p in own]
        personal = self.personal(student) if self.personal else {}
        made = {p.name: p.read_bytes() for p in found if p.name not in personal}
        return made | {n: text.encode() for n, text in personal.items() if n in self.given}

    def skeleton(self, student: str) -> dict[str, bytes]:
        """All files that a student begins with."""
        made = {n: (self.folder / "skeleton" / n).read_bytes() for n in self.hand_in}
        personal = self.personal(student) if self.personal else {}
        return made | {n: t.encode() for n, t in personal.items()} | self.given_data(student)

    @property
    def points(self) -> int:
        return sum(check.points for check in self.checks)


def lab_names() -> list[str]:
    """The folders of all labs, in order."""
    names = [p.parent.name for p in LABS.glob("lab*/checks.py")]
    return sorted(names, key=_in_order)


def _in_order(name: str) -> tuple[int, str]:
    """Key that sorts labs by number, lab10 behind lab9."""
    number = re.match(r"lab(\d+)", name)
    return (int(number[1]) if number else 0, name)


def find_lab(wanted: str) -> Lab:
    """The lab that is meant by "2", "lab2" or its folder's name or path."""
    names = lab_names()
    text = Path(wanted).name
    number = re.fullmatch(r"(?:lab)?(\d+)", text)
    prefix = f"lab{number[1]}_" if number else None
    found = [n for n in names if n == text or (prefix and n.startswith(prefix))]
    if len(found) != 1:
        raise UserError(f"there is no lab {wanted!r}; there are {', '.join(names) or 'none'}")
    lab: Lab = importlib.import_module(f"labs.{found[0]}.checks").LAB
    lab.name = found[0]
    return lab
