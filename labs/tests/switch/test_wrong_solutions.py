"""Solutions that are wrong where short tests do not look: each loses points, with every seed, as
does each single change of a solution that is drawn here."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs._teacher import Mistake, solution, write_mistake
from labs.grader.grade import Outcome, grade
from labs.grader.lab import find_lab
from labs.grader.seeds import Seed
from labs.tests.support import mutants
from labs.tests.support.hostile_submission import NO_SANDBOX
from labs.tests.support.wrong_solutions import WRONG
from tests.support.mutants.change import sample
from tests.support.mutants.score import SURVIVED, equal_mutants

pytestmark = NO_SANDBOX
# By lab and kind of file, the checks that notice: histories, most of them.
NOTICE: dict[str, dict[str, tuple[str, ...]]] = {
    "lab1_forwarding": {".p4": ("checksum", "dropped", "payload")},
    "lab2_aggregation": {".p4": ("histories",)},
    "lab3_pool": {".p4": ("histories",)},
    "lab5_sharing": {".p4": ("histories",)},
    "lab6_preemption": {".p4": ("histories",)},
    "lab8_congestion": {".p4": ("marked_flags", "per_port", "others"), ".py": ("decrease", "once")},
    "lab7_numbers": {".py": ("rounding",)},
    "lab11_worker": {".py": ("karn",)},
    "lab14_interoperation": {".py": ("hosts_plain", "hosts_lossy")},
    "lab15_training": {".py": ("packed",)},
    "lab16_sharding": {".p4": ("lossy",), ".py": ("receiver", "owner")},
    "lab17_experts": {".p4": ("histories",)},
    "lab18_trees": {".p4": ("rounding", "histories")},
    "lab19_floats": {
        ".p4": ("adder", "corners", "orders", "rounding", "spills", "histories"),
        ".py": ("exact_sums", "serves"),
    },
}
SEEDS = range(20, 30)
PLAYED = ("lab4_loss", *NOTICE)
QUICK = {"numbers in a gap count as the shard before", "tokens without a slot from anybody"}
QUICK |= {"a result frees a complete sum alone", "math.fsum"}
CASES = [
    pytest.param(lab, wrong, id=f"{lab}-{wrong.name}", marks=marks)
    for lab, all_wrong in WRONG.items()
    for wrong in all_wrong
    for marks in [() if wrong.name in QUICK else pytest.mark.slow]
]


class Lost(Exception):
    """A check has been lost."""


def _stop(outcome: Outcome) -> None:
    assert outcome.status in ("pass", "fail"), outcome.lines
    if outcome.status == "fail":
        raise Lost


@pytest.mark.parametrize("lab, wrong", CASES)
def test_a_wrong_solution_loses_points_with_every_seed(lab, wrong: Mistake, tmp_path, monkeypatch):
    found = find_lab(lab)
    names = NOTICE[lab][Path(wrong.file).suffix]
    monkeypatch.setattr(found, "checks", [c for c in found.checks if c.name in names])
    write_mistake(lab, wrong, tmp_path / "wrong")
    for seed in SEEDS if wrong.file.endswith(".py") else SEEDS[:2]:
        with pytest.raises(Lost):
            grade(found, tmp_path / "wrong", Seed(seed, "solution"), progress=_stop)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[:3])
@pytest.mark.parametrize("lab", PLAYED)
def test_the_solution_keeps_its_points_with_every_seed(lab, seed):
    made = grade(find_lab(lab), solution(lab), Seed(seed, "solution"))
    assert made.points == made.lab.points, [o.lines for o in made.outcomes if o.lines]


@pytest.mark.slow
@pytest.mark.parametrize("lab", PLAYED)
def test_single_changes_of_a_solution_lose_points(lab):
    equal = equal_mutants(mutants.EQUAL)
    for change in sample(mutants.changes(lab), 3, seed=3):
        if (change.file, change.name) not in equal:
            assert mutants.judge(lab, change)[0] != SURVIVED, change.name
