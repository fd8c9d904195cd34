"""The figures of a sweep: its measures side by side, and its switches' memory over time.

A measure is drawn as lines over the varied number, or as bars where none is varied. A system that
knows nothing of the varied key is a dashed line.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context

from testbed.analysis.data.chart_data import Bar
from testbed.analysis.data.sweep_chart_data import (
    Axis,
    Line,
    SweepPanel,
    chosen,
    panels,
    series_styles,
    with_links,
)
from testbed.analysis.data.sweep_data import Sweep
from testbed.analysis.figures import memory_figures, run_figures
from testbed.analysis.figures.figure_files import mark, new_figure, save
from testbed.analysis.style import plot_style, units
from testbed.analysis.style.plot_style import PlotStyle
from testbed.analysis.tables import report_tables as tables
from testbed.results import Results, hand_over

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = ("-", "--", ":", "-.")
_TITLE = 25  # letters that fit above one of many panels
_NAME = 54  # characters of a line beside horizontal bars
_IN_A_ROW = 4  # panels
_BARS = 6  # more are drawn horizontal, with their names beside them
_ERROR = {"elinewidth": 0.8, "capsize": 2}


def draw(sweep: Sweep, frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes the figures of a sweep into `folder`; returns their paths. `frame`: of `frame` in
    data/sweep_data.py, not empty."""
    folder.mkdir(exist_ok=True)
    hand_over(folder)
    paths: list[Path] = []
    declared = sweep.figure
    with rc_context(plot_style.RC):
        drawn = [(sweep.name if declared else "measures", measures(sweep, frame))]
        if sweep.axis is None and declared is None:
            done = [(point, point.results) for point in sweep.points if point.results]
            done = [(point, results) for point, results in done if results.finished]
            styles = series_styles([(point.series(None), point.system) for point, _ in done])
            of_runs = [styles[point.series(None)] for point, _ in done]
            drawn.append(("jct", run_figures.jct([results for _, results in done], of_runs)))
        if declared is not None and declared.occupancy and (runs := _with_memory(sweep)):
            drawn.append((f"{sweep.name}-over-time", memory_figures.occupancies(runs)))
        for name, figure in drawn:
            _mark(figure, frame)
            paths += save(figure, folder / name)
    if declared is not None:
        path = folder / f"{sweep.name}.csv"
        columns = [measure.column for measure in chosen(sweep)]
        tables.to_csv(tables.drawn_points(with_links(frame), columns), path)
        paths.append(path)
    return paths


def _with_memory(sweep: Sweep) -> list[tuple[str, Results]]:
    """(title, results) of the finished points whose switches aggregate."""
    found = []
    label = (sweep.figure.x_label if sweep.figure else "") or sweep.axis
    for point in sweep.points:
        results = point.results
        if results is not None and results.finished and len(results.memory):
            on_axis = point.values.get(sweep.axis) if sweep.axis else None
            title = point.series(sweep.axis)
            found.append((f"{title}, {label} {on_axis.short}" if on_axis else title, results))
    return found


