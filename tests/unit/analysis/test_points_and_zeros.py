"""Columns that printed tables leave out, and the names of a sweep's points."""

from __future__ import annotations

import io
import json
import math
import re

import pandas as pd
import pytest
from p4fabric.base.text_table import Column, Estimate, Row, Table, printed, without_zeros
from rich.console import Console

from testbed import read
from testbed.analysis import html
from testbed.analysis.data import sweep_data
from testbed.analysis.data.map_data import maps
from testbed.analysis.data.run_summary import summary
from testbed.analysis.report import ALL, DETAILS, after_run, brief, run_tables
from testbed.analysis.style.plot_style import plot_styles
from testbed.analysis.tables import report_tables as tables
from testbed.cli.main import main
from testbed.results import ResultsError
from testbed.results import read as read_run
from tests.support.synthetic_results import write_experiment_run, write_map, write_run, write_sweep


def test_rows_are_left_out_whose_numbers_are_all_zero():
    rows = [
        Row(["a", 0, Estimate(0.0, math.nan, 1)]),
        Row(["b", 0, 1]),
        Row(["c", None, math.nan]),
        Row(["all", 0, 0], total=True),
    ]
    table = Table("t", "Title", [Column("x", "x", words=True), Column("y", "y"), Column("z", "z")])
    shown = without_zeros(Table("t", "Title", table.columns, rows))
    assert [row.values[0] for row in shown.rows] == ["b", "c", "all"]


def test_numbers_keep_their_units_as_long_as_there_is_room():
    columns = [Column("job", "job", words=True)]
    columns += [Column(f"c{number}", "a heading") for number in range(4)]
    values = [Estimate(454e6, 116e6, 5)] * 4
    rows = [Row(["resnet", *values], lambda value: f"{value / 1e6:.0f} ms")]
    table = Table("t", "", columns, rows)

    def shown(width: int) -> list[str]:
        console = Console(file=io.StringIO(), width=width)
        console.print(printed(table))
        return console.file.getvalue().splitlines()

    assert any(line.count("454 ± 116 ms") == 4 for line in shown(100))
    narrow = shown(54)
    assert any(line.count("454") == 4 for line in narrow)
    assert any(line.count("± 116 ms") == 4 for line in narrow)
    # Then the columns are in two parts, each with the names of the rows.
    parts = [line for line in shown(40) if line.split()[:1] == ["resnet"]]
    assert [line.count("454 ± 116 ms") for line in parts] == [2, 2]


@pytest.mark.parametrize("width", [100, 80, 60, 44])
def test_no_table_cuts_a_word_however_narrow_the_terminal_is(swept, width):
    """Tables of a sweep over several keys, of a map, and all those of a run with intervals."""
    for table in swept:
        console = Console(file=io.StringIO(), width=width)
        console.print(printed(table))
        text = console.file.getvalue()
        assert "\N{HORIZONTAL ELLIPSIS}" not in text, text
        assert max(map(len, text.splitlines())) <= width
        words = text.split()
        for row in table.rows:
            for cell in table.cells(row):
                assert set(cell.split()) <= set(words), text
        for column in table.columns:
            assert set(column.heading.split()) <= set(words), text


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    parent = tmp_path_factory.mktemp("swept")
    found = sweep_data.read_sweep(write_map(parent / "map"))
    frame = sweep_data.frame(found)
    run = read_run(write_run(parent, stretches=(1.0, 1.1, 1.2)))
    return [
        tables.sweep(found.points, found.keys, frame),
        tables.map_cells(maps(found, frame)),
        *run_tables(run, summary(run)),
    ]


def test_a_report_is_printed_without_zeros_and_kept_with_them(tmp_path, monkeypatch, capsys):
    results = read_run(write_run(tmp_path))
    counters = results.switch_counters
    counters.loc[counters["counter"] == "releases", "value"] = 0
    monkeypatch.setattr("testbed.analysis.report.read", lambda folder: results)
    after_run(results.folder, draw=False, shown=DETAILS)
    shown = capsys.readouterr().out
    assert "s1      releases" not in shown
    assert "rows of zeros omitted: 1 (--all prints them)" in shown
    assert "s1      releases" in (results.folder / "report.txt").read_text()
    after_run(results.folder, draw=False, shown=ALL)
    assert "s1      releases" in capsys.readouterr().out


@pytest.mark.parametrize("runtime", ["mininet", "virtual"])
def test_a_run_ends_with_what_matters_on_a_screen_of_80_columns(tmp_path, runtime):
    folder = write_experiment_run(tmp_path, runtime=runtime).folder
    status = json.loads((folder / "status.json").read_text())
    if runtime == "virtual":
        (folder / "status.json").write_text(json.dumps(status | {"fidelity": None}))
    text = io.StringIO()
    after_run(folder, Console(file=text, width=80), draw=False)
    assert f" report {folder} --details\n" in text.getvalue(), "it can be copied"
    lines = [line.rstrip() for line in text.getvalue().splitlines() if folder.name not in line]
    assert len(lines) < 30 and max(map(len, lines)) <= 80
    flat = " ".join(" ".join(lines).split())
    assert "…" not in flat and "aggregated values checked, all right" in flat
    for job in read(folder).jobs.name:
        assert job in flat
    (total,) = (number for number, line in enumerate(lines) if line.startswith(" all "))
    assert lines[total - 1] == "" and "mean " in lines[total]
    assert "Mean JCT: " in flat and "PS packets" in flat
    if runtime == "virtual":
        assert "fidelity: virtual time, in which nothing can be late" in flat


