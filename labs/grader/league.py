"""A league table: submissions ordered by the score of a lab's check whose numbers are the same for
all of a class (Check.common)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from p4fabric.base.errors import UserError

from labs.grader.mark import Submission, mark
from labs.grader.seeds import Seed


@dataclass(frozen=True)
class Row:
    """A line of the table. `rank` is None without a score; `why` says why there is none."""

    rank: int | None
    student: str
    score: float | None
    why: str = ""


def league(found: Sequence[Submission], seed: Seed, jobs: int = 1) -> list[Row]:
    """The table, best first; equal scores have equal ranks. Runs only the checks that score. Raises
    UserError for a lab that has none, or for a machine that was too busy."""
    tasks = []
    for student, lab, folder in found:
        checks = [check for check in lab.checks if check.common]
        if not checks:
            raise UserError(f"{lab.name} has no league: no test of it has a score")
        tasks.append((student, replace(lab, checks=checks), folder))
    scores: list[tuple[float | None, str, str]] = []
    for made in mark(tasks, seed, jobs, io.StringIO()):
        if not made.grade.judged:
            raise UserError(f"{made.student} was not judged: this machine was too busy; run again")
        known = [o.score for o in made.grade.outcomes if o.score is not None]
        lines = [line for o in made.grade.outcomes for line in o.lines[:1]]
        why = "" if known else (lines or made.grade.problem.splitlines() or ["no score"])[0]
        scores.append((max(known, default=None), made.student, why))
    scores.sort(key=lambda row: (row[0] is None, -(row[0] or 0.0), row[1]))
    known_scores = [score for score, _, _ in scores if score is not None]
    return [
        Row(
            None if score is None else 1 + sum(s > score for s in known_scores), student, score, why
        )
        for score, student, why in scores
    ]
