"""The figures of a sweep: what the jobs paid and why, against what was varied.

Four measures explain each other and stand side by side: the average job completion time (JCT), PS
packets per fragment (1: every sum was completed in the switch), the share of fragments completed
there, and the bytes on the parameter servers' links. Where a number is varied they are lines over
it; where none is they are bars. A system that knows nothing of the varied key is a dashed line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib import rc_context

from analysis import figures, looks, units
from analysis.summary import interval
from analysis.sweeps import Sweep
from testbed.results import hand_over
from testbed.systems import SYSTEMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = ("-", "--", ":", "-.")
_RANGE = 20  # an axis whose largest number is so many times the smallest is logarithmic

# column of the frame, title, scale of its unit (None: found from the values)
_MEASURES = (
    ("jct_mean_ns", "average JCT", "time"),
    ("ps_packets_per_fragment", "PS packets / fragment", ""),
    ("in_switch_share", "completed in the switch", "%"),
    ("ps_link_bytes", "PS links, both ways", "size"),
)


def draw(sweep: Sweep, frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes the figures of a sweep into `folder`; returns their paths. `frame`: of
    `sweeps.frame`, not empty."""
    folder.mkdir(exist_ok=True)
    hand_over(folder)
    paths: list[Path] = []
    with rc_context(looks.RC):
        drawn = [("measures", measures(sweep, frame))]
        if sweep.axis is None:
            done = [point for point in sweep.points if point.finished]
            styles = series_looks([(point.series(None), point.system) for point in done])
            runs = [point.results for point in done]
            drawn.append(("jct", figures.jct(runs, [styles[point.series(None)] for point in done])))
        for name, figure in drawn:
            _mark(figure, frame)
            paths += figures.save(figure, folder / name)
    return paths


def measures(sweep: Sweep, frame: pd.DataFrame) -> Figure:
    """The four measures of the module's head, those that were measured, in one row of panels."""
    frame = frame.assign(ps_link_bytes=frame["ps_link_bytes_in"] + frame["ps_link_bytes_out"])
    shown = [each for each in _MEASURES if frame[each[0]].notna().any()]
    styles = series_looks(list(dict.fromkeys(zip(frame["series"], frame["system"], strict=True))))
    figure = figures.new_figure(looks.PAGE * len(shown) / 4 + 0.6, 2.4)
    for axes, (column, title, unit) in zip(
        np.atleast_1d(figure.subplots(1, len(shown))), shown, strict=True
    ):
        scale, label = _unit(frame[column], unit)
        if sweep.axis is None:
            _bars(axes, frame, column, scale, styles)
        else:
            _lines(axes, frame, column, scale, styles)
            _x_axis(axes, sweep, frame)
        axes.set_title(f"{title} ({label})" if label else title, loc="left")
        axes.set_ylim(bottom=0)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 4))
    return figure


def series_looks(series: Sequence[tuple[str, str]]) -> dict[str, looks.Look]:
    """A look per series, given as (title, system): the system's colour and marker; several of one
    system differ in hatch and line."""
    found: dict[str, looks.Look] = {}
    for title, name in series:
        if title not in found:
            system = SYSTEMS[name]
            count = sum(look.color == system.color for look in found.values())
            hatch = looks.HATCHES[count % len(looks.HATCHES)]
            found[title] = looks.Look(title, system.color, system.marker, hatch)
    return found


def _lines(
    axes: Axes, frame: pd.DataFrame, column: str, scale: float, styles: dict[str, looks.Look]
) -> None:
    for title, look in styles.items():
        rows = frame[frame["series"] == title]
        line = _LINES[looks.HATCHES.index(look.hatch) % len(_LINES)]
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


def _bars(
    axes: Axes, frame: pd.DataFrame, column: str, scale: float, styles: dict[str, looks.Look]
) -> None:
    for place, (title, look) in enumerate(styles.items()):
        values = frame[frame["series"] == title][column] / scale
        mean, half = interval(values)
        if np.isnan(mean):
            continue
        axes.bar(
            place, mean, color=look.color, hatch=look.hatch, linewidth=0, label=title,
            edgecolor="white" if look.hatch else look.color,
            yerr=half if values.count() > 2 else None, error_kw={"elinewidth": 0.8, "capsize": 2},
        )  # fmt: skip
        axes.annotate(
            units.significant(mean), (place, mean), xytext=(0, 1.5), textcoords="offset points",
            ha="center", fontsize=6,
        )  # fmt: skip
    axes.set_xticks([])


def _x_axis(axes: Axes, sweep: Sweep, frame: pd.DataFrame) -> None:
    """Ticks at the values that were asked for, in the words of the experiment file."""
    values = {
        point.values[sweep.axis].number: point.values[sweep.axis].text
        for point in sweep.points
        if sweep.axis in point.values
    }
    numbers = sorted(values)
    if numbers[0] > 0 and numbers[-1] >= _RANGE * numbers[0]:
        axes.set_xscale("log")
    axes.set_xticks(numbers, [values[number] for number in numbers], rotation=45, ha="right")
    axes.minorticks_off()
    axes.set_xlabel(sweep.axis)


def _unit(values: pd.Series, unit: str) -> tuple[float, str]:
    """(what to divide by, label)"""
    largest = float(values.max())
    if unit == "time":
        return units.time_unit(largest)
    if unit == "size":
        return units.size_unit(largest)
    return (0.01, "%") if unit == "%" else (1.0, unit)


def _mark(figure: Figure, frame: pd.DataFrame) -> None:
    """Says on the figure itself how many points are degraded."""
    points = frame.groupby("point")["fidelity"].first()
    degraded = int((points == "degraded").sum())
    if degraded:
        text = f"DEGRADED: {degraded} of {len(points)} points (report.txt says which)"
        figure.supxlabel(text, x=0.01, ha="left", fontsize=6, color=looks.VERMILION, weight="bold")