def measures(sweep: Sweep, frame: pd.DataFrame) -> Figure:
    """The measures that the sweep's figure declares, or the usual ones, as far as they were
    measured, in rows of panels. `frame`: see `draw`."""
    shown = panels(sweep, frame)
    names = [fill(name, _NAME) for name in dict.fromkeys(frame["series"])]
    count = len(names)
    lines = max((1 + name.count("\n") for name in names), default=1)
    horizontal = sweep.axis is None and count > _BARS
    columns = min(len(shown), _IN_A_ROW)
    rows = -(-len(shown) // _IN_A_ROW)
    figure = new_figure(
        min(plot_style.PAGE, plot_style.PAGE * columns / 4 + (1.8 if horizontal else 0.6)),
        rows * (0.8 + max(0.17, 0.14 * lines) * count if horizontal else 2.4),
    )
    grid = figure.subplots(rows, columns, sharey=horizontal, squeeze=False).ravel()
    all_axes, unused = grid[: len(shown)], grid[len(shown) :]
    for axes in unused:
        axes.remove()
    for axes, panel in zip(all_axes, shown, strict=True):
        if panel.bars is not None:
            for place, series in enumerate(panel.bars.series):
                for bar in series.bars:
                    (_horizontal_bar if horizontal else _bar)(axes, place, bar, series.style)
        if panel.axis is not None:
            for line in panel.lines:
                _line(axes, line, joined=not panel.axis.named)
            _x_axis(axes, panel.axis)
        _style_axes(axes, panel, many=len(shown) > 2, horizontal=horizontal)
    if horizontal:
        all_axes[0].set_yticks(range(count), names)
        all_axes[0].set_ylim(count - 0.4, -0.6)
    else:
        # A system without a parameter server is missing in the panels about one.
        drawn: dict[str, Any] = {}
        for axes in figure.axes:
            handles, labels = axes.get_legend_handles_labels()
            drawn |= dict(zip(labels, handles, strict=True))
        titles = [title for title in dict.fromkeys(frame["series"]) if title in drawn]
        shapes = [drawn[title] for title in titles]
        figure.legend(shapes, titles, loc="outside upper center", ncols=min(len(titles), 4))
    return figure


def _style_axes(axes: Axes, panel: SweepPanel, many: bool, horizontal: bool) -> None:
    """A panel's title and the axis of its values. `many`: whether panels are narrow."""
    long = len(panel.title) + len(panel.unit) > _TITLE and many
    between = "\n" if long else " "
    unit = f"({panel.unit})" if panel.unit else ""
    axes.set_title(f"{panel.title}{between}{unit}".strip(), loc="left")
    if horizontal:
        axes.set_xlim(left=0)
    elif panel.logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def _line(axes: Axes, line: Line, joined: bool) -> None:
    style = line.style
    drawn = _LINES[plot_style.HATCHES.index(style.hatch) % len(_LINES)] if joined else "none"
    if line.constant is not None:
        axes.axhline(line.constant, color=style.color, linestyle=(0, (5, 2)), label=style.title)
    if np.isfinite(line.means).any():
        axes.errorbar(
            line.x, line.means, yerr=np.nan_to_num(line.half_widths), color=style.color,
            marker=style.marker, markersize=3,
            markerfacecolor=style.color if joined or not style.hatch else "white",
            linestyle=drawn, linewidth=1, capsize=2, elinewidth=0.8, label=style.title,
        )  # fmt: skip


def _bar(axes: Axes, place: int, bar: Bar, style: PlotStyle) -> None:
    mean, half = bar.estimate.mean, bar.estimate.shown_half_width
    axes.bar(
        place, mean, color=style.color, hatch=style.hatch, linewidth=0, label=style.title,
        edgecolor="white" if style.hatch else style.color,
        yerr=None if np.isnan(half) else half, error_kw=_ERROR,
    )  # fmt: skip
    axes.annotate(
        units.significant(mean), (place, mean + np.nan_to_num(half)), xytext=(0, 2),
        textcoords="offset points", ha="center", fontsize=6,
    )  # fmt: skip
    axes.set_xticks([])


def _horizontal_bar(axes: Axes, place: int, bar: Bar, style: PlotStyle) -> None:
    mean, half = bar.estimate.mean, bar.estimate.shown_half_width
    axes.barh(
        place, mean, color=style.color, linewidth=0, height=0.7,
        xerr=None if np.isnan(half) else half, error_kw=_ERROR,
    )  # fmt: skip
    axes.annotate(
        units.significant(mean), (0, place), xytext=(2, 0), textcoords="offset points",
        va="center", fontsize=6, color="white",
    )  # fmt: skip


def _x_axis(axes: Axes, axis: Axis) -> None:
    """Ticks at the values that were asked for."""
    if axis.logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(list(axis.ticks), list(axis.ticks.values()), rotation=45, ha="right")
    axes.minorticks_off()
    axes.set_xlabel(axis.label)


def _mark(figure: Figure, frame: pd.DataFrame) -> None:
    """Says on the figure itself how many points are degraded."""
    points = frame.groupby("point")["fidelity"].first()
    degraded = int((points == "degraded").sum())
    if degraded:
        mark(figure, f"DEGRADED: {degraded} of {len(points)} points (report.txt says which)")
