"""Gradings that are kept: the outcome of each test of each submission, until the submission
changes.

`results/gradings.json` holds them. A grading depends on the submission's files and the hidden
numbers alone (HandedIn.key), so nothing is graded twice without need. What was not judged, because
the machine was too busy, is graded again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from p4fabric.base.errors import UserError

from labs.classes.handed_in import HandedIn
from labs.classes.tables import write_text
from labs.grader.grade import Grade
from labs.grader.mark import graded
from labs.grader.pack import version
from labs.grader.report import WARNINGS, outcome_lines, printable
from labs.grader.seeds import Seed

labs_version = functools.cache(version)

Key = tuple[str, str]
"""Student, lab."""


@dataclass(frozen=True)
class Test:
    """The outcome of a test; see Outcome."""

    name: str
    title: str
    points: float
    of: int
    status: str
    output: list[str]


@dataclass(frozen=True)
class Grading:
    """The outcome of a submission's tests.

    Args:
        key: of what was graded (HandedIn.key).
        labs: the version of the labs.
        at: when, in ISO 8601.
        problem: why tests could not be run, and the compiler's warnings.
    """

    key: str
    labs: str
    at: str
    problem: str
    tests: list[Test]

    @property
    def judged(self) -> bool:
        return all(test.status != "not judged" for test in self.tests)


def grade_one(found: HandedIn, seed: Seed, only: Collection[str] = ()) -> Grading:
    """Grade a submission, or `only` some of its tests, by name."""
    lab = found.lab
    if only:
        lab = replace(lab, checks=[check for check in lab.checks if check.name in only])
    return _kept(found, graded((found.student.student, lab, found.folder), seed))


def _kept(found: HandedIn, made: Grade) -> Grading:
    tests = [
        Test(o.check.name, o.check.title, o.points, o.check.points, o.status, outcome_lines(o))
        for o in made.outcomes
    ]
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    problem = printable("\n".join([made.problem, *made.warnings[:WARNINGS]]).strip())
    return Grading(found.key, labs_version(), now, problem, tests)


def grade_all(
    found: Sequence[HandedIn],
    seed: Seed,
    jobs: int,
    only: Collection[str],
    done: Callable[[HandedIn, Grading], None],
) -> None:
    """Grade submissions, `jobs` at a time; `done` is called with each, in order."""
    with ThreadPoolExecutor(jobs) as pool:
        gradings = pool.map(lambda each: grade_one(each, seed, only), found)
        for each, made in zip(found, gradings, strict=True):
            done(each, made)


def renewed(old: Grading, new: Grading) -> Grading:
    """The old grading with the tests of the new one in their places."""
    tests = {test.name: test for test in new.tests}
    return replace(new, tests=[tests.get(test.name, test) for test in old.tests])


def read_gradings(path: Path) -> dict[Key, Grading]:
    """The gradings that are kept; none without the file. Raises UserError for one that is
    damaged."""
    if not path.exists():
        return {}
    try:
        made = {}
        for row in json.loads(path.read_text()):
            tests = [Test(**test) for test in row["grading"].pop("tests")]
            made[row["student"], row["lab"]] = Grading(tests=tests, **row["grading"])
        return made
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path}: damaged ({type(error).__name__}: {error}); move it away, and all submissions"
            " are graded again"
        ) from None


def write_gradings(path: Path, gradings: dict[Key, Grading]) -> None:
    """Keep gradings."""
    rows = [
        {"student": student, "lab": lab, "grading": asdict(grading)}
        for (student, lab), grading in gradings.items()
    ]
    write_text(path, json.dumps(rows, indent=1) + "\n")
