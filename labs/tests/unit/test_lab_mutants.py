"""Mutants of the labs' solutions: the campaign, with the quickest lab; and single ones."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labs import commands
from labs.tests.support import lab_changes, mutants
from labs.tests.support.hostile_submission import NO_SANDBOX
from tests.support.mutants.score import INVALID, KILLED, SURVIVED, equal_mutants

RUN = ["mutants", "10", "--sample", "2", "--results"]


def test_a_campaign_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes of what lab 10's tests are for are noticed; a second campaign has their results."""
    assert commands.main([*RUN, str(tmp_path)]) == 0
    said = capsys.readouterr().out
    judged = (tmp_path / "results.jsonl").read_text()
    assert len(judged.splitlines()) == 2 and '"survived"' not in judged
    assert "Survivors:\nnone" in said
    assert commands.main([*RUN, str(tmp_path)]) == 0
    assert (tmp_path / "results.jsonl").read_text() == judged
    assert capsys.readouterr().out == said


def test_without_the_tests_beside_the_labs_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["mutants", "10", "--jobs", "0"]) == 2
    assert "--jobs 0: at least 1" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "labs.tests.support.mutants", None)
    assert commands.main([*RUN, str(tmp_path)]) == 2
    assert "a checkout of the testbed and not in a kit" in capsys.readouterr().err


@NO_SANDBOX
def test_a_change_of_a_solution_is_graded_as_a_submission() -> None:
    found = {change.name: change for change in mutants.changes("lab2_aggregation")}
    drops = found["count.write(0, n); -> ;"]
    assert mutants.judge("lab2_aggregation", drops) == (KILLED, "multicast")
    broken = replace(drops, new="count.write(0, m);")
    assert mutants.judge("lab2_aggregation", broken) == (INVALID, "it does not compile")
    harmless = replace(drops, new="count.write(0, n + 0);")
    assert mutants.judge("lab2_aggregation", harmless, ["rounds"]) == (SURVIVED, "")


def test_a_change_of_the_program_that_lab_10_tests_fails_one_of_the_solutions_tests() -> None:
    by_name = {change.name: change for change in mutants.changes("lab10_tests")}
    change = by_name["meta.seen = 0; -> ;"]
    assert mutants.judge("lab10_tests", change)[0] == KILLED


def test_every_equal_mutant_can_still_be_made() -> None:
    equal = equal_mutants(mutants.EQUAL)
    names = {}
    for file in {file for file, _ in equal}:
        found = mutants.FINDERS[Path(file).suffix](file)
        names[file] = {change.name for change in [*found, *lab_changes.changes(file)]}
    for (file, name), why in equal.items():
        assert name in names[file], f"{file} has changed: {name}"
        assert why
