"""Results are reused for points that several figures share, and not if other code made them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from testbed.results import SWEEP_FILE, environment, find
from testbed.sweeps import result_reuse
from tests.support.synthetic_results import write_run

CODE = "abc"


@dataclass
class Named:
    key: str


@pytest.fixture
def figures(tmp_path, monkeypatch):
    """Folders `one`, which has run point k with this CODE, and `two`, which has run none."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / SWEEP_FILE).write_text("{}")
    run = write_run(tmp_path / "one" / "k")
    path = run / "environment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "code": CODE}))
    monkeypatch.setattr(environment, "code", lambda: CODE)
    return tmp_path / "one", tmp_path / "two"


def test_a_point_of_another_figure_is_copied_once(figures):
    one, two = figures
    (two / "k" / "unfinished").mkdir(parents=True)
    assert result_reuse.take_over([Named("k"), Named("other")], two) == 1
    assert [each.name for each in find(two / "k")] == [each.name for each in find(one / "k")]
    assert sorted(path.name for path in two.iterdir()) == ["k", SWEEP_FILE]
    assert len(result_reuse.finished(two / "k")) == len(result_reuse.finished(one / "k")) == 1
    assert result_reuse.take_over([Named("k")], two) == 0


def test_results_of_other_code_are_not_reused(figures, monkeypatch):
    one, two = figures
    assert result_reuse.of_other_code([Named("k"), Named("other")], one) == 0
    monkeypatch.setattr(environment, "code", lambda: "def")
    assert result_reuse.take_over([Named("k")], two) == 0
    assert result_reuse.of_other_code([Named("k"), Named("other")], one) == 1
    path = write_run(one / "k") / "environment.json"  # the latest one
    path.write_text(json.dumps({**json.loads(path.read_text()), "code": "def"}))
    assert result_reuse.of_other_code([Named("k")], one) == 0
