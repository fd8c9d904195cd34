"""Measures that programs of a sweep have reported, over time and at the end."""

from __future__ import annotations

import json

import numpy as np
import pytest

from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.data.reported_data import BINS, reported
from testbed.analysis.figures import sweep_figures
from testbed.results import SWEEP_FILE
from tests.support.synthetic_results import tables, write_tables

SECOND = 1_000_000_000
# Of each point: its name, system, and per repetition how many seconds lie between two reports.
POINTS = (("a", "esa", (1.0, 1.0, 1.5)), ("b", "gloo", (2.0,)))


def rows(every_s: float) -> list[dict]:
    """Ten losses of two ranks of the first job, and an accuracy at the end; the first after 7 s."""
    said = []
    for worker in (1, 3):
        for step in range(10):
            time_ns = round((7 + step * every_s) * SECOND)
            loss = None if step == 4 else 10.0 - step + worker - 1
            said.append(_row(worker, step, "loss", step, time_ns, loss))
        said.append(_row(worker, 10, "accuracy", 10, time_ns, 0.5 + worker / 10))
    return said


def _row(worker, number, name, step, time_ns, value) -> dict:
    return {"job": 0, "worker": worker, "number": number, "name": name, "step": step,
            "time_ns": time_ns, "value": value}  # fmt: skip


@pytest.fixture
def sweep(tmp_path):
    points = []
    for key, system, repetitions in POINTS:
        values = {
            "system": {"text": "ps" if system == "gloo" else system, "number": None},
            "jobs[*].backend": {"text": "x", "number": None, "in_legend": False},
        }
        values["system"]["title"] = system
        points.append({"key": key, "system": system, "values": values})
        found = [tables("esa", 1.0, 0.5) | {"measures": rows(each)} for each in repetitions]
        write_tables(tmp_path / key, *found, name="reports")
    figure = {"panels": ["jct"], "reported": ["loss", "accuracy", "speed"]}
    keys = ["system", "jobs[*].backend"]
    described = {"format": 1, "name": "s", "keys": keys, "points": points, "figure": figure}
    (tmp_path / SWEEP_FILE).write_text(json.dumps(described))
    return sweeps.read_sweep(tmp_path)


def test_reports_are_averaged_over_repetitions_from_the_first_report_on(sweep):
    loss, accuracy = reported(sweep)  # nobody reports speed
    name = sweep.points[0].series()
    assert (loss.measure, loss.over_time) == ("loss", True)
    assert (accuracy.measure, accuracy.over_time) == ("accuracy", False)
    ours, theirs = loss.lines
    assert (ours.series, theirs.series) == (name, "gloo") == ("ESA", theirs.system)
    # Bins of 0.3 s: the slowest repetition of all takes 18 s.
    assert theirs.time_s == pytest.approx(np.arange(1, BINS + 1) * 0.3)
    assert ours.time_s[-1] == pytest.approx(13.5)
    # At 3 s the third repetition has step 2, the others step 3; at 4 s they keep it, as a value
    # that is not finite says nothing.
    assert ours.means[ours.time_s.searchsorted(3.25)] == pytest.approx((7 + 7 + 8) / 3)
    assert ours.means[ours.time_s.searchsorted(4.25)] == pytest.approx((7 + 7 + 8) / 3)
    # After their ends the first two keep their last value.
    assert ours.means[ours.time_s.searchsorted(12.1)] == pytest.approx((1 + 1 + 2) / 3)
    assert np.isfinite(ours.half_widths[-1]) and np.isnan(theirs.half_widths).all()
    assert (ours.last.mean, ours.last.count, theirs.last.count) == (1, 3, 1)
    assert [line.time_s.tolist() for line in accuracy.lines] == [[1.0], [1.0]]
    assert [line.last.mean for line in accuracy.lines] == [pytest.approx(0.6)] * 2


def test_the_figure_is_drawn_beside_the_others(sweep, tmp_path):
    paths = sweep_figures.draw(sweep, sweeps.frame(sweep), tmp_path / "drawn")
    assert {"s-reported.png", "s-reported.pdf"} < {path.name for path in paths}
    assert (tmp_path / "drawn" / "s-reported.png").stat().st_size > 5000
