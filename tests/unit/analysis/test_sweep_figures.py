"""Figures of sweeps, drawn from made-up results."""

from __future__ import annotations

import io
import itertools
import json
import shutil
from dataclasses import replace

import matplotlib.figure
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console

from testbed.analysis.data import serving_data, sweep_chart_data
from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.data.run_summary import LENGTHS
from testbed.analysis.figures import memory_figures, sweep_figures
from testbed.analysis.report import report_command
from testbed.analysis.style.plot_style import COLUMN, LINES, PAGE, as_wide_as, series_styles
from testbed.experiment.figure import Figure
from testbed.results import SWEEP_FILE
from testbed.results.schema import FIGURE_MEASURES
from tests.support.synthetic_results import write_run

PANELS = ("ps_packets_per_fragment", "jct", "jct_ratio", "ps_link_bytes")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three series over two numbers of jobs, three repetitions each; ATP takes twice as long.
    For tests that write nothing into it."""
    parent = tmp_path_factory.mktemp("made")
    text = "[2 x vgg16 (workers 4, iterations 5), resnet50]"
    points = []
    for system, title, stretch in (
        ("esa", "esa", 1),
        ("atp", "atp (gap 3)", 2),
        ("ring", "ring", 3),
    ):
        for key, number, factor in (("a", 1, 1), ("b", 3, 1.5)):
            points.append(
                {
                    "key": system + key,
                    "system": system,
                    "values": {
                        "system": {"text": f"{system} (x 1)", "number": None, "title": title},
                        "jobs": {"text": text if number == 3 else "[vgg16]", "number": number},
                    },
                }
            )
            stretches = [stretch * factor * part for part in (1.0, 1.1, 1.3)]
            write_run(parent / (system + key), system=system, stretches=stretches)
    described = {
        "format": 1,
        "name": "drawn",
        "keys": ["system", "jobs"],
        "points": points,
        "figure": Figure(claim="It works.", x="jobs", x_label="jobs here", panels=PANELS)
        .model_dump(exclude_unset=True),
    }  # fmt: skip
    (parent / SWEEP_FILE).write_text(json.dumps(described))
    return parent


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it."""
    return shutil.copytree(made, tmp_path / "sweep")


@pytest.fixture(scope="module")
def drawn(made):
    """Its sweep with its frame."""
    sweep = sweeps.read_sweep(made)
    return sweep, sweeps.frame(sweep)


def test_the_figure_is_drawn_with_its_numbers_beside_it(folder):
    report_command([folder], Console(file=io.StringIO(), width=150))
    names = {path.name for path in (folder / "figures").iterdir()}
    assert names == {"drawn.pdf", "drawn.png", "drawn.csv"}
    assert (folder / "figures" / "drawn.pdf").read_bytes().startswith(b"%PDF")
    drawn = pd.read_csv(folder / "figures" / "drawn.csv").set_index(["series", "x"])
    assert len(drawn) == 6 and (drawn["repetitions"] == 3).all()
    assert drawn.loc[("ATP (gap 3)", 3), "jct_ratio"] == pytest.approx(2)
    # The same seed is compared with the same seed: what differs between seeds is not in it.
    assert drawn.loc[("ATP (gap 3)", 3), "jct_ratio_ci95"] == pytest.approx(0, abs=1e-6)
    assert drawn.loc[("ESA", 1), "jct_mean_ns_ci95"] > 0
    assert "relative" in (folder / "report.txt").read_text()


