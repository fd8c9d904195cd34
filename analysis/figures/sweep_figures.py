"""The figures of a sweep: what the jobs paid and why, against what was varied.

Four measures explain each other and stand side by side: the average job completion time (JCT), PS
packets per fragment (1: every sum was completed in the switch), the share of fragments completed
there, and the bytes on the parameter servers' links. Where a number is varied they are lines over
it; where none is they are bars. A system that knows nothing of the varied key is a dashed line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib import rc_context

from testbed.analysis.data.run_summary import interval
from testbed.analysis.data.sweep_data import Sweep
from testbed.analysis.data.sweep_measures import (
    RANGE,
    asked,
    chosen,
    is_wide,
    positions,
    series_styles,
    unit_of,
    with_links,
)
from testbed.analysis.figures import memory_figures
from testbed.analysis.figures import run_figures as figures
from testbed.analysis.figures.figure_files import new_figure, save
from testbed.analysis.style import plot_style, units
from testbed.analysis.style.plot_style import PlotStyle
from testbed.analysis.tables import report_tables as tables
from testbed.results import Results, hand_over

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = ("-", "--", ":", "-.")

_TITLE = 25  # letters that fit above one of many panels
_BARS = 6  # more are drawn lying, with their names beside them


def draw(sweep: Sweep, frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes the figures of a sweep into `folder`; returns their paths. `frame`: of
    `sweeps.frame`, not empty."""
    folder.mkdir(exist_ok=True)
    hand_over(folder)
    paths: list[Path] = []
    with rc_context(plot_style.RC):
        drawn = [(sweep.name if sweep.figure else "measures", measures(sweep, frame))]
        if sweep.axis is None and sweep.figure is None:
            done = [point for point in sweep.points if point.finished]
            styles = series_styles([(point.series(None), point.system) for point in done])
            runs = [point.results for point in done]
            drawn.append(("jct", figures.jct(runs, [styles[point.series(None)] for point in done])))
        if sweep.figure is not None and sweep.figure.occupancy:
            runs = _with_memory(sweep)
            if runs:
                drawn.append((f"{sweep.name}-over-time", memory_figures.occupancies(runs)))
        for name, figure in drawn:
            _mark(figure, frame)
            paths += save(figure, folder / name)
    if sweep.figure is not None:
        path = folder / f"{sweep.name}.csv"
        columns = [measure.column for measure in chosen(sweep)]
        tables.to_csv(tables.drawn_points(with_links(frame), columns), path)
        paths.append(path)
    return paths


def _with_memory(sweep: Sweep) -> list[tuple[str, Results]]:
    """(title, results) of the finished points whose switches aggregate."""
    found = []
    for point in sweep.points:
        if point.finished and len(point.results.memory):
            on_axis = point.values.get(sweep.axis) if sweep.axis else None
            title = point.series(sweep.axis)
            label = sweep.figure.x_label or sweep.axis
            found.append((f"{title}, {label} {on_axis.short}" if on_axis else title, point.results))
    return found


def measures(sweep: Sweep, frame: pd.DataFrame) -> Figure:
    """The measures that the sweep's figure declares, or those of the module's head, as far as they
    were measured, in one row of panels."""
    frame = with_links(frame)
    shown = [each for each in chosen(sweep) if frame[each.column].notna().any()]
    styles = series_styles(list(dict.fromkeys(zip(frame["series"], frame["system"], strict=True))))
    lying = sweep.axis is None and len(styles) > _BARS
    figure = new_figure(
        min(plot_style.PAGE, plot_style.PAGE * len(shown) / 4 + (1.8 if lying else 0.6)),
        0.8 + 0.17 * len(styles) if lying else 2.4,
    )
    panels = np.atleast_1d(figure.subplots(1, len(shown), sharey=lying))
    for axes, measure in zip(panels, shown, strict=True):
        scale, label = unit_of(frame[measure.column], measure.unit)
        if lying:
            _lying_bars(axes, frame, measure.column, scale, styles)
        elif sweep.axis is None:
            _bars(axes, frame, measure.column, scale, styles)
        else:
            places = positions(sweep)
            _lines(axes, frame.assign(x=frame["x"].map(places)), measure.column, scale, styles)
            _x_axis(axes, sweep, places)
        title = measure.title.format(against=sweep.figure.against if sweep.figure else "")
        wide = len(title) + len(label) > _TITLE and len(shown) > 2
        between = "\n" if wide else " "
        axes.set_title(f"{title}{between}({label})" if label else title, loc="left")
        if lying:
            axes.set_xlim(left=0)
        elif sweep.axis is not None and measure.unit == "time" and is_wide(frame, measure.column):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
    if not lying:
        # A system without a parameter server is missing in the panels about one.
        drawn = {}
        for axes in figure.axes:
            handles, labels = axes.get_legend_handles_labels()
            drawn |= dict(zip(labels, handles, strict=True))
        titles = [title for title in styles if title in drawn]
        handles = [drawn[title] for title in titles]
        figure.legend(handles, titles, loc="outside upper center", ncols=min(len(titles), 4))
    return figure


