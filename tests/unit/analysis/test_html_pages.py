"""The HTML report: what is in its charts, that it needs nothing else, and what it says of bad runs.

How it behaves in a browser is tested in tests/browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from p4fabric.base import units
from p4fabric.base.text_table import Column, Estimate, Labelled, Row, Spread, Table

from bench.report import write_large
from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.data import timeline_data
from testbed.analysis.data.chart_data import thin
from testbed.analysis.data.job_chart_data import iteration_lines
from testbed.analysis.data.topology_data import links, places
from testbed.analysis.figures.memory_figures import occupancies, occupancy
from testbed.analysis.html import html_page as page
from testbed.analysis.html import job_charts, memory_charts, small_multiples, timeline_chart
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.comparison_page import comparison_page
from testbed.analysis.html.run_page import run_page
from testbed.analysis.html.sweep_page import sweep_page
from testbed.analysis.tables.report_tables import to_csv
from testbed.results import SWEEP_FILE, Writer, read
from tests.support.synthetic_results import (
    ENVIRONMENT,
    tables,
    write_run,
    write_sweep,
    write_tables,
)

MS = 1_000_000


class Elements(HTMLParser):
    """All elements of a page as (tag, attributes)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return read(write_run(tmp_path_factory.mktemp("html"), stretches=(1.0, 1.1, 1.2)))


@pytest.fixture(scope="module")
def charts(results):
    return {chart.name: chart for chart in run_page(results).charts}


def traces(chart: page.Chart, name: str) -> list[dict]:
    """The traces of that name, without the bar without a place that only is in a legend."""
    found = (trace for trace in chart.spec["data"] if trace.get("name") == name)
    return [trace for trace in found if trace.get("x") != [None]]


def test_every_chart_is_one_that_plotly_understands(charts):
    assert {"jct", "iterations", "topology", "timeline", "states-s1", "owners-s1", "pool-s1"} < set(
        charts
    )
    for chart in charts.values():
        check_figure(chart)  # refuses an unknown property or value
        assert chart.text and chart.title


def test_measures_have_a_chart_each_with_a_line_per_job(tmp_path):
    """Of the first repetition and the lowest rank that reports."""
    said = [
        {
            "job": job,
            "worker": worker,
            "number": step,
            "name": "loss",
            "step": step,
            "time_ns": (step + 1) * 1_000_000_000,
            "value": None if step == 2 else 10.0 * job + worker + step,
        }
        for job in (0, 1)
        for worker in (1, 3)
        for step in range(4)
    ]
    said.append(said[0] | {"name": "accuracy", "value": 0.5})
    made = write_tables(tmp_path, *[tables("esa", 1.0, 0.5) | {"measures": said}] * 2)
    found = {chart.name: chart for chart in run_page(made).charts}
    check_figure(found["measure-loss"])
    lines = found["measure-loss"].spec["data"]
    assert [line["meta"]["job"] for line in lines] == [0, 1]
    assert lines[1]["x"] == [1, 2, 3, 4] and lines[1]["y"] == [11, 12, None, 14]
    assert found["measure-accuracy"].spec["data"][0]["y"] == [0.5]


def test_bars_are_the_means_and_their_intervals(charts):
    (big,) = traces(charts["jct"], "big")
    assert big["x"] == [110] and big["y"] == ["big"]
    # 100, 110, 120 ms: s = 10, 4.3027 x 10 / sqrt(3)
    assert big["error_x"]["array"][0] == pytest.approx(24.84, abs=0.01)
    assert big["meta"] == {"job": 0}


def test_many_iterations_become_lines_on_bands(results, monkeypatch):
    monkeypatch.setattr(job_charts, "SINGLE", 4)
    chart = job_charts.iterations(iteration_lines(results))
    band, line, *_ = chart.spec["data"]
    assert line["mode"] == "lines" and "error_y" not in line and band["meta"] == line["meta"]
    points = len(line["x"])
    lower, upper = band["y"][:points], band["y"][points:][::-1]
    assert band["x"] == line["x"] + line["x"][::-1]
    assert all(a < y < b for a, y, b in zip(lower, line["y"], upper, strict=True))
    assert "bands are" in chart.text