def test_panels_axis_and_legend(drawn):
    sweep, frame = drawn
    figure = sweep_figures.measures(sweep, frame)
    assert isinstance(figure, matplotlib.figure.Figure)
    assert sweep.axis == "jobs" and len(figure.axes) == len(PANELS)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[0] == "(a) PS packets / fragment"
    assert titles[2] == "(c) JCT relative to ESA"
    assert figure.axes[0].get_xlabel() == "jobs here"
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["[vgg16]", "3"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ESA", "ATP (gap 3)", "Ring"]


def test_long_names_take_no_room_from_the_panels(folder):
    described = json.loads((folder / SWEEP_FILE).read_text())
    for point in described["points"]:
        point["values"]["system"]["title"] += " (of an option with many words)"
    (folder / SWEEP_FILE).write_text(json.dumps(described))
    sweep = sweeps.read_sweep(folder)
    frame = sweeps.frame(sweep)
    frame.loc[frame["system"] != "esa", "ps_packets_per_fragment"] = float("nan")
    figure = sweep_figures.measures(sweep, frame)
    figure.draw_without_rendering()
    boxes = [axes.get_position() for axes in figure.axes]
    assert min(box.width for box in boxes) > 0.15
    assert min(box.height for box in boxes) > 0.15


def _as_bars(folder):
    """The sweep with one point per system and nothing on an axis."""
    described = json.loads((folder / SWEEP_FILE).read_text())
    del described["figure"]["x"]
    described["keys"] = ["system"]
    described["points"] = described["points"][::2]
    for point in described["points"]:
        del point["values"]["jobs"]
    (folder / SWEEP_FILE).write_text(json.dumps(described))
    sweep = sweeps.read_sweep(folder)
    return sweep, sweeps.frame(sweep)


def test_who_has_no_server_is_said_in_lines_and_in_bars(drawn, folder):
    sweep, frame = drawn[0], drawn[1].copy()
    frame.loc[frame["system"] == "ring", "ps_packets_per_fragment"] = float("nan")
    first, second, *_ = sweep_figures.measures(sweep, frame).axes
    assert "no server: Ring" in [text.get_text() for text in first.texts]
    assert not any("no" in text.get_text() for text in second.texts)
    sweep, frame = _as_bars(folder)
    frame.loc[frame["system"] == "ring", "ps_packets_per_fragment"] = float("nan")
    in_bars = sweep_figures.measures(sweep, frame).axes[0]
    (place,) = (each.xy for each in in_bars.texts if each.get_text() == "no server")
    assert place == (2, 0) and in_bars.get_xlim()[1] > 2


def test_titles_end_where_the_next_panel_begins(folder, monkeypatch):
    """Long names beside horizontal bars leave the panels little room."""
    monkeypatch.setattr(sweep_figures, "_BARS", 2)
    sweep, frame = _as_bars(folder)
    frame["series"] = frame["series"] + " (priority constant, downgrading false, index hash)"
    figure = sweep_figures.measures(sweep, frame)
    figure.draw_without_rendering()
    titles = [axes._left_title.get_window_extent() for axes in figure.axes]
    assert len(titles) == len(PANELS) == 4  # in one row
    ends = [title.x0 for title in titles[1:]] + [figure.bbox.x1]
    assert all(title.x1 < end for title, end in zip(titles, ends, strict=True))


def test_ratios_near_one_are_not_dwarfed(drawn, folder):
    """Lines get a logarithmic axis with ticks near 1; of bars the long one is cut, with its
    number."""
    sweep, frame = drawn
    assert sweep_figures.measures(sweep, frame).axes[2].get_yscale() == "log"
    axes = sweep_figures.measures(sweep, frame[frame["system"] != "ring"]).axes[2]
    assert axes.get_yscale() == "linear"
    sweep, frame = _as_bars(folder)
    frame.loc[frame["system"] == "atp", "jct_ratio"] = 1.2
    frame.loc[frame["system"] == "ring", "jct_ratio"] = 40
    axes = sweep_figures.measures(sweep, frame).axes[2]
    assert axes.get_yscale() == "linear" and 1.2 < axes.get_ylim()[1] < 2
    assert any("40" in text.get_text() for text in axes.texts)


def test_a_variant_looks_the_same_in_every_figure():
    few = [("ESA", "esa"), ("ATP (gap 0)", "atp"), ("ATP", "atp")]
    more = [("ATP", "atp"), ("ATP (gap 2)", "atp"), ("ATP (release on_completion)", "atp"), few[1]]
    here, there = series_styles(few), series_styles(more)
    assert here["ATP"].hatch == there["ATP"].hatch == "" and here["ESA"].hatch == ""
    assert here["ATP (gap 0)"] == there["ATP (gap 0)"]
    assert len({style.hatch for style in there.values()}) == 4
    many = [(f"ESA (window {n})", "esa") for n in range(12)]
    assert len({style.hatch for style in series_styles(many).values()}) == 12
    assert {style.line for style in series_styles(many).values()} == set(range(LINES))


def test_a_hatch_has_a_stroke_for_each_option():
    both = "ATP (gap 0, release on_completion)"
    named = ["ATP", "ATP (gap 0)", "ATP (release on_completion)", both]
    plain, gap, release, mixed = series_styles([(name, "atp") for name in named]).values()
    assert plain.hatch == ""
    assert set(gap.hatch) == {"/"} and set(release.hatch) == {"."}
    assert mixed.hatch == gap.hatch + release.hatch


def _varied(drawn, key, x_label, values):
    """A sweep of one system over a key: (text, number) of each point. All have the same run."""
    sweep, _ = drawn
    first = sweep.points[0]
    points = [
        replace(
            first,
            key=f"point{place}",
            values={"system": first.values["system"], key: sweeps.Value(*value)},
        )
        for place, value in enumerate(values)
    ]
    declared = replace(sweep.figure, x=key, x_label=x_label)
    made = replace(sweep, keys=("system", key), points=tuple(points), figure=declared)
    return sweep_figures.measures(made, sweeps.frame(made))


@pytest.mark.parametrize(
    ("numbers", "logarithmic"),
    [
        ((16, 32, 64, 128), True),
        ((2, 4, 16), True),
        ((2, 4), False),
        ((2, 4, 6), False),
        ((1, 10, 30), True),  # far apart
    ],
)
def test_powers_of_two_stand_on_a_logarithmic_axis(drawn, numbers, logarithmic):
    values = [(str(number), float(number)) for number in numbers]
    axes = _varied(drawn, "memory.aggregators", "", values).axes[0]
    assert (axes.get_xscale() == "log") == logarithmic
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0}
    assert [label.get_text() for label in axes.get_xticklabels()] == [text for text, _ in values]


