"""Figures of runs: their bars, areas, titles and marks."""

import errno
import itertools
import json

import pytest
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from p4fabric.base.errors import shortage
from PIL import Image

from testbed.analysis.data import job_chart_data
from testbed.analysis.data.chart_data import SPARSE
from testbed.analysis.data.run_summary import summary
from testbed.analysis.figures import figure_files
from testbed.analysis.figures import run_figures as figures
from testbed.analysis.figures.memory_figures import memory_shares
from testbed.analysis.html import timeline_chart
from testbed.analysis.style import plot_style
from testbed.analysis.style.plot_style import PlotStyle, job_color, job_hatch, plot_styles
from testbed.results import read
from testbed.results.counters import DEPARTURES
from testbed.systems import SYSTEMS
from tests.support.synthetic_results import tables, write_run, write_tables

MS = 1_000_000


def test_jct_has_one_bar_per_run_and_job_and_average(tmp_path):
    runs = [read(write_run(tmp_path, name)) for name in ("first", "second")]
    axes = figures.jct(runs).axes[0]
    heights = [round(bar.get_height(), 6) for bar in axes.patches]
    assert heights == [100, 60, 80] * 2
    assert [label.get_text() for label in axes.get_xticklabels()] == ["big", "small", "average"]
    assert axes.get_ylabel() == "JCT (ms)"
    # one system: one colour, told apart by the hatch
    assert len({bar.get_facecolor() for bar in axes.patches}) == 1
    assert len({bar.get_hatch() for bar in axes.patches}) == 2


def test_jct_of_repetitions_has_intervals_and_a_dot_each(tmp_path):
    axes = figures.jct([read(write_run(tmp_path, stretches=(1.2, 1.25, 1.3)))]).axes[0]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([125, 75, 100])
    (errors,) = (each for each in axes.containers if isinstance(each, ErrorbarContainer))
    assert len(errors.lines[2][0].get_segments()) == 3
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert sorted(dots[0].get_ydata()) == pytest.approx([120, 125, 130])


def test_many_jobs_are_drawn_by_model(tmp_path):
    jobs = []
    for number in range(30):
        job = tables()["jobs"][number % 2]
        jobs.append(job | {"job": number, "name": f"job{number}"})
    made = write_tables(tmp_path, {"jobs": jobs}, name="many")
    axes = figures.jct([made]).axes[0]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([100, 60, 80])


@pytest.mark.parametrize("most, by", [(2, "name"), (1, "model")])
def test_as_many_jobs_as_there_is_room_for_have_their_names(tmp_path, most, by):
    results = read(write_run(tmp_path))
    jobs = summary(results)["jobs"]
    assert job_chart_data.jct_by_run([jobs], plot_styles([results]), most)[1] == by


@pytest.mark.parametrize("count", [3, 12])
def test_a_comparison_is_as_wide_as_a_page_with_every_number_beside_its_bar(tmp_path, count):
    """Bars that have no room beside each other lie; a file is 1440 pixels wide at most."""
    run = read(write_run(tmp_path))
    styles = [PlotStyle(f"system {number}", "#D55E00", "o", "") for number in range(count)]
    figure = figures.jct([run] * count, styles)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert figure.get_figwidth() <= plot_style.PAGE and len(axes.texts) == 3 * count
    boxes = [text.get_window_extent() for text in axes.texts]
    names = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label]
    boxes += [name.get_window_extent() for name in names if name.get_text()]
    assert not [(a, b) for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]
    assert {bool(patch.get_y()) for patch in axes.patches} == {count > 3}
    assert memory_shares([run] * count).get_figwidth() <= plot_style.PAGE


def test_packets_at_the_servers_have_a_bar_per_job(tmp_path):
    jobs = summary(read(write_run(tmp_path)))["jobs"]
    chart = job_chart_data.ps_packets_by_job(jobs)
    means = [bar.estimate.mean for series in chart.series for bar in series.bars]
    assert means == pytest.approx([28 / 20, 33 / 30])
    assert job_chart_data.ps_packets_by_job(jobs.assign(ps_packets_per_fragment=None)) is None


def test_few_samples_of_memory_are_bars_with_gaps(tmp_path):
    """At 11 times of 100 ms something was known, and nothing between them."""
    figure = figures.occupancy(read(write_run(tmp_path, stretches=(1.0, 2.0))))
    states, owners = figure.axes
    for axes, labels in ((states, ["filling", "held", "free"]), (owners, ["big", "small"])):
        assert [each.get_label() for each in axes.containers] == labels
        assert axes.get_ylim() == (0, 8) and axes.get_xlim() == (0, 100)
        assert all(len(each) == 11 and each[0].get_width() == 6 for each in axes.containers)
    filling, held, free = states.containers
    # at 30 ms: 2 + 3 filling, 1 held
    assert [bar.get_height() for bar in (filling[3], held[3], free[3])] == [5, 1, 2]
    assert owners.get_xlabel() == "time (ms), repetition 0; 11 samples, one every 10.0 ms"


