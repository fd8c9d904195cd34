"""Mutants of the labs' solutions: the campaign, with the quickest lab."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from labs.grader import commands

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