def test_faults_are_marked_at_the_workers_that_they_hit():
    targets = [(None, "switch s1"), (0, "worker 1 of job a"), (0, "ps of job a"), (1, "job b")]
    faults = pd.DataFrame(targets, columns=["job", "target"])
    workers = ((0, 0), (0, 1), (1, 0), (1, 1))
    rows = timeline_data.WorkerRows(0, workers, ("",) * 4, 4)
    hit = timeline_data.fault_rows(faults, rows)
    assert hit[["target", "row"]].values.tolist() == [
        ["worker 1 of job a", 1], ["job b", 2], ["job b", 3]
    ]  # fmt: skip


def test_a_long_timeline_is_painted(results):
    chart = timeline_chart.timeline(results, marks=4, columns=100)  # of a ms each
    big, small = (trace for trace in chart.spec["data"] if trace["type"] == "heatmap")
    assert (big["meta"], small["meta"]) == ({"job": 0}, {"job": 1})
    # Of two workers, and between them: computing, nothing, communicating.
    assert len(big["z"]) == 7 and big["y"] == [-0.44, 0, 0.02, 0.36, 0.56, 1, 1.02, 1.36]
    phases = list(timeline_data.PHASES)
    upper, _, lower = (
        [None if each is None else phases[each] for each in row] for row in big["z"][:3]
    )
    assert (upper[3], upper[20], upper[40]) == ("forward", "backward", "waiting")
    assert (lower[10], lower[20]) == (None, "communication")
    assert {trace["name"] for trace in chart.spec["data"] if trace["type"] == "bar"} == {
        *("forward", "backward", "waiting", "communication")
    }
    check_figure(chart)


def check_figure(chart: page.Chart) -> None:
    from plotly.graph_objects import Figure

    Figure(chart.spec)


def test_preemptions_are_marked_when_they_happened(charts):
    (marks,) = traces(charts["states-s1"], "preemptions since the previous mark")
    assert (marks["x"], marks["customdata"]) == ([0.04, 0.06], [2, 1])


def test_link_loads_are_shares_of_their_rate(results):
    found = links(results).set_index("b")
    # 40 packets of 326 bytes in 100 ms, of 10 Mbit/s
    assert found.loc["h1", "up_load"] == pytest.approx(20 * 326 * 8 / 1e6, rel=1e-6)
    assert set(found["a"]) == {"s1"} and len(found) == 6


@pytest.mark.parametrize("spine_first", [True, False])
def test_a_spine_stands_above_its_leaves(spine_first):
    trunks = [("s1", "s2"), ("s1", "s3")]
    edges = pd.DataFrame(
        [
            *(trunks if spine_first else [(b, a) for a, b in trunks]),
            *(("s2", "h1"), ("s2", "h2"), ("s3", "h3")),
        ],
        columns=["a", "b"],
    )
    found = places(edges, ["s1", "s2", "s3"])
    assert {name: level for name, (_, level) in found.items()} == (
        {"s1": 2, "s2": 1, "s3": 1, "h1": 0, "h2": 0, "h3": 0}
    )
    assert found["s2"][0] < found["s1"][0] < found["s3"][0]
    assert found["h1"][0] < found["h2"][0] < found["h3"][0]


def test_a_switch_without_hosts_stands_beside_the_others():
    edges = pd.DataFrame([("s9", "s8"), ("s1", "h1"), ("s2", "h2")], columns=["a", "b"])
    found = places(edges, ["s1", "s2", "s8", "s9"])
    assert {name for name, (_, level) in found.items() if level == 1} == {"s1", "s2", "s8", "s9"}
    assert found["s1"][0] < found["s2"][0] < found["s9"][0] < found["s8"][0]


