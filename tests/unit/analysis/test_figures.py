"""Figures: their files, their sizes, what the command says, and drawing from made-up results."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import matplotlib.figure
import pandas as pd
import pytest
from rich.console import Console

from testbed.analysis.data import sweep_chart_data
from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.figures import memory_figures, sweep_figures
from testbed.analysis.report import report_command
from testbed.cli import main as commands
from testbed.errors import UserError
from testbed.experiment.figure import Figure, Size
from testbed.experiment.sweep import load_sweep
from testbed.results import SWEEP_FILE
from testbed.results.schema import FIGURE_MEASURES
from testbed.sweeps import figure_runner as figure_run
from tests.support.experiments import BASE
from tests.support.paths import ROOT
from tests.support.synthetic_results import write_run

PANELS = ("ps_packets_per_fragment", "jct", "jct_ratio", "ps_link_bytes")
SWEEP = "sweep: {system: [esa, atp], memory.aggregators: [16, 32]}\n"
FIGURE = "figure: {claim: It works., x: memory.aggregators, quick: 0.5}\n"


@pytest.fixture
def file(tmp_path):
    """file(text): BASE and `text` as small.yaml, the only figure of its folder."""

    def write(text: str) -> Path:
        path = tmp_path / "small.yaml"
        path.write_text(BASE.replace("name: base", "repetitions: 9") + text)
        return path

    return write


@pytest.fixture(scope="module")
def shipped():
    """The figures that there are: name -> (sweep, figure)."""
    return {name: figure_run.declared(figure_run.find(name)) for name in figure_run.names()}


def test_every_figure_is_listed_and_has_its_place_in_the_docs(shipped, capsys):
    page = (ROOT / "docs" / "figures.md").read_text()
    assert commands.main(["figure"]) == 0
    # What compares planners is listed too, and has pages of its own.
    listed = [line for line in capsys.readouterr().out.splitlines() if line.split()[0] in shipped]
    assert len(shipped) == len(listed) >= 11
    for (name, (sweep, figure)), line in zip(shipped.items(), listed, strict=True):
        assert line.split()[0] == name and line.endswith(figure.claim)
        assert {point.experiment.runtime for point in sweep.points} == {"virtual"}
        assert {point.experiment.name for point in sweep.points} == {name}
        assert all(point.experiment.repetitions >= 10 for point in sweep.points)
        assert f"run.py figure {name}\n" in page and figure.claim in page


def test_where_esa_and_atp_are_compared_atp_also_releases_on_completion(shipped):
    compared = 0
    for sweep, figure in shipped.values():
        entries = {(p.experiment.system.name, getattr(p.experiment.system, "release", None))
                   for p in sweep.points}  # fmt: skip
        if {"esa", "atp"} <= {system for system, _ in entries}:
            compared += 1
            assert {("atp", "on_result"), ("atp", "on_completion")} <= entries
            assert figure.panels[0] == "ps_packets_per_fragment"
    assert compared >= 6


def test_the_command_knows_near_names_and_its_options(capsys):
    assert commands.main(["figure", "memry"]) == 2
    assert "there is no figure `memry`; did you mean memory?" in capsys.readouterr().err
    assert commands.main(["figure", "zzz"]) == 2
    assert "figures are: ablation, baselines" in capsys.readouterr().err
    assert commands.main(["figure", "grid-rat"]) == 2
    assert "there is no figure `grid-rat`; did you mean grid-rate?" in capsys.readouterr().err
    assert commands.main(["figure", "memory", "--quick", "--scale", "2"]) == 2
    assert "give one of them" in capsys.readouterr().err
    assert commands.main(["figure", "memory", "--scale", "1000"]) == 2
    assert "found 1000; allowed: a number from 0.001 to 100" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("figure: {claim: It works., x: memory.agregators}\n", "did you mean memory.aggregators?"),
        ("figure: {claim: It works., x: seed}\n", "seed is not varied"),
        ("figure: {claim: It works., panels: [jtc]}\n", "did you mean jct?"),
        ("figure: {claim: It works., panels: []}\n", "a list of at least 1"),
        ("figure: {x: memory.aggregators}\n", "figure.claim: missing"),
        ("figure: [1]\n", "a mapping with the keys claim"),
        ("", "the key figure is missing"),
    ],
)
def test_a_wrong_declaration(file, text, said):
    with pytest.raises(UserError) as caught:
        figure_run.declared(file(SWEEP + text))
    assert said in str(caught.value)
    if text:
        assert f"line {BASE.count(chr(10)) + 2}" in str(caught.value)


def test_sizes(file):
    path = file(SWEEP + FIGURE)
    plain = load_sweep(path)
    assert plain.name == "small" and plain.figure.panels == ("ps_packets_per_fragment", "jct")
    assert figure_run.size_of(path, 1.0, False) == Size("small")
    double = load_sweep(path, figure_run.size_of(path, 2.0, False))
    quick = load_sweep(path, figure_run.size_of(path, None, True))
    assert (double.name, quick.name) == ("small-x2", "small-quick")
    for sweep, scale, repetitions, iterations in ((double, 2, 9, [2, 1]), (quick, 0.5, 2, [2, 1])):
        assert [point.values for point in sweep.points] == [point.values for point in plain.points]
        for point in sweep.points:
            jobs = point.experiment.jobs
            assert point.experiment.repetitions == repetitions
            assert [job.scale for job in jobs] == pytest.approx([0.01 * scale, 0.001 * scale])
            assert [job.compute_scale for job in jobs] == [job.scale for job in jobs]
            assert [job.iterations for job in jobs] == iterations


def test_lists_of_jobs_are_numbers_and_resized_too(file):
    jobs = "[{model: vgg16, workers: 2, iterations: 5, scale: 0.002, compute_scale: 0.5}]"
    path = file(f"sweep: {{jobs: [{jobs}, {jobs}]}}\nfigure: {{claim: It works., x: jobs}}\n")
    (point,) = load_sweep(path, Size("other", 0.5, iterations=3)).points
    (job,) = point.experiment.jobs
    assert (job.scale, job.compute_scale, job.iterations) == (0.001, 0.25, 3)


@pytest.fixture
def folder(tmp_path):
    """Three series over two numbers of jobs, three repetitions each; ATP takes twice as long."""
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
            write_run(tmp_path / (system + key), system=system, stretches=stretches)
    described = {
        "format": 1,
        "name": "drawn",
        "keys": ["system", "jobs"],
        "points": points,
        "figure": Figure(claim="It works.", x="jobs", x_label="jobs here", panels=PANELS)
        .model_dump(exclude_unset=True),
    }  # fmt: skip
    (tmp_path / SWEEP_FILE).write_text(json.dumps(described))
    return tmp_path


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


def test_panels_axis_and_legend(folder):
    sweep = sweeps.read_sweep(folder)
    figure = sweep_figures.measures(sweep, sweeps.frame(sweep))
    assert isinstance(figure, matplotlib.figure.Figure)
    assert sweep.axis == "jobs" and len(figure.axes) == len(PANELS)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[0] == "PS packets / fragment" and titles[2] == "JCT relative to ESA"
    assert figure.axes[0].get_xlabel() == "jobs here"
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["[vgg16]", "3"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ESA", "ATP (gap 3)", "Ring"]


def test_without_x_many_points_are_lying_bars_with_names(folder):
    described = json.loads((folder / SWEEP_FILE).read_text())
    del described["figure"]["x"]
    for point in described["points"]:
        point["values"]["jobs"]["number"] = None
    described["points"].append(described["points"][0] | {"system": "ps"})
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
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0 %", "0.01 %", "1 %"]
    assert list(axes.containers[0].lines[0].get_xdata()) == [0, 2]


def test_occupancy_has_a_panel_for_each_point(folder):
    sweep = sweeps.read_sweep(folder)
    runs = [(point.series(None), point.results) for point in sweep.points if point.finished]
    drawn = memory_figures.occupancies(runs)
    used = [axes for axes in drawn.axes if axes.get_title(loc="left")]
    assert len(used) == len(runs)
    for axes, (title, _) in zip(used, runs, strict=True):
        above, below = axes.get_title(loc="left").splitlines()
        assert above == title and below.endswith("absorbed / s / aggregator")
        assert [area.get_label() for area in axes.collections] == ["filling", "held", "free"]


def test_every_measure_can_be_drawn(folder):
    assert tuple(sweep_chart_data.MEASURES) == FIGURE_MEASURES
    sweep = sweeps.read_sweep(folder)
    frame = sweeps.frame(sweep).assign(jct_communicating_ns=3e6)  # these jobs only compute
    for first in range(0, len(FIGURE_MEASURES), 4):
        names = FIGURE_MEASURES[first : first + 4]
        declared = replace(sweep.figure, panels=names)
        drawn = sweep_figures.measures(replace(sweep, figure=declared), frame)
        assert len(drawn.axes) == len(names)
        assert all(axes.containers for axes in drawn.axes)
