"""Maps: which series is fastest in each cell of a sweep, and where aggregation in switches pays."""

from __future__ import annotations

import io
import math
from statistics import mean

import numpy as np
import pandas as pd
import pytest
from p4fabric.base.config.problems import ExperimentError
from rich.console import Console

from testbed.analysis.data import map_data
from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.data.map_data import maps
from testbed.analysis.figures import map_figure, sweep_figures
from testbed.analysis.html.sweep_page import sweep_page
from testbed.analysis.report import report_command
from testbed.experiment.sweep_file import load_sweep
from testbed.systems import SYSTEMS
from tests.support.synthetic_results import write_map


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_map(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def found(folder):
    sweep = sweeps.read_sweep(folder)
    return sweep, maps(sweep, sweeps.frame(sweep))


@pytest.mark.parametrize("seed", range(12))
def test_cells_are_those_of_any_times(found, seed):
    """Times are drawn, some of them alike, and some series have not finished."""
    sweep, _ = found
    draw = np.random.default_rng(seed)
    frame = sweeps.frame(sweep)
    times = draw.choice([100.0, 100.5, 101.0, 102.0, 300.0], len(frame))
    frame["jct_mean_ns"] = np.where(draw.random(len(frame)) < 0.3, np.nan, times)
    cells: dict[tuple, dict[str, dict[int, float]]] = {}
    memory = {}
    for row in frame.itertuples():
        values = sweep.points[row.point].values
        figure = sweep.figure
        keys = [(figure.each,), figure.rows, (figure.x,)]
        place = tuple(", ".join(values[k].short for k in each if k in values) for each in keys)
        title = sweep.titles()[row.series]
        memory[title] = SYSTEMS[row.system].memory
        if row.jct_mean_ns == row.jct_mean_ns:
            cells.setdefault(place, {}).setdefault(title, {})[row.repetition] = row.jct_mean_ns
    seen = 0
    for made in maps(sweep, frame):
        for cell in made.cells:
            series = cells.pop((made.title, cell.row, cell.column))
            means = {title: mean(each.values()) for title, each in series.items()}
            best = {}
            for uses, told in ((True, cell.within), (False, cell.without)):
                here = [value for title, value in means.items() if memory[title] == uses]
                assert (told is None) == (not here)
                if told is not None:
                    best[uses] = series[told.title]
                    assert told.jct_ns == pytest.approx(min(here)) == means[told.title]
            assert cell.fastest.jct_ns == pytest.approx(min(means.values()))
            near = [value for value in means.values() if value <= 1.01 * min(means.values())]
            assert (cell.series, cell.alike) == (len(means), len(near))
            common = best[True].keys() & best[False].keys() if len(best) == 2 else ()
            gains = [best[False][each] / best[True][each] for each in common]
            assert cell.gain.count == len(gains)
            assert cell.gain.mean == pytest.approx(mean(gains) if gains else math.nan, nan_ok=True)
            place = made.rows.index(cell.row), made.columns.index(cell.column)
            assert made.gains[place] == pytest.approx(cell.gain.mean, nan_ok=True)
            seen += 1
        assert np.isnan(made.gains).sum() >= made.gains.size - len(made.cells)
    assert seen and not cells


def test_series_that_are_as_fast_share_a_cell():
    rows = [("SwitchML", "switchml", 100.9), ("ESA", "esa", 100), ("Ring", "ring", 101.1)]
    group = pd.DataFrame(rows, columns=["series", "system", "jct_mean_ns"]).assign(repetition=0)
    cell = map_data._cell("v100", "1 Gbit/s", group)
    assert (cell.fastest.title, cell.alike, cell.series) == ("ESA", 2, 3)
    figure = map_figure.maps_figure([map_data.Map("", ("v100",), ("1 Gbit/s",), (cell,))], "rate")
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.01", "2 of 3 alike"]


def test_a_map_is_drawn_with_its_numbers_beside_it(folder):
    report_command([folder], Console(file=io.StringIO(), width=150))
    names = {path.name for path in (folder / "figures").iterdir()}
    assert names == {"pays.pdf", "pays.png", "pays.csv"}
    drawn = pd.read_csv(folder / "figures" / "pays.csv").set_index(["map", "row", "column"])
    place = drawn.loc[("vgg16", "v100, 1", "100 Gbit/s")]
    assert place["fastest"] == "Ring" and place["gain"] == pytest.approx(0.5)
    assert place["with"] == "ESA" and place["with_jct_ns"] == 2 * place["without_jct_ns"]
    report = (folder / "report.txt").read_text()
    assert "Where aggregation in switches pays" in report and "SwitchML" in report
    assert "Where aggregation in switches pays" in (folder / "report.html").read_text()


def test_every_cell_says_who_is_fastest(found):
    sweep, (vgg, gpt) = found
    figure = sweep_figures.measures(sweep, sweeps.frame(sweep))
    one, two, bar = figure.axes
    assert [one.get_title(loc="left"), two.get_title(loc="left")] == ["vgg16", "gpt2"]
    assert [text.get_text() for text in one.texts] == [
        "3.00", "SwitchML", "0.500", "Ring", "0.750", "PS", "", "Ring"
    ]  # fmt: skip
    assert [text.get_text() for text in two.texts] == ["8.00", "ESA"]
    assert one.get_xlabel() == "rate" and "aggregation in switches" in bar.get_ylabel()
    low, high = one.collections[0].get_clim()
    assert low * high == pytest.approx(1) and high == pytest.approx(8)


def test_the_page_has_a_row_per_cell(found):
    sweep, _ = found
    page = sweep_page(sweep, sweeps.frame(sweep))
    (section,) = (each for each in page.sections if each.name == "map")
    assert len(section.blocks[0].table.rows) == 5


FILE = """
runtime: virtual
topology: {kind: star, hosts: 3}
system: esa
memory: {aggregators: 64}
jobs: [{model: resnet18, workers: 2, scale: 0.001, iterations: 1}]
sweep:
  system: [esa, ring]
  links.bandwidth: [10 Gbit/s, 100 Gbit/s]
  gpu: [v100, a100]
"""


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("rows: [gpu]", "figure.rows: a map also needs x, the key of its columns"),
        ("x: gpu, each: links.bandwidth", "figure.each: only maps, which have `rows`, are drawn"),
        ("x: gpu, rows: [links.bandwith]", "links.bandwith is not varied; did you mean"),
        ("x: gpu, rows: [gpu]", "gpu is used twice"),
        ("x: gpu, rows: [links.bandwidth], panels: [jct]", "has no panels; remove one of the two"),
    ],
)
def test_keys_that_make_no_map_are_named(tmp_path, keys, message):
    path = tmp_path / "pays.yaml"
    path.write_text(f"{FILE}figure: {{claim: It pays., {keys}}}\n")
    with pytest.raises(ExperimentError, match="figure") as error:
        load_sweep(path)
    assert message in str(error.value)


def test_a_file_declares_a_map(tmp_path):
    path = tmp_path / "pays.yaml"
    path.write_text(f"{FILE}figure: {{claim: It pays., x: links.bandwidth, rows: [gpu]}}\n")
    assert load_sweep(path).figure.rows == ("gpu",)