def test_crowded_ticks_stay_upright_and_do_not_touch(drawn):
    values = [(f"{number} Gbit/s", number * 1e9) for number in range(1000, 1040)]
    figure = _varied(drawn, "links.bandwidth", "rate", values)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_xlabel() == "rate (Gbit/s)"  # said once
    shown = [label for label in axes.get_xticklabels() if label.get_text()]
    assert 2 < len(shown) < 40 and shown[0].get_text() == "1000"
    boxes = [label.get_window_extent() for label in shown]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_bars_are_in_the_order_of_their_first_measure(folder):
    sweep, frame = _as_bars(folder)
    (first, *others) = sweep_chart_data.panels(sweep, frame.iloc[::-1])
    means = [series.bars[0].estimate.mean for series in first.bars.series]
    assert means == sorted(means)
    assert all(panel.names == first.names for panel in others)
    assert sweep_figures.measures(sweep, frame).get_supxlabel().endswith("interval, n = 3")


@pytest.mark.parametrize(("inches"), [COLUMN, PAGE])
def test_figures_fit_the_columns_of_a_paper(drawn, tmp_path, inches):
    sweep, frame = drawn
    assert (COLUMN, PAGE) == (3.5, 7.2)
    with as_wide_as(inches):
        assert sweep_figures.measures(sweep, frame).get_figwidth() == inches
        sweep_figures.draw(sweep, frame, tmp_path / "figures")
    with Image.open(tmp_path / "figures" / "drawn.png") as image:
        assert image.width == pytest.approx(inches * 200, abs=1)


def test_names_on_the_axis_have_a_place_each_with_the_systems_side_by_side(folder):
    described = json.loads((folder / SWEEP_FILE).read_text())
    for point in described["points"]:
        jobs = point["values"]["jobs"]
        jobs |= {"text": "vgg16" if jobs["number"] == 3 else "bert", "number": None}
    (folder / SWEEP_FILE).write_text(json.dumps(described))
    sweep = sweeps.read_sweep(folder)
    frame = sweeps.frame(sweep)
    axes = sweep_figures.measures(sweep, frame).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["bert", "vgg16"]
    lines = [container.lines[0] for container in axes.containers]
    assert [list(line.get_xdata()) for line in lines] == [
        pytest.approx([-0.2, 0.8]),
        pytest.approx([0, 1]),
        pytest.approx([0.2, 1.2]),
    ]
    assert {line.get_linestyle() for line in lines} == {"None"}
    both = frame[frame["series"] == "ATP (gap 3)"]
    assert both["jct_ratio"].to_list() == pytest.approx([2] * 6)


def test_without_x_many_points_are_lying_bars_with_names(folder):
    described = json.loads((folder / SWEEP_FILE).read_text())
    del described["figure"]["x"]
    for point in described["points"]:
        point["values"]["jobs"]["number"] = None
    write_run(folder / "ps", system="ps", stretches=(1.0,))
    described["points"].append(described["points"][0] | {"key": "ps", "system": "ps"})
    (folder / SWEEP_FILE).write_text(json.dumps(described))
    sweep = sweeps.read_sweep(folder)
    figure = sweep_figures.measures(sweep, sweeps.frame(sweep))
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert len(labels) == 7 and labels[0] == "ESA, jobs [vgg16]"
    assert not figure.legends


def test_a_single_repetition_has_bars_without_intervals(folder):
    described = json.loads((folder / SWEEP_FILE).read_text())
    del described["figure"]["x"]
    for point in described["points"]:
        point["values"]["jobs"]["number"] = None
    described["points"] = described["points"][:3]
    (folder / SWEEP_FILE).write_text(json.dumps(described))
    sweep = sweeps.read_sweep(folder)
    frame = sweeps.frame(sweep)
    first = frame[frame["repetition"] == frame["repetition"].min()]
    assert len(first) == 3
    axes = sweep_figures.measures(sweep, first).axes[1]
    assert len(axes.patches) == 3 and not axes.containers[0].errorbar