def test_many_samples_of_memory_are_areas(tmp_path):
    memory = [
        {"switch": "s1", "time_ns": time, "job": None, "occupied": 3, "held": 1, "capacity": 8}
        for time in range(SPARSE + 1)
    ]
    made = write_tables(tmp_path, {"jobs": tables()["jobs"], "memory": memory}, name="long")
    states, _ = figures.occupancy(made).axes
    areas = [each for each in states.collections if isinstance(each, FillBetweenPolyCollection)]
    assert [area.get_label() for area in areas] == ["filling", "held", "free"]
    assert not states.containers


def test_the_timeline_has_the_pieces_of_the_page(tmp_path):
    """What one calls waiting, the other does not call computing."""
    results = read(write_run(tmp_path))
    axes = figures.timeline(results).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "big w0",
        "big w1",
        "small w0",
        "small w1",
    ]
    drawn = sorted(
        (each.get_label(), *(round(1e6 * x) for x in (times.min(), times.max())))
        for each in axes.collections
        for times in (path.vertices[:, 0] for path in each.get_paths())
    )
    spec = timeline_chart.timeline(results).spec["data"]
    on_page = sorted(
        (trace["meta"]["phase"], round(1e9 * begin), round(1e9 * (begin + length)))
        for trace in spec
        if "base" in trace
        for begin, length in zip(trace["base"], trace["x"], strict=True)
    )
    assert drawn == on_page and len(drawn) > 30
    # big w0 waits after its first and after its last backward step.
    assert {("waiting", 30 * MS, 45 * MS), ("waiting", 80 * MS, 100 * MS)} <= set(drawn)


def test_axes_over_a_run_s_time_are_aligned(tmp_path, monkeypatch):
    saved = {}
    monkeypatch.setattr(
        figures, "save", lambda figure, path: saved.update({path.name: figure}) or []
    )
    figures.draw([read(write_run(tmp_path))], tmp_path / "out")
    axes = [each for name in figures.OVER_TIME for each in saved[name].axes]
    assert len(axes) == 3
    places = [each.get_position() for each in axes]
    assert len({(round(box.x0, 9), round(box.x1, 9)) for box in places}) == 1
    assert {each.get_xlim() for each in axes} == {(0, 100)}


def test_the_interval_is_named_where_there_is_one(tmp_path):
    several = figures.jct([read(write_run(tmp_path, stretches=(1.0, 1.1, 1.2)))])
    assert several.get_supxlabel() == "error bars: 95 % confidence interval, n = 3"
    assert figures.jct([read(write_run(tmp_path))]).get_supxlabel() == ""


@pytest.mark.parametrize(
    ("given", "stem"),
    [("pays-x0.125", "pays-x0.125"), ("jct", "jct"), ("a.png", "a"), ("a.b.pdf", "a.b")],
)
def test_both_files_have_the_whole_name(tmp_path, given, stem):
    written = figure_files.save(figure_files.new_figure(2, 1), tmp_path / given)
    assert [path.name for path in written] == [f"{stem}.png", f"{stem}.pdf"]


def test_a_png_says_its_numbers(tmp_path):
    figures.draw([read(write_run(tmp_path))], tmp_path / "out")
    said = {}
    for name in ("jct", "occupancy"):
        with Image.open(tmp_path / "out" / f"{name}.png") as image:
            said[name] = json.loads(image.text["Description"])
    (jct,) = said["jct"]
    assert [value for _, value in jct["series"]["ESA"]] == pytest.approx([100, 60, 80])
    states, _ = said["occupancy"]
    heights = [value for _, value in states["series"]["filling"]]
    assert heights == [2, 2, 5, 5, 5, 5, 5, 5, 2, 2, 0]


def test_an_area_says_its_mean():
    figure = figure_files.new_figure(3, 2)
    axes = figure.add_subplot()
    axes.fill_between([0, 1, 2], [1, 1, 1], [2, 5, 9], step="post", label="filling")
    (said,) = figure_files.numbers(figure)
    assert said["series"] == {"filling": [("mean", pytest.approx((1 + 4) / 2))]}