def _lines(
    axes: Axes,
    frame: pd.DataFrame,
    column: str,
    scale: float,
    styles: dict[str, PlotStyle],
) -> None:
    for title, look in styles.items():
        rows = frame[frame["series"] == title]
        line = _LINES[plot_style.HATCHES.index(look.hatch) % len(_LINES)]
        constant = rows[rows["x"].isna()][column].dropna()
        if len(constant):
            axes.axhline(
                constant.mean() / scale, color=look.color, linestyle=(0, (5, 2)), label=title
            )
        places, means, halves = [], [], []
        for x, group in rows.dropna(subset=["x"]).groupby("x"):
            mean, half = interval(group[column] / scale)
            places.append(x)
            means.append(mean)
            halves.append(half if group[column].count() > 2 else 0.0)
        if np.isfinite(means).any():
            axes.errorbar(
                places, means, yerr=halves, color=look.color, marker=look.marker, markersize=3,
                linestyle=line, linewidth=1, capsize=2, elinewidth=0.8, label=title,
            )  # fmt: skip


def _means(
    frame: pd.DataFrame, column: str, scale: float, styles: dict[str, PlotStyle]
) -> Iterator[tuple[int, str, PlotStyle, float, float | None]]:
    """(place, title, look, mean, half width of its interval) of each series that has a mean; the
    half width from three repetitions on."""
    for place, (title, look) in enumerate(styles.items()):
        values = frame[frame["series"] == title][column] / scale
        mean, half = interval(values)
        if not np.isnan(mean):
            yield place, title, look, mean, half if values.count() > 2 else None


def _bars(
    axes: Axes,
    frame: pd.DataFrame,
    column: str,
    scale: float,
    styles: dict[str, PlotStyle],
) -> None:
    for place, title, look, mean, half in _means(frame, column, scale, styles):
        axes.bar(
            place, mean, color=look.color, hatch=look.hatch, linewidth=0, label=title,
            edgecolor="white" if look.hatch else look.color,
            yerr=half, error_kw={"elinewidth": 0.8, "capsize": 2},
        )  # fmt: skip
        axes.annotate(
            units.significant(mean), (place, mean + (half or 0)), xytext=(0, 2),
            textcoords="offset points", ha="center", fontsize=6,
        )  # fmt: skip
    axes.set_xticks([])


def _lying_bars(
    axes: Axes,
    frame: pd.DataFrame,
    column: str,
    scale: float,
    styles: dict[str, PlotStyle],
) -> None:
    for place, _, look, mean, half in _means(frame, column, scale, styles):
        axes.barh(
            place, mean, color=look.color, linewidth=0, height=0.7,
            xerr=half, error_kw={"elinewidth": 0.8, "capsize": 2},
        )  # fmt: skip
        axes.annotate(
            units.significant(mean), (0, place), xytext=(2, 0), textcoords="offset points",
            va="center", fontsize=6, color="white",
        )  # fmt: skip
    axes.set_yticks(range(len(styles)), list(styles))
    axes.set_ylim(len(styles) - 0.4, -0.6)


def _x_axis(axes: Axes, sweep: Sweep, places: dict[float, float]) -> None:
    """Ticks at the values that were asked for."""
    words = asked(sweep)
    if min(places) > 0 and max(places) >= RANGE * min(places):
        axes.set_xscale("log")
    axes.set_xticks(
        list(places.values()), [words[number] for number in places], rotation=45, ha="right"
    )
    axes.minorticks_off()
    axes.set_xlabel((sweep.figure.x_label if sweep.figure else "") or sweep.axis)


def _mark(figure: Figure, frame: pd.DataFrame) -> None:
    """Says on the figure itself how many points are degraded."""
    points = frame.groupby("point")["fidelity"].first()
    degraded = int((points == "degraded").sum())
    if degraded:
        text = f"DEGRADED: {degraded} of {len(points)} points (report.txt says which)"
        figure.supxlabel(
            text, x=0.01, ha="left", fontsize=6, color=plot_style.VERMILION, weight="bold"
        )
