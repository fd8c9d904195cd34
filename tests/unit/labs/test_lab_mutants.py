"""Mutants of the labs' solutions: the campaign, with the quickest lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mutants import labs

RUN = ["10", "--sample", "2", "--results"]


def test_a_campaign_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes of what lab 10's tests are for are noticed; a second campaign has their results."""
    assert labs.main([*RUN, str(tmp_path)]) == 0
    said = capsys.readouterr().out
    judged = (tmp_path / "results.jsonl").read_text()
    assert len(judged.splitlines()) == 2 and '"survived"' not in judged
    assert "Survivors:\nnone" in said
    assert labs.main([*RUN, str(tmp_path)]) == 0
    assert (tmp_path / "results.jsonl").read_text() == judged
    assert capsys.readouterr().out == said
