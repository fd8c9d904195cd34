"""Every lab's grader: each typical mistake loses the tests that it deserves and no others."""

from __future__ import annotations

import pytest

from labs._teacher import mistakes, write_mistake
from labs.grader.grade import Grade, grade
from labs.grader.lab import find_lab, lab_names
from labs.grader.seeds import Seed

QUICK = "lab2_aggregation"  # its first one; the others run with --slow
MISTAKES = [
    pytest.param(
        lab,
        mistake,
        id=f"{lab}-{mistake.name}",
        marks=() if lab == QUICK and number == 0 else pytest.mark.slow,
    )
    for lab in lab_names()
    for number, mistake in enumerate(mistakes(lab))
]


def _failed(made: Grade) -> set[str]:
    assert not made.problem, made.problem
    return {o.check.name for o in made.outcomes if o.status != "pass"}


@pytest.mark.parametrize("lab, mistake", MISTAKES)
def test_a_mistake_loses_what_it_deserves(lab, mistake, tmp_path):
    write_mistake(lab, mistake, tmp_path / "wrong")
    made = grade(find_lab(lab), tmp_path / "wrong", Seed(20, "solution"))
    assert _failed(made) == mistake.loses, "\n".join(
        f"{o.check.name}: {line}" for o in made.outcomes for line in o.lines
    )
