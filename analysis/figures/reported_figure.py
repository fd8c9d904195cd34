"""The figure of what programs report: over time, and at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from p4fabric.base import units

from testbed.analysis.figures.figure_files import new_figure
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from testbed.analysis.data.reported_data import Reported
    from testbed.analysis.style.plot_style import PlotStyle

_BAND = 0.18  # opacity
_ERROR = {"elinewidth": 0.8, "capsize": 2}


def reported_figure(found: Sequence[Reported], titles: Mapping[str, str]) -> Figure:
    """A row per measure and job. On the left its mean over the repetitions against the time since
    the first report, with a band as wide as the 95 % confidence interval; on the right its last
    value, a bar per series. `titles`: of the series."""
    series = dict.fromkeys((line.series, line.system) for each in found for line in each.lines)
    styles = plot_style.series_styles(list(series))
    figure = new_figure(plot_style.PAGE, 0.5 + 1.9 * len(found))
    rows = figure.subplots(len(found), 2, squeeze=False, width_ratios=(2, 1))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for each, (left, right) in zip(found, rows, strict=True):
        if each.over_time:
            _over_time(left, each, styles)
            left.set_title(f"({next(letters)}) {each.job}: {each.measure}", loc="left")
        else:
            left.remove()
        _at_end(right, each, styles)
        right.set_title(f"({next(letters)}) {each.job}: {each.measure} at the end", loc="left")
    bars = {bar.get_label(): bar for axes in rows[:, 1] for bar in axes.containers}
    shown = [bars[name] for name in styles]
    names = [titles.get(name, name) for name in styles]
    figure.legend(shown, names, loc="outside upper center", ncols=min(len(styles), 6))
    return figure


def _over_time(axes: Axes, reported: Reported, styles: Mapping[str, PlotStyle]) -> None:
    scale, unit = units.time_unit(max(float(line.time_s[-1]) for line in reported.lines) * 1e9)
    for place, line in enumerate(reported.lines):
        style = styles[line.series]
        time = line.time_s * 1e9 / scale
        axes.plot(time, line.means, color=style.color, linewidth=1, marker=style.marker,
                  markersize=3, markevery=(place, 12))  # fmt: skip
        half = np.nan_to_num(line.half_widths)
        low, high = line.means - half, line.means + half
        axes.fill_between(time, low, high, color=style.color, alpha=_BAND, linewidth=0)
    axes.set_xlim(0)
    axes.set_xlabel(f"time since the first report ({unit})")


def _at_end(axes: Axes, reported: Reported, styles: Mapping[str, PlotStyle]) -> None:
    for place, line in enumerate(reported.lines):
        style = styles[line.series]
        mean, half = line.last.mean, np.nan_to_num(line.last.shown_half_width)
        axes.bar(place, mean, yerr=half or None, color=style.color, hatch=style.hatch, linewidth=0,
                 edgecolor="white" if style.hatch else style.color, label=style.title,
                 error_kw=_ERROR)  # fmt: skip
        axes.annotate(units.significant(mean), (place, mean + half), xytext=(0, 2), fontsize=6,
                      textcoords="offset points", ha="center", va="bottom")  # fmt: skip
    axes.set_xticks([])
    axes.margins(y=0.12)
