"""The figures of a run and of a comparison, as PNG and PDF.

`draw` writes all that make sense for the runs it is given; what each of them shows is drawn by a
module of its own, the job completion times here. Only finished runs are drawn, and a degraded run's
figures carry the mark, because a figure travels further than the table beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from p4fabric.base import units

from testbed.analysis.data.job_chart_data import jct_by_run
from testbed.analysis.data.run_summary import summary
from testbed.analysis.figures.departure_figure import departures
from testbed.analysis.figures.figure_files import align, beside, mark, new_figure, save
from testbed.analysis.figures.memory_figures import memory_shares, occupancy
from testbed.analysis.figures.timeline_figure import timeline
from testbed.analysis.style import plot_style
from testbed.analysis.style.plot_style import PlotStyle
from testbed.results import Results, ResultsError, hand_over

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVER_TIME = ("occupancy", "iterations")  # figures over a run's time
_JOBS = 24  # jobs that get bars of their own
_FLOWS = 8  # flows that get lines
_NAME = 24  # characters of a line beside lying bars


def draw(runs: Sequence[Results], folder: Path) -> list[Path]:
    """Writes the figures of one run, or of a comparison, into `folder`; returns the paths.

    Raises ResultsError when a run has not finished.
    """
    if not runs:
        raise ResultsError("no run to draw")
    for results in runs:
        if not results.finished:
            raise ResultsError(f"no figure from {results.folder}: {results.notice}")
    folder.mkdir(exist_ok=True)
    hand_over(folder)
    paths: list[Path] = []
    with rc_context(plot_style.rc()):
        figures = dict(_figures(runs))
        for figure in figures.values():
            _mark(figure, runs)
        align([figure for name, figure in figures.items() if name in OVER_TIME])
        for name, figure in figures.items():
            paths += save(figure, folder / name)
    return paths


def _figures(runs: Sequence[Results]) -> Iterator[tuple[str, Figure]]:
    yield "jct", jct(runs)
    memory = [results for results in runs if len(results.memory)]
    if len(runs) > 1:
        if len(memory) == len(runs):
            yield "memory", memory_shares(runs)
        return
    if memory:
        yield "occupancy", occupancy(runs[0])
    if figure := departures(runs[0]):
        yield "departures", figure
    if len(runs[0].iterations):
        yield "iterations", timeline(runs[0])
    if len(runs[0].rates):
        yield "rates", rates(runs[0])


def rates(results: Results) -> Figure:
    """Rates at which congestion control lets flows send, over the first repetition; of the first
    flows."""
    found = results.rates[results.rates["repetition"] == results.rates["repetition"].min()]
    names = results.flows.drop_duplicates("flow").set_index("flow")["name"]
    scale, unit = units.time_unit(int(found["time_ns"].max()))
    figure = new_figure(plot_style.PAGE, 2.6)
    axes = figure.add_subplot()
    for flow, rows in list(found.groupby("flow"))[:_FLOWS]:
        color = plot_style.JOB_COLORS[flow % len(plot_style.JOB_COLORS)]
        axes.plot(
            rows["time_ns"] / scale,
            rows["sending_bps"] / 1e9,
            color=color,
            lw=0.8,
            label=names[flow],
        )
    axes.set_xlabel(f"time, {unit}")
    axes.set_ylabel("rate of sending, Gbit/s")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    return figure


def jct(runs: Sequence[Results], styles: Sequence[PlotStyle] | None = None) -> Figure:
    """JCT per job (per model, where there are too many jobs) and on average: one bar per run, the
    mean over repetitions, its 95 % interval, and a dot per repetition where there are several.
    Bars that have no room beside each other lie. `styles`: of the runs, if not those of a
    comparison."""
    styles = styles or plot_style.plot_styles(runs)
    chart, _ = jct_by_run([summary(results)["jobs"] for results in runs], styles, _JOBS)
    groups = chart.groups
    width = 0.8 / len(runs)
    count = len(groups) * len(runs)
    needed = 1.0 + 0.28 * count + 0.25 * len(groups)
    wide = plot_style.width_of(min(max(plot_style.COLUMN, needed), plot_style.PAGE))
    lying = needed > max(wide, plot_style.COLUMN)  # too many to stand beside each other
    legend = 0.16 * -(-len(runs) // 4)
    figure = new_figure(wide, 0.7 + legend + 0.16 * count if lying else 2.2)
    axes = figure.add_subplot()
    for number, series in enumerate(chart.series):
        offset = (number - (len(runs) - 1) / 2) * width
        style = series.style
        places = [groups.index(bar.group) + offset for bar in series.bars]
        means = [bar.estimate.mean for bar in series.bars]
        halves = [bar.estimate.shown_half_width for bar in series.bars]
        error = None if np.isnan(halves).all() else halves
        look: dict[str, Any] = {
            "color": style.color,
            "hatch": style.hatch,
            "edgecolor": "white" if style.hatch else style.color,
            "linewidth": 0,
            "error_kw": {"elinewidth": 0.8, "capsize": 2},
            "label": style.title,
        }
        if lying:
            axes.barh(places, means, height=0.92 * width, xerr=error, **look)
        else:
            axes.bar(places, means, width=0.92 * width, yerr=error, **look)
        for place, bar, mean, half in zip(places, series.bars, means, halves, strict=True):
            if len(bar.samples) > 1:
                spread = np.linspace(-0.2, 0.2, len(bar.samples)) * width
                dots = (bar.samples, place + spread) if lying else (place + spread, bar.samples)
                axes.plot(*dots, style.marker, ms=2, color="black")
            end = max(mean, bar.samples.max(), mean + np.nan_to_num(half))
            axes.annotate(
                units.significant(mean),
                (end, place) if lying else (place, end),
                xytext=(1.5, 0) if lying else (0, 1.5),
                textcoords="offset points",
                ha="left" if lying else "center",
                va="center" if lying else "baseline",
                fontsize="small",
            )
    if len(groups) > 1:
        rule = axes.axhline if lying else axes.axvline
        rule(len(groups) - 1.5, color=plot_style.GREY, linewidth=0.6, linestyle=":")
    if lying:
        axes.set_yticks(range(len(groups)), [fill(name, _NAME) for name in groups])
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.margins(x=0.12)
        axes.set_xlim(left=0)
        axes.set_xlabel(chart.axis)
    else:
        room = max(5, int(14 * figure.get_figwidth() / len(groups)))
        axes.set_xticks(range(len(groups)), [fill(name, room) for name in groups])
        axes.margins(y=0.12)
        axes.set_ylim(bottom=0)
        axes.set_ylabel(chart.axis)
    axes.tick_params(axis="y" if lying else "x", length=0)
    if len(runs) > 1:
        figure.legend(loc="outside upper center", ncols=min(len(runs), 4))
    else:
        axes.set_title(styles[0].title, loc="left")
    beside(figure, chart.interval)
    return figure


def _mark(figure: Figure, runs: Sequence[Results]) -> None:
    """Puts the mark of degraded runs on the figure itself."""
    degraded = [results.fidelity == "degraded" for results in runs]
    if any(degraded) and len(runs) == 1:
        mark(figure, f"DEGRADED: {runs[0].reasons[0]}")
    elif any(degraded):
        styles = zip(plot_style.plot_styles(runs), degraded, strict=True)
        mark(figure, "DEGRADED: " + ", ".join(style.title for style, bad in styles if bad))
