"""Every lab's grader: full points for the solution, few for the skeleton. (test_mistakes.py: what
each typical mistake loses.)"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from labs._teacher import mistakes, solution
from labs.grader.grade import Grade, grade
from labs.grader.lab import find_lab, lab_names
from labs.grader.seeds import Seed
from labs.tests.support import ROOT

QUICK = ("lab2_aggregation", "lab11_worker")  # the others run with --slow
FEW = 0.25  # of the points
SEED = 20
STUDENT = "solution"


def graded(lab: str, folder: Path, seed: int = SEED) -> Grade:
    return grade(find_lab(lab), folder, Seed(seed, STUDENT))


def _slow(lab: str, always: bool = True) -> tuple:
    return () if lab in QUICK and always else (pytest.mark.slow,)


def _told(made: Grade) -> str:
    return "\n".join(f"{o.check.name}: {line}" for o in made.outcomes for line in o.lines)


LABS = [pytest.param(lab, marks=_slow(lab)) for lab in lab_names()]
SKELETONS = [pytest.param(lab, marks=_slow(lab, lab == QUICK[0])) for lab in lab_names()]


@pytest.mark.parametrize("lab", LABS)
def test_the_solution_gets_full_points(lab):
    made = graded(lab, solution(lab))
    assert made.points == made.lab.points, _told(made) + made.problem
    assert made.warnings == []


@pytest.mark.parametrize("lab", SKELETONS)
def test_the_skeleton_runs_and_gets_few_points(lab):
    made = graded(lab, find_lab(lab).folder / "skeleton")
    assert made.problem == ""
    assert made.points <= FEW * made.lab.points


@functools.cache
def _rubric(lab: str) -> dict[str, int]:
    """Title and points of each line of the hand-out's table of tests."""
    text = (find_lab(lab).folder / "README.md").read_text().split("## Rubric")[1]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {title: int(points) for title, points in lines if points.isdigit()}


@pytest.mark.parametrize("lab", lab_names())
def test_the_hand_out_tells_the_tests_and_their_points(lab):
    assert _rubric(lab) == {check.title: check.points for check in find_lab(lab).checks}
    assert find_lab(lab).points == 80


@pytest.mark.parametrize("lab", lab_names())
def test_a_lab_is_complete(lab):
    found = find_lab(lab)
    # Not what Python keeps of modules that another test has loaded.
    skeleton = {p.name for p in (found.folder / "skeleton").iterdir() if p.is_file()}
    assert skeleton <= {*found.hand_in, *found.given} and skeleton >= set(found.hand_in)
    assert set(found.given_data("")) == set(found.given)
    assert {p.name for p in solution(lab).iterdir() if p.is_file()} == set(found.hand_in)
    assert len(mistakes(lab)) >= 4
    text = (found.folder / "README.md").read_text()
    for part in ("You learn", "Time", "## Background", "## Tasks", "## Questions", "## Rubric"):
        assert part in text, part
    assert (ROOT / "labs" / "README.md").read_text().count(f"({lab}/") == 1