def test_reports_in_virtual_time_say_that_nothing_can_be_late(tmp_path):
    runs = []
    for stretch in (1.0, 1.1):
        folder = write_experiment_run(tmp_path, runtime="virtual", stretch=stretch).folder
        status = json.loads((folder / "status.json").read_text())
        (folder / "status.json").write_text(json.dumps(status | {"fidelity": None}))
        runs.append(read_run(folder))
    assert f"Finished; fidelity: {tables.IN_VIRTUAL_TIME}." in html.write_run(runs[0]).read_text()
    compared = tables.comparison(runs, [summary(run) for run in runs], plot_styles(runs))
    (marks,) = [row.values for row in compared.rows if row.values[0] == "fidelity"]
    assert marks == ["fidelity", "virtual", "virtual"]


def test_of_many_jobs_the_longest_are_on_the_screen(tmp_path):
    results = read_run(write_run(tmp_path))
    frames = summary(results)
    (first, *_) = frames["jobs"].to_dict("records")
    many = [first | {"job": n, "name": f"j{n}", "jct_ns": 1e9 * (n + 1)} for n in range(40)]
    frames["jobs"] = pd.DataFrame(many)
    text = io.StringIO()
    Console(file=text, width=80).print(brief(results, frames))
    shown = re.findall(r"^ j(\d+) ", text.getvalue(), re.MULTILINE)
    assert sorted(map(int, shown)) == list(range(30, 40))
    assert "the table has the 10 with the longest JCTs of 40 jobs" in text.getvalue()


def test_a_point_is_named_by_its_hash(tmp_path, capsys):
    folder = write_sweep(tmp_path)
    points = sweep_data.read_sweep(folder).points
    run = next(point for point in points if point.finished)
    found = sweep_data.run_at(folder / run.key)
    assert found.folder == run.results.folder == read(folder / run.key).folder
    assert main(["show", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert all(point.key in shown for point in points)
    assert main(["show", str(folder / run.key), "--hash"]) == 0
    with pytest.raises(ResultsError, match="no point of this sweep has this hash; there are"):
        sweep_data.run_at(folder / "nope")


def test_degraded_comes_with_its_reason(tmp_path):
    folder = write_sweep(tmp_path)
    points = sweep_data.read_sweep(folder).points
    status = next(point for point in points if point.finished).results.folder / "status.json"
    content = json.loads(status.read_text())
    content |= {"fidelity": "degraded", "reasons": ["h1 sent late", "s1 was too busy"]}
    status.write_text(json.dumps(content))
    sweep = sweep_data.read_sweep(folder)
    table = tables.sweep(sweep.points, sweep.keys, sweep_data.frame(sweep))
    cells = [cell for row in table.rows for cell in table.cells(row)]
    assert "degraded: h1 sent late (and 1 more)" in cells


def test_a_sweeps_page_and_its_points_pages_lead_to_each_other(tmp_path):
    folder = write_sweep(tmp_path)
    sweep = sweep_data.read_sweep(folder)
    first, second = [point for point in sweep.points if point.finished][:2]
    page = html.write_run(first.results)
    (second.results.folder / "report.txt").write_text("tables\n")
    text = html.write_sweep(sweep, sweep_data.frame(sweep)).read_text()
    links = re.findall(r'<a href="([^"#]+)">', text)
    leads = [tmp_path / link for link in links]  # the table's, and those beside each chart
    assert leads[:2] == [page, second.results.folder / "report.txt"] and set(leads) == {*leads[:2]}
    (back,) = re.findall(r'<a href="([^"#]+)">A point of the sweep', page.read_text())
    assert (page.parent / back).resolve() == folder / "report.html"


def test_tables_are_numbers_for_programs(tmp_path, capsys):
    folder = write_sweep(tmp_path)
    points = sweep_data.read_sweep(folder).points
    before = sorted(tmp_path.rglob("*"))
    assert main(["report", str(folder), str(folder / points[0].key), "--json"]) == 0
    sweep, run = json.loads(capsys.readouterr().out)
    assert sweep["points"] == [point.key for point in points]
    rows = sweep["tables"]["points"]["rows"]
    assert rows[0]["memory.aggregators"] == 16 and rows[0]["exact"] is True
    assert rows[3]["jct_mean_ns"] is None and rows[3]["fidelity"] == "NOT RUN"
    jct = points[0].results.jobs["jct_ns"]
    assert [row["jct_ns"] for row in run["tables"]["jobs"]["rows"][:2]] == list(jct)
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"
    assert main(["figure", "--json"]) == 0
    assert "headline" in json.loads(capsys.readouterr().out)