def test_the_file_needs_nothing_else(results):
    text = page.render(run_page(results))
    assert len(text) < 10_000_000
    for tag, attributes in Elements(text).found:
        for name in ("src", "href", "data", "poster"):
            value = attributes.get(name) or ""
            assert value.startswith(("#", "data:")) or not value, (tag, attributes)
    ids = [attributes["id"] for _, attributes in Elements(text).found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_names_from_users_are_text_and_not_markup(tmp_path):
    name = "</script><b>&amp;"
    folder = write_run(tmp_path, name=name)
    run = tables()
    run["jobs"][0]["name"] = "<i>job</i></script>"
    made = write_tables(tmp_path, run, name=name, text="name: x")
    for path in (folder, made.folder):
        text = page.render(run_page(read(path)))
        body = re.sub(r"<script.*?</script>", "", text, flags=re.S)
        assert not {"b", "i"} & {tag for tag, _ in Elements(body).found}
        (data,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', text)
        assert json.loads(data)["charts"]["jct"]["data"]


def test_a_failed_run_says_so_and_shows_what_there_is(tmp_path):
    with Writer.create(tmp_path, "bad", "system: esa", ENVIRONMENT) as writer:
        writer.write("iterations", tables()["iterations"], repetition=0)
        writer.fail("position 77: 5 instead of 4")
    text = page.render(run_page(read(writer.folder)))
    assert "FAILED: position 77: 5 instead of 4" in text and "chart-timeline" in text


def test_a_degraded_run_says_so(tmp_path):
    text = page.render(run_page(read(write_run(tmp_path, cpu=0.9))))
    assert "DEGRADED" in text and 'class="words bad"' in text


def test_a_table_is_printed_sorted_and_stored_by_its_numbers(tmp_path):
    time = Column("time_ns", "time", units.time, "ns", group="least")
    values = [1.5e6, Estimate(14.4e9, 1e9, 3, "mean "), Spread(3.4e9, 2.79e9, 5.04e9)]
    rows = [Row([value]) for value in values]
    rows[2] = Row(rows[2].values, show=units.spread)
    rows += [Row([value]) for value in (float("nan"), "never: it had finished", None)]
    rows.append(Row([Labelled("12 jobs", 12)]))
    table = Table("made-up", "", [time], rows)
    assert time.heading == "least\ntime"
    assert [table.cells(row)[0] for row in rows] == [
        *("0.00150 s", "mean 14.4 ± 1.0 s", "3.40 (2.79 .. 5.04) s"),
        *("-", "never: it had finished", "", "12 jobs"),
    ]
    assert [table.sort_keys(row)[0] for row in rows] == [
        *(1.5e6, 14.4e9, 3.4e9),
        *("-", "never: it had finished", "", 12),
    ]
    to_csv(Table("made-up", "", [time], rows[:2]), tmp_path / "made-up.csv")
    stored = pd.read_csv(tmp_path / "made-up.csv")
    assert stored["time_ns"].tolist() == [1.5e6, 14.4e9] and stored["time_ns_ci95"][1] == 1e9


def test_thinning_keeps_the_mean_and_says_so():
    frame = pd.DataFrame({"y": [float(n) for n in range(1000)]})
    thinned = thin(frame, 100)
    assert len(thinned) == 100 and thinned["y"].mean() == pytest.approx(frame["y"].mean())
    assert "1 000 rows" in parts.thinned_note(1000, 100, "rows")
    assert parts.thinned_note(100, 100, "rows") == ""


def test_old_results_without_forward_steps_show_undivided_passes(tmp_path):
    run = tables()
    for row in run["tensors"]:
        del row["forward_start_ns"], row["forward_end_ns"]
    made = write_tables(tmp_path, run, name="old")
    chart = timeline_chart.timeline(made)
    assert traces(chart, "forward and backward") and not traces(chart, "forward")


def test_writing_it_again_gives_the_same_file(tmp_path):
    folder = write_run(tmp_path)
    texts = [
        Path(page.write(run_page(read(folder)), tmp_path / f"{n}.html")).read_text() for n in "ab"
    ]
    assert texts[0] == texts[1]


def test_a_comparison_has_a_bar_per_run_and_job(tmp_path):
    runs = [
        read(write_run(tmp_path, name, system)) for name, system in (("x", "esa"), ("y", "atp"))
    ]
    made = comparison_page(runs)
    charts = {chart.name: chart for chart in made.charts}
    for trace, title in zip(charts["jct"].spec["data"], ("ESA", "ATP"), strict=True):
        assert trace["name"] == title
        assert trace["y"] == ["big", "small", "average"] and trace["x"] == [100, 60, 80]
    shares = [trace["x"] for trace in charts["memory"].spec["data"]]
    assert [sum(each) for each in zip(*shares, strict=True)] == pytest.approx([100, 100])
    (differences,) = next(each for each in made.sections if each.name == "differences").blocks
    assert ["system", "esa", "atp"] in [list(row.values) for row in differences.table.rows]
    check_with_plotly(made)


def test_a_comparison_names_what_has_not_finished(tmp_path):
    with Writer.create(tmp_path, "bad", "system: esa", ENVIRONMENT) as writer:
        writer.fail("it broke")
    made = comparison_page([read(writer.folder), read(write_run(tmp_path))])
    assert any("FAILED: it broke" in block.text for block in made.sections[0].blocks[:2])
    (jct, *_) = made.charts
    assert len(jct.spec["data"]) == 1


def test_a_sweep_has_a_line_per_series_and_a_row_per_point(tmp_path):
    sweep = sweeps.read_sweep(write_sweep(tmp_path))
    made = sweep_page(sweep, sweeps.frame(sweep))
    jct = next(chart for chart in made.charts if chart.name == "measure-jct_mean_ns").spec
    lines = {trace["name"]: trace for trace in jct["data"]}
    assert lines["ESA"]["x"] == [16, 32] and lines["ESA"]["y"] == [160, 88]
    assert lines["ATP (gap 3)"]["x"] == [16]
    assert lines["Ring"]["x"] == [16, 32] and lines["Ring"]["y"] == [160, 160]
    assert jct["layout"]["xaxis"]["tickvals"] == [16, 32]
    (points,) = next(each for each in made.sections if each.name == "points").blocks
    assert len(points.table.rows) == 5
    assert points.table.sort_keys(points.table.rows[0])[1] == 16
    assert any("1 of 5 points are missing" in block.text for block in made.sections[0].blocks)
    check_with_plotly(made)
    check_side_by_side(made)


def test_a_sweep_over_systems_says_which_was_faster_on_its_page(tmp_path):
    folder = write_sweep(tmp_path)
    described = json.loads((folder / SWEEP_FILE).read_text())
    points = [
        each | {"values": {"system": each["values"]["system"]}} for each in described["points"]
    ]
    kept = [each for each in points if each["key"] in ("b", "c")]
    (folder / SWEEP_FILE).write_text(json.dumps(described | {"keys": ["system"], "points": kept}))
    sweep = sweeps.read_sweep(folder)
    first = sweep_page(sweep, sweeps.frame(sweep)).sections[0].blocks[0]
    assert first.text.startswith("ESA is 1.82x faster than ATP (gap 3) (1 and 3 repetitions: ")


def check_side_by_side(made: page.Page) -> None:
    """Each kind of chart once, with one of every finished point, on scales that compare."""
    grids = {section.name: section.blocks[0] for section in made.sections}
    for kind in ("jct", "iterations", "topology", "timeline", "states", "owners", "pool", "events"):
        charts = grids[f"all-{kind}"].charts
        assert [chart.name.rpartition("-")[2] for chart in charts] == ["a", "b", "c", "e"]
        assert [chart.title for chart in charts][1] == "ESA, aggregators 32"
    for kind, axis in (("timeline", "xaxis"), ("states", "xaxis"), ("iterations", "yaxis")):
        ranges = [chart.spec["layout"][axis]["range"] for chart in grids[f"all-{kind}"].charts]
        assert ranges == [ranges[0]] * 4, "b took half as long"
    # Job big takes 200 ms, and its number stands beside its bar.
    assert grids["all-jct"].charts[0].spec["layout"]["xaxis"]["range"] == [0, 260]
    assert dict(grids["all-owners"].legend).keys() == {"big", "small"}
    folded = {section.name: section.folded for section in made.sections}
    assert not folded["all-jct"] and folded["all-events"]


def test_points_of_other_magnitudes_have_one_unit_and_one_scale(tmp_path):
    """The shortest takes microseconds, the longest seconds."""
    finished = []
    for key, stretch in (("a", 1e-4), ("b", 0.2), ("c", 30.0)):
        run = read(write_run(tmp_path / key, stretches=(stretch,)))
        run.jobs.loc[:, ["ps_link_bytes_in", "ps_link_bytes_out"]] *= int(1e4 * stretch)
        run.measures = measures_of(run, {"loss": stretch, "gain": -stretch})
        finished.append((sweeps.Point(key, "esa", {}, run), key, ""))
    made = {section.name: section.blocks[0] for section in small_multiples.sections(finished)}
    for kind, (_, shared, _) in small_multiples.KINDS.items():
        charts = made[f"all-{kind}"].charts
        for axis in (f"{each}axis" for each in shared):
            alike = {}
            for chart in charts:
                shown = chart.spec["layout"][axis]
                what = chart.title.partition(": ")[2] if kind == "measure" else ""
                alike.setdefault(what, []).append({**shown, "dtick": None})
                assert shown["range"][0] < shown["range"][1]
            for axes in alike.values():
                assert len(axes) == 3 and axes == [axes[0]] * 3, (kind, axis)
    (low, _), (_, high) = [
        next(c for c in made["all-measure"].charts if c.title.endswith(name)).spec["layout"][
            "yaxis"
        ]["range"]
        for name in ("gain", "loss")
    ]
    assert low < -29 and high > 29
    # The lines that are shown only on request are not in the legend, which cannot be clicked.
    assert dict(made["all-events"].legend).keys() == {"preemptions"}


def measures_of(run, values):
    rows = [
        {"repetition": 0, "job": 0, "worker": 0, "number": number, "step": number, "name": name,
         "time_ns": end, "value": value * number}
        for name, value in values.items()
        for number, end in enumerate(run.iterations["end_ns"].head(2))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_what_never_occurs_is_in_no_legend(tmp_path):
    """Nothing is held in the first of two runs; in the second everything happens."""
    runs = [read(write_run(tmp_path / name)) for name in ("never", "once")]
    runs[0].memory["held"] = 0
    runs[0].events["value"] = 0
    for run, names in zip(runs, ({"filling", "free"}, {"filling", "held", "free"}), strict=True):
        chart = memory_charts.by_state(run, "s1")
        marks = {"preemptions since the previous mark"} if "held" in names else set()
        assert {trace["name"] for trace in chart.spec["data"]} == names | marks
        assert {
            text.get_text() for text in occupancy(run).axes[0].get_legend().get_texts()
        } == names
    figure = occupancies([(run.name, run) for run in runs])
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["filling", "held", "free"]


def test_of_many_points_the_first_have_charts(tmp_path, monkeypatch):
    monkeypatch.setattr(small_multiples, "POINTS", 2)
    sweep = sweeps.read_sweep(write_sweep(tmp_path))
    finished = [(point, point.key, f"{point.key}.html") for point in sweep.points if point.finished]
    for section in small_multiples.sections(finished):
        (grid,) = section.blocks
        assert [chart.title for chart in grid.charts] == ["a", "b"]
        assert [chart.link for chart in grid.charts] == ["a.html", "b.html"]
        assert "The first 2 points; 2 more are in the table." in grid.text


def check_with_plotly(made: page.Page) -> None:
    assert made.charts
    for chart in made.charts:
        check_figure(chart)


@pytest.mark.slow
def test_the_page_of_ten_million_fragments_stays_small(tmp_path):
    made = run_page(read(write_large(tmp_path, iterations=100)))
    assert len(page.render(made)) < 10_000_000
    for chart in made.charts:
        marks = sum(len(trace.get("x") or ()) for trace in chart.spec["data"])
        assert marks <= 20_000, chart.name


def test_planned_faults_are_marked_where_they_began(tmp_path):
    run = tables()
    fault = {"fault": 0, "kind": "pause", "target": "worker 1 of job big", "job": 0}
    later = {"at_ns": 90 * MS, "begun_ns": None, "ended_ns": None, "factor": None}
    taken = {"at_ns": 20 * MS, "begun_ns": 21 * MS, "ended_ns": 30 * MS, "factor": None}
    link = {"fault": 2, "kind": "link_down", "target": "link h1 - s1", "job": None}
    run["faults"] = [fault | taken, fault | later | {"fault": 1}, link | taken]
    made = write_tables(tmp_path, run, name="faulty")
    chart = timeline_chart.timeline(made)
    bar, begin, line, mark = traces(chart, "planned fault")
    # On the row of the worker that was paused, as long as it was.
    labels = chart.spec["layout"]["yaxis"]["ticktext"]
    assert [labels[row] for row in bar["y"]] == ["big w1"] and bar["y"] == begin["y"]
    assert (bar["base"], bar["x"]) == ([0.021], [0.009])
    assert bar["hovertext"] == ["pause: worker 1 of job big, at 21.0 ms, for 9.00 ms"]
    # What hits no worker is marked for all of them.
    assert mark["x"] == [0.021] and mark["hovertext"] == ["link_down: link h1 - s1"]
    assert line["x"] == [0.021, 0.021, None]
