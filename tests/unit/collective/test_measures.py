"""Measures that a program reports."""

from __future__ import annotations

import json

import pytest

import testbed
from testbed.collective.measures import MEASURES
from testbed.emulate.program_group import _read


def test_reports_are_lines_of_a_file(tmp_path, monkeypatch):
    path = tmp_path / "measures"
    monkeypatch.setenv(MEASURES, str(path))
    testbed.report(step=3, loss=0.5, accuracy=float("nan"))
    testbed.report(step=4, loss=1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["step"], line["values"]) for line in lines] == [
        (3, {"loss": 0.5, "accuracy": "nan"}),
        (4, {"loss": 1.0}),
    ]
    said = _read(path.read_bytes().splitlines()[0])
    assert said is not None and str(said["values"]["accuracy"]) == "nan"


def test_outside_a_job_nothing_happens(monkeypatch):
    monkeypatch.delenv(MEASURES, raising=False)
    testbed.report(step=0, loss=1.0)


@pytest.mark.parametrize("options", [{"step": -1}, {"step": 0.5}, {"step": True}])
def test_a_step_is_a_whole_number(options):
    with pytest.raises(ValueError, match="whole number"):
        testbed.report(**options, loss=1.0)


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[1]", b"3", b'{"step": 1, "time_ns": "x", "values": {}}', b"\xff"]
)
def test_what_is_no_report_is_left_out(line):
    assert _read(line) is None
