"""Small networks in all their states: whatever order packets come in, whichever is lost or comes
twice, every value is exact and every worker finishes."""

from __future__ import annotations

import pytest

from tests.support.explorer.cases import CASES, Case
from tests.support.explorer.explore import Outcome, explore
from tests.support.switches import ADDED_TWICE, change_program

# Cases in which two fragments compete for anything have some ten times the states.
SMALL = [case for case in CASES if case.iterations > 1 or case.system == "switchml"]
LARGE = [case for case in CASES if case not in SMALL]
# Of two faults they have millions of states, which the command explores (docs/reliability.md).
LARGEST = {
    "esa, 1 aggregator, 2 fragments, release: on_result",
    "esa, 1 aggregator, 2 fragments, results_from: switch",
    "grid, 1 aggregator, 2 fragments",
    "ps, 2 fragments",
}
NAMES = {case: case.name for case in CASES}


def explored(case: Case, faults: int, early: int = 0) -> Outcome:
    found = explore(case, faults, early)
    assert not found.failure, found.told()
    assert found.complete and found.final > 0
    return found


@pytest.mark.parametrize("case", CASES, ids=NAMES.get)
def test_every_order(case):
    explored(case, faults=0)


@pytest.mark.parametrize("case", SMALL, ids=NAMES.get)
def test_every_loss_and_copy(case):
    assert explored(case, faults=1).states > 400


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", LARGE, ids=NAMES.get)
def test_every_pair_of_losses_and_copies(case):
    explored(case, faults=1 if case.name in LARGEST else 2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", SMALL, ids=NAMES.get)
def test_every_three_losses_and_copies(case):
    explored(case, faults=3)


@pytest.mark.parametrize(
    "change, case, faults, failure",
    [
        (("meta.move = TRADE;", ""), Case("esa", 1), 0, "wrong value in fragment"),
        (ADDED_TWICE, Case("atp", 1, iterations=2), 1, "wrong value in fragment"),
        (
            ("(meta.known != 0 && own.state == HELD)", "(meta.known != 0 && own.state > 100)"),
            Case("switchml", 2),
            1,
            "not finished",
        ),
    ],
    ids=["no trade", "added twice", "no shadow copy"],
)
def test_a_missing_defence_is_found(change, case, faults, failure, tmp_path, monkeypatch):
    """The way to the failure is told, event by event."""
    change_program(monkeypatch, tmp_path, f"{case.system}.p4", *change)
    found = explore(case, faults)
    assert failure in found.failure
    assert "begin" in found.path[0] and len(found.path) > 3
    assert any("gradient" in line and "arrives" in line for line in found.path)


def test_states_of_a_case_are_what_they_have_been():
    """A smaller number would mean that something is explored no longer."""
    found = explored(Case("switchml", 2), faults=1)
    assert (found.states, found.transitions, found.depth) == (516, 992, 12)