def test_a_colour_has_one_meaning():
    """Of what a run's report shows, and of what compares systems; a hatch is not enough."""
    phases = [
        plot_style.phase_style(phase, job).color
        for phase in ("forward", "backward", "communication")
        for job in range(8)
    ]
    jobs = [job_color(job) for job in range(8)]
    causes = {
        plot_style.cause_style(cause).color
        for cause in DEPARTURES
        if not cause.endswith("elsewhere")  # the same, with a hatch
    }
    states = [plot_style.FILLING, plot_style.PARTIAL, plot_style.HELD, plot_style.FREE]
    of_run = [*set(phases) | set(jobs), *causes, *states, *plot_style.DIRECTIONS, plot_style.FAULT]
    assert len(of_run) == len(set(of_run))
    systems = [system.color for system in SYSTEMS.values()]
    assert not set(systems) & {*jobs, *phases, *states, plot_style.FAULT}


def test_memory_shares_fill_each_bar(tmp_path):
    runs = [read(write_run(tmp_path, name)) for name in ("first", "second")]
    axes = figures.memory_shares(runs).axes[0]
    heights = {c.get_label(): [bar.get_height() for bar in c] for c in axes.containers}
    assert heights == {
        "filling, completed": pytest.approx([20, 20]),
        "filling, evicted": pytest.approx([5, 5]),
        "filling, pulled": pytest.approx([3, 3]),
        "held": pytest.approx([10, 10]),
        "free": pytest.approx([62, 62]),
    }


@pytest.mark.parametrize(("cpu", "mark"), [(0.5, None), (0.9, "DEGRADED: cpu peak share 0.9")])
def test_a_degraded_run_carries_its_mark_on_the_figure(tmp_path, monkeypatch, cpu, mark):
    saved = []
    monkeypatch.setattr(figures, "save", lambda figure, path: saved.append(figure) or [])
    figures.draw([read(write_run(tmp_path, cpu=cpu))], tmp_path / "out")
    assert len(saved) == 3
    for figure in saved:
        shown = figure.get_supxlabel()
        assert shown.startswith(mark) if mark else shown == ""


def test_titles_are_short_and_never_equal(tmp_path):
    esa = [read(write_run(tmp_path, name)) for name in ("same", "same", "other")]
    plain = read(write_run(tmp_path, "mine", system="unheard of"))
    found = plot_styles([*esa, plain])
    titles = [look.title for look in found]
    assert titles[2:] == ["other", "unheard of"]
    assert titles[:2] == [results.folder.name for results in esa[:2]]
    assert len({(look.color, look.hatch) for look in found}) == 4
    assert isinstance(found[0], PlotStyle) and plot_styles(esa[:1])[0].title == "ESA"


def test_64_jobs_are_told_apart():
    assert len({(job_color(job), job_hatch(job)) for job in range(64)}) == 64


def test_a_long_timeline_shows_some_workers_of_every_job(tmp_path):
    iterations = [
        row | {"job": job, "worker": worker}
        for row in tables()["iterations"][:2]
        for job in (0, 1)
        for worker in range(20)
    ]
    made = write_tables(tmp_path, {"jobs": tables()["jobs"], "iterations": iterations}, name="wide")
    axes = figures.timeline(made).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [f"{job} w{worker}" for job in ("big", "small") for worker in range(16)]
    assert axes.get_title(loc="left") == "32 of 40 workers"


def test_a_figure_is_drawn_once_for_each_file_and_looks_as_savefig_draws_it(tmp_path, monkeypatch):
    results = read(write_run(tmp_path))
    figure = figures.jct([results])
    said = json.dumps(figure_files.numbers(figure))
    metadata = {"Software": None, "Description": said}
    figure.savefig(tmp_path / "before.png", metadata=metadata)
    drawn, draw = [], Figure.draw

    def counted(self, renderer):
        drawn.append(renderer)
        draw(self, renderer)

    monkeypatch.setattr(Figure, "draw", counted)
    png, pdf = figure_files.save(figures.jct([results]), tmp_path / "jct")
    assert len(drawn) == 2
    assert png.read_bytes() == (tmp_path / "before.png").read_bytes()
    assert pdf.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_a_figure_on_a_full_disk_is_an_error_that_says_so(tmp_path, suffix):
    """matplotlib's writer of PDFs hides it behind an AttributeError."""
    full = tmp_path / f"jct{suffix}"
    full.symlink_to("/dev/full")
    figure = figures.jct([read(write_run(tmp_path))])
    with pytest.raises(OSError) as raised:
        figure_files.write(figure, full)
    assert raised.value.errno == errno.ENOSPC
    assert shortage(raised.value).startswith(f"the file system of {full} is full")
