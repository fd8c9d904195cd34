"""A sweep's folder as a table and figures."""

from __future__ import annotations

import io
import json
import math

import pytest
import yaml
from rich.console import Console

from testbed.analysis.data import run_summary
from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.data.run_summary import packed, summary
from testbed.analysis.figures import sweep_figures
from testbed.analysis.report import report_command, sweep_report
from testbed.analysis.style.plot_style import as_wide_as, plot_styles
from testbed.analysis.tables import report_tables
from testbed.results import SWEEP_FILE, ResultsError
from tests.support.synthetic_results import write_run, write_sweep


@pytest.fixture
def folder(tmp_path):
    return write_sweep(tmp_path)


def test_the_frame_has_a_row_per_point_and_repetition(folder):
    sweep = sweeps.read_sweep(folder)
    assert sweep.axis == "memory.aggregators"
    frame = sweeps.frame(sweep)
    assert frame["point"].tolist() == [0, 1, 1, 1, 2, 4]
    assert frame["series"].tolist() == ["ESA"] * 4 + ["ATP (gap 3)", "Ring"]
    assert frame["x"].tolist()[:5] == [16, 32, 32, 32, 16] and math.isnan(frame["x"].iloc[5])
    assert frame["jct_big_ns"].tolist() == pytest.approx(
        [200e6, 100e6, 110e6, 120e6, 200e6, 200e6]
    )  # fmt: skip


def test_without_numbers_there_is_no_axis(folder):
    described = json.loads((folder / SWEEP_FILE).read_text())
    for point in described["points"]:
        point["values"].pop("memory.aggregators", None)
    described["keys"] = ["system"]
    (folder / SWEEP_FILE).write_text(json.dumps(described))
    sweep = sweeps.read_sweep(folder)
    assert sweep.axis is None
    assert sweep.points[2].series() == "ATP (gap 3)"


def test_the_report_names_every_point_and_draws(folder):
    report_command([folder], Console(file=io.StringIO(), width=150))
    report = (folder / "report.txt").read_text()
    rows = [line.split() for line in report.splitlines()]
    assert sum(row[:1] == ["esa"] for row in rows) == 2
    assert any(row[:1] == ["atp"] and row[-2:] == ["NOT", "RUN"] for row in rows)
    assert "±" in report
    assert (folder / "data.csv").read_text().count("\n") == 7
    assert {path.name for path in (folder / "figures").iterdir()} == {
        "measures.png",
        "measures.pdf",
    }


PLACED = {"workers": ["h1", "h2", "h3"]}


@pytest.mark.parametrize(
    "ring, expected",
    [
        ({"name": "ring"}, {"a": (2, 5), "c": (2, 5), "e": (0, 3)}),
        ({"name": "colocated_ps", "servers": 2}, {"a": (2, 5), "c": (2, 5), "e": (2, 3)}),
        ({"name": "colocated_ps", "servers": "all"}, {"a": (2, 5), "c": (2, 5), "e": (3, 3)}),
        (None, {}),  # all have the same: nothing to compare
    ],
)
def test_servers_and_hosts_stand_beside_times_where_points_differ(folder, ring, expected):
    for file in folder.glob("*/*/experiment.yaml"):
        described = yaml.safe_load(file.read_text())
        of_ring = file.parents[1].name == "e" and ring is not None
        placed = PLACED if of_ring else PLACED | {"ps": ["h4", "h5"]}
        described["jobs"] = [{"placement": placed}]
        described["system"] = ring if of_ring else {"name": described["system"]}
        file.write_text(yaml.safe_dump(described))
    sweep = sweeps.read_sweep(folder)
    table = report_tables.sweep(sweep.points, sweep.keys, sweeps.frame(sweep))
    keys = [column.key for column in table.columns]
    found = {}
    if "hosts" in keys:
        places = keys.index("servers"), keys.index("hosts")
        for point, row in zip(sweep.points, table.rows, strict=True):
            found[point.key] = tuple(
                int(row.values[place].mean) for place in places if point.finished
            )
        found = {key: found[key] for key in expected}
    assert found == expected
    runs = [point.results for point in sweep.points if point.finished]
    compared = report_tables.comparison(runs, [summary(each) for each in runs], plot_styles(runs))
    assert any(row.values[0] == "hosts (ports)" for row in compared.rows) == bool(expected)


def test_a_folder_without_a_readable_description(tmp_path):
    (tmp_path / SWEEP_FILE).write_text("{}")
    with pytest.raises(ResultsError, match="can't be read"):
        sweeps.read_sweep(tmp_path)


def test_what_is_drawn_already_is_drawn_again_only_if_it_would_differ(folder, monkeypatch):
    drawn = []

    def draw(sweep, frame, where):
        drawn.append(len(frame))
        where.mkdir(exist_ok=True)
        for path in (paths := [where / "measures.png", where / "measures.pdf"]):
            path.write_text("drawn")
        return paths

    def write(sweep, frame):
        (sweep.folder / "report.html").write_text("a page")
        return sweep.folder / "report.html"

    def said(**options):
        told = Console(file=io.StringIO(), width=150)
        sweep_report(folder, told, **options)
        lines = told.file.getvalue().splitlines()  # but for steps, which a busy machine shows
        return [line for line in lines if line and not line.endswith(" s)")]

    monkeypatch.setattr(sweep_figures, "draw", draw)
    monkeypatch.setattr("testbed.analysis.html.write_sweep", write)
    first = said(again=False)
    assert said(again=False) == first
    assert any("measures.png (and PDF)" in line for line in first)
    assert drawn == [6]
    said()  # `ina report` draws
    assert drawn == [6] * 2
    (folder / "report.html").write_text("mine")
    said(again=False)
    assert drawn == [6] * 3 and (folder / "report.html").read_text() == "a page"
    (folder / "figures" / "measures.pdf").unlink()
    said(again=False)
    assert drawn == [6] * 4 and (folder / "figures" / "measures.pdf").exists()
    with as_wide_as(1):
        said(again=False)
    assert drawn == [6] * 5
    said(again=False)  # in their usual width again
    assert drawn == [6] * 6
    new = write_run(folder / "d", system="atp")
    said(again=False)
    assert drawn == [6] * 6 + [7]
    said(again=False, draw=False)
    said(again=False)
    assert drawn == [6] * 6 + [7]
    (new / "report.html").write_text("the point's page")
    said(again=False)  # with a link to it
    assert drawn == [6] * 6 + [7] * 2


def test_summaries_of_those_who_made_the_runs_are_used(folder, monkeypatch):
    points = [each for each in sweeps.read_sweep(folder).points if each.results is not None]
    known = {(each.key, each.results.folder.name): packed(each.results) for each in points}

    def reported(known):
        sweep_report(folder, Console(file=io.StringIO(), width=150), draw=False, known=known)
        return [(folder / name).read_text() for name in ("report.txt", "data.csv")]

    expected = reported({})
    assert reported(dict.fromkeys(known, b"of another pandas")) == expected
    monkeypatch.setattr(run_summary, "jobs", None)  # no summary can be made
    assert reported(known) == expected