def test_a_zero_stands_at_its_rank_on_a_wide_axis(folder):
    described = json.loads((folder / SWEEP_FILE).read_text())
    for point in described["points"]:
        loss = 0.0 if point["key"].endswith("a") else 0.01
        point["values"] = {
            "system": point["values"]["system"],
            "links.loss": {"text": f"{100 * loss:g} %", "number": loss},
        }
    described["points"].append(
        {"key": "none", "system": "esa", "values": {
            "system": described["points"][0]["values"]["system"],
            "links.loss": {"text": "0.01 %", "number": 0.0001}}}
    )  # fmt: skip
    described |= {"keys": ["system", "links.loss"]}
    described["figure"]["x"] = "links.loss"
    (folder / SWEEP_FILE).write_text(json.dumps(described))
    sweep = sweeps.read_sweep(folder)
    axes = sweep_figures.measures(sweep, sweeps.frame(sweep)).axes[0]
    assert list(axes.get_xticks()) == [0, 1, 2]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "0.01", "1"]
    assert list(axes.containers[0].lines[0].get_xdata()) == [0, 2]


def test_values_are_in_their_units_and_far_apart_on_a_logarithmic_axis(drawn):
    sweep, frame = drawn
    declared = replace(sweep.figure, panels=("jct", "retransmissions"))
    sweep = replace(sweep, figure=declared)
    frame = frame.assign(retransmissions=3.0)
    jct, sent_again = sweep_chart_data.panels(sweep, frame)
    assert (jct.label, sent_again.label) == ("average JCT (ms)", "sent again")
    esa, atp, _ = jct.lines
    # The means of 80 ms, stretched.
    assert esa.means == pytest.approx([80 * 3.4 / 3, 120 * 3.4 / 3])
    assert atp.means == pytest.approx(2 * esa.means)
    assert sent_again.lines[0].means == pytest.approx([3, 3])
    assert not jct.logarithmic and not sent_again.logarithmic  # of 1 to 4.5
    far = frame["jct_mean_ns"].where(frame["system"] != "ring", 20 * frame["jct_mean_ns"])
    jct, _ = sweep_chart_data.panels(sweep, frame.assign(jct_mean_ns=far))
    assert jct.logarithmic


def test_a_single_series_needs_no_legend(drawn):
    """Only a number is varied, so the series has no name."""
    sweep, frame = drawn
    points = [replace(p, values={"jobs": p.values["jobs"]}) for p in sweep.points[:2]]
    alone = replace(sweep, points=tuple(points), keys=("jobs",), figure=None)
    figure = sweep_figures.measures(alone, sweeps.frame(alone))
    assert not figure.legends and figure.axes[0].lines


def test_occupancy_has_a_panel_for_each_point(drawn):
    sweep, _ = drawn
    runs = [(point.series(), point.results) for point in sweep.points if point.finished]
    figure = memory_figures.occupancies(runs)
    used = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert len(used) == len(runs)
    for axes, (title, _) in zip(used, runs, strict=True):
        above, below = axes.get_title(loc="left").splitlines()
        assert above == title and below.endswith("absorbed / s / aggregator")
        bars = [container.get_label() for container in axes.containers]
        assert bars == ["filling", "held", "free"]


@pytest.mark.slow
def test_more_than_four_panels_are_in_rows(drawn):
    sweep, frame = drawn
    names = ("jct", "waiting", "in_switch_share", "ps_link_bytes", "retransmissions")
    declared = replace(sweep.figure, panels=names)
    figure = sweep_figures.measures(replace(sweep, figure=declared), frame)
    rows = [axes.get_subplotspec().rowspan.start for axes in figure.axes]
    assert rows == [0, 0, 0, 0, 1]


def test_every_measure_can_be_drawn(drawn):
    assert tuple(sweep_chart_data.MEASURES) == FIGURE_MEASURES
    sweep, frame = drawn
    # These jobs only compute, have one length, and serve nothing; one of them has no batch size.
    lengths = {f"jct_{each}_ns": 3e6 for name in LENGTHS for each in (name, f"p99_{name}")}
    lengths["jct_communicating_ns"] = 3e6
    served = dict.fromkeys(serving_data.MEASURES, 0.5)
    frame = frame.assign(samples_per_s=1e3, flows_bps=1e9, flows_jain=1.0, **lengths, **served)
    frame = frame.assign(sum_error=1e-3, order_bits=0.5, flow_bps=1e9, link_bytes=1e6)
    for first in range(0, len(FIGURE_MEASURES), 4):
        names = FIGURE_MEASURES[first : first + 4]
        declared = replace(sweep.figure, panels=names)
        figure = sweep_figures.measures(replace(sweep, figure=declared), frame)
        assert len(figure.axes) == len(names)
        assert all(axes.containers for axes in figure.axes)
