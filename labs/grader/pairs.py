"""A matrix of a class: one student's part of a submission with another student's other part.

Each part is judged with ours on the other side first. Only parts that pass that meet, in the lab's
checks of both. So where two of them fail together, the failure says which side has broken the
specification.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from p4fabric.base.errors import UserError

from labs.grader.lab import Lab
from labs.grader.mark import Mark, Submission, mark
from labs.grader.seeds import Seed
from labs.grader.submission import Unusable, read_plain

BOTH = "both"


@dataclass(frozen=True)
class Meeting:
    """The outcome of one student's part with another's. `result`: "works", "fails", "alone" (a part
    fails with ours already) or "not judged"; `why`: in a line."""

    first: str
    second: str
    result: str
    why: str = ""


def pairs(
    found: Sequence[Submission], seed: Seed, jobs: int = 1, partners: int = 2
) -> list[Meeting]:
    """Let each student's first part meet the second parts of `partners` others (0: of all), in the
    order of their names, round about. Raises UserError for a lab without parts."""
    lab = found[0][1]
    if len(lab.sides) != 2:
        raise UserError(f"{lab.name} has no parts that can meet those of others")
    first, second = lab.sides
    students = {student: folder for student, _, folder in found}
    alone = {side: _alone(found, side, seed, jobs) for side in lab.sides}
    names = sorted(students)
    count = min(partners or len(names), len(names) - 1)
    wanted = [
        (a, names[(n + k) % len(names)]) for n, a in enumerate(names) for k in range(1, count + 1)
    ]
    made = {(a, b): _why_alone(alone, a, b, first, second) for a, b in wanted}
    with tempfile.TemporaryDirectory() as name:
        tasks: list[Submission] = []
        for a, b in wanted:
            if made[a, b] is None:
                folder = Path(name) / str(len(tasks))
                _merge(lab, {first: students[a], second: students[b]}, folder)
                tasks.append((f"{a} with {b}", _only(lab, BOTH), folder))
        marks = mark(tasks, seed, jobs, io.StringIO()) if tasks else []
    met = iter(marks)
    return [made[each] or _meeting(*each, next(met)) for each in wanted]


def _only(lab: Lab, side: str) -> Lab:
    return replace(lab, checks=[check for check in lab.checks if check.side == side])


def _alone(found: Sequence[Submission], side: str, seed: Seed, jobs: int) -> dict[str, Mark]:
    """The outcome of each student's part with ours."""
    tasks = [(student, _only(lab, side), folder) for student, lab, folder in found]
    return {made.student: made for made in mark(tasks, seed, jobs, io.StringIO())}


def _why_alone(
    alone: dict[str, dict[str, Mark]], a: str, b: str, first: str, second: str
) -> Meeting | None:
    """Reason why two parts need not meet; None: they do."""
    for student, side in ((a, first), (b, second)):
        made = alone[side][student]
        if not made.grade.judged:
            return Meeting(a, b, "not judged", f"the {side} of {student}")
        failed = [o for o in made.grade.outcomes if o.status != "pass"]
        if failed:
            lines = [*failed[0].lines, *made.grade.problem.splitlines()]
            why = f"the {side} of {student} with ours: {lines[0] if lines else failed[0].status}"
            return Meeting(a, b, "alone", why)
    return None


def _meeting(a: str, b: str, made: Mark) -> Meeting:
    if not made.grade.judged:
        return Meeting(a, b, "not judged")
    failed = [o for o in made.grade.outcomes if o.status != "pass"]
    if not failed:
        return Meeting(a, b, "works")
    lines = [*failed[0].lines, *made.grade.problem.splitlines()] or [failed[0].status]
    return Meeting(a, b, "fails", lines[0])


def _merge(lab: Lab, folders: dict[str, Path], target: Path) -> None:
    """A submission made of parts of several."""
    target.mkdir()
    for side, folder in folders.items():
        for name in lab.sides[side]:
            try:
                (target / name).write_bytes(read_plain(folder / name))
            except Unusable:
                continue  # the grader says that it is missing
