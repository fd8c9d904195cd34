"""The figures of a sweep: its measures side by side, and its switches' memory over time.

A measure is drawn as lines over the varied number, or as bars where none is varied. A system that
knows nothing of the varied key is a dashed line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from p4fabric.base import units

from testbed.analysis.data.chart_data import Bar, BarChart
from testbed.analysis.data.map_data import maps
from testbed.analysis.data.reported_data import reported
from testbed.analysis.data.sweep_chart_data import (
    Axis,
    Line,
    SweepPanel,
    axis_label,
    chosen,
    panels,
    with_links,
)
from testbed.analysis.data.sweep_data import Sweep
from testbed.analysis.figures import memory_figures, run_figures
from testbed.analysis.figures.figure_files import beside, mark, new_figure, save
from testbed.analysis.figures.map_figure import maps_figure
from testbed.analysis.figures.reported_figure import reported_figure
from testbed.analysis.style import plot_style
from testbed.analysis.style.plot_style import PlotStyle, in_one_column, series_styles
from testbed.analysis.tables import report_tables as tables
from testbed.results import Results, hand_over

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

# By PlotStyle.line. The lengths are in line widths: drawn, blank, drawn, ...
_LINES: tuple[Any, ...] = (
    "-", "--", ":", "-.", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (6, 1, 2, 1)),
)  # fmt: skip
_RATIOS = (0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
_NOTE = plot_style.SOFT
_TITLE = 27  # letters that fit above one of many panels
_GAP_PT = 4  # between titles
_LETTERS = 14  # of a legend, on an inch
_NAME = 54  # characters of a line beside horizontal bars
_IN_A_ROW = 4  # panels; in one column of a paper 2
_BARS = 6  # more are drawn horizontal, with their names beside them
_ERROR = {"elinewidth": 0.8, "capsize": 2}


def draw(sweep: Sweep, frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes the figures of a sweep into `folder`; returns their paths. `frame`: of `frame` in
    data/sweep_data.py, not empty."""
    folder.mkdir(exist_ok=True)
    hand_over(folder)
    paths: list[Path] = []
    declared = sweep.figure
    with rc_context(plot_style.rc()):
        drawn = [(sweep.name if declared else "measures", measures(sweep, frame))]
        if sweep.axis is None and declared is None:
            done = [(point, point.results) for point in sweep.points if point.results]
            done = [(point, results) for point, results in done if results.finished]
            styles = series_styles([(point.series(), point.system) for point, _ in done])
            of_runs = [replace(styles[point.series()], title=point.title()) for point, _ in done]
            drawn.append(("jct", run_figures.jct([results for _, results in done], of_runs)))
        if declared is not None and declared.occupancy and (runs := _with_memory(sweep)):
            drawn.append((f"{sweep.name}-over-time", memory_figures.occupancies(runs)))
        if declared is not None and declared.reported and (found := reported(sweep)):
            drawn.append((f"{sweep.name}-reported", reported_figure(found, sweep.titles())))
        for name, figure in drawn:
            _mark(figure, frame)
            paths += save(figure, folder / name)
    if declared is not None:
        path = folder / f"{sweep.name}.csv"
        if declared.rows:
            numbers = tables.map_cells(maps(sweep, frame))
        else:
            columns = [measure.column for measure in chosen(sweep)]
            numbers = tables.drawn_points(with_links(frame), columns)
        tables.to_csv(numbers, path)
        paths.append(path)
    return paths


def _with_memory(sweep: Sweep) -> list[tuple[str, Results]]:
    """(title, results) of the finished points whose switches aggregate."""
    found = []
    label = axis_label(sweep)
    for point in sweep.points:
        results = point.results
        if results is not None and results.finished and len(results.memory):
            on_axis = point.values.get(sweep.axis) if sweep.axis else None
            title = point.title(*sweep.placed)
            found.append((f"{title}, {label} {on_axis.short}" if on_axis else title, results))
    return found


def measures(
    sweep: Sweep,
    frame: pd.DataFrame,
    labels: Mapping[str, str] | None = None,
    into: Sequence[Axes] = (),
) -> Figure:
    """The measures that the sweep's figure declares, or the usual ones, as far as they were
    measured, in rows of panels; or its maps. `frame`: see `draw`. `labels`: see `panels`. `into`:
    axes for the measures, one each, instead of a figure of their own."""
    if sweep.figure is not None and sweep.figure.rows:
        return maps_figure(maps(sweep, frame), axis_label(sweep, labels))
    shown = panels(sweep, frame, labels)
    names = [fill(name, _NAME) for name in shown[0].names]
    horizontal = sweep.axis is None and len(names) > _BARS
    if into:
        for axes, panel in zip(into, shown, strict=True):
            _draw_panel(axes, panel, horizontal)
            (axes.set_xlabel if horizontal else axes.set_ylabel)(
                f"{panel.label}\n{panel.interval}" if panel.interval else panel.label
            )
            if horizontal:
                _names(axes, names)
            elif len(names) > 1:
                axes.legend(*_legend([axes], panel.names))
        found = into[0].get_figure(root=True)
        assert found is not None, "axes have a figure"
        return found
    figure, all_axes = _grid(shown, names, horizontal)
    titles: list[Text] = []
    in_a_row = _in_a_row()
    narrow = not horizontal and (min(len(shown), in_a_row) > 2 or in_one_column())
    for number, (axes, panel) in enumerate(zip(all_axes, shown, strict=True)):
        letter = f"({chr(ord('a') + number)}) " if len(shown) > 1 else ""
        title = f"{letter}{panel.label}".strip()
        titles.append(axes.set_title(fill(title, _TITLE) if narrow else title, loc="left"))
        _draw_panel(axes, panel, horizontal)
    beside(figure, next((each.interval for each in shown if each.interval), ""))
    if horizontal:
        _names(all_axes[0], names)
        _break_titles(figure, titles, in_a_row)
    else:
        shapes, said = _legend(all_axes, shown[0].names)
        if said:  # a single series has no name: nothing but the axis is varied
            columns = _legend_columns(figure.get_figwidth(), said)
            figure.legend(shapes, said, loc="outside upper center", ncols=columns)
    if shown[0].axis is not None:
        _clear_ticks(figure, all_axes, shown[0].axis)
    return figure


def _legend(all_axes: Sequence[Axes], names: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Shapes and names of the series, in their order. A system without a parameter server is
    missing in the panels about one."""
    drawn: dict[str, Any] = {}
    for axes in all_axes:
        handles, texts = axes.get_legend_handles_labels()
        drawn |= dict(zip(texts, handles, strict=True))
    shown = [name for name in names if name in drawn]
    return [drawn[name] for name in shown], shown


def _grid(
    shown: Sequence[SweepPanel], names: Sequence[str], horizontal: bool
) -> tuple[Figure, Sequence[Axes]]:
    """A figure with axes for the panels."""
    lines = max((1 + name.count("\n") for name in names), default=1)
    in_a_row = _in_a_row()
    columns = min(len(shown), in_a_row)
    rows = -(-len(shown) // in_a_row)
    width = min(plot_style.PAGE, plot_style.PAGE * columns / 4 + (1.8 if horizontal else 0.6))
    if horizontal:
        height = rows * (0.8 + max(0.17, 0.14 * lines) * len(names))
    else:  # a legend of many lines takes no height from the panels
        in_legend = -(-len(names) // _legend_columns(width, names)) if names else 0
        height = rows * 2.4 + 0.17 * max(0, in_legend - 3)
    figure = new_figure(width, height)
    grid = figure.subplots(rows, columns, sharey=horizontal, squeeze=False).ravel()
    for axes in grid[len(shown) :]:
        axes.remove()
    return figure, list(grid[: len(shown)])


def _legend_columns(width: float, names: Sequence[str]) -> int:
    """Columns of a legend with these names in a figure of a width in inches."""
    fit = int(_LETTERS * width / (6 + max(map(len, names))))
    return max(1, min(len(names), _in_a_row(), fit))


def _in_a_row() -> int:
    """Most panels beside each other, and most columns of a legend."""
    return 2 if in_one_column() else _IN_A_ROW


def _draw_panel(axes: Axes, panel: SweepPanel, horizontal: bool) -> None:
    """A measure, without its title and its legend."""
    if panel.ratio:  # all others are compared with this one
        (axes.axvline if horizontal else axes.axhline)(1, color=_NOTE, linewidth=0.6, zorder=0)
    if panel.bars is not None:
        _bars(axes, panel, panel.bars, horizontal)
    if panel.axis is not None:
        for line in panel.lines:
            _line(axes, line, joined=not panel.axis.named)
        _x_axis(axes, panel.axis)
        _say_what_is_missing(axes, panel)
    _value_axis(axes, panel, horizontal)


def _names(axes: Axes, names: Sequence[str]) -> None:
    """The names beside lying bars."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _clear_ticks(figure: Figure, all_axes: Sequence[Axes], axis: Axis) -> None:
    """Upright labels of ticks that would touch: names are broken, and of numbers some are left
    out."""
    figure.draw_without_rendering()
    for axes in all_axes:
        shown = axes.get_xticklabels()
        boxes = [label.get_window_extent() for label in shown]
        if axis.named:
            widest = max((box.width for box in boxes), default=0)
            room = axes.bbox.width / max(len(shown), 1)
            if widest > room:
                letters = max(map(len, axis.ticks.values()))
                texts = [fill(each, max(4, int(letters * room / widest))) for each in
                         axis.ticks.values()]  # fmt: skip
                axes.set_xticks(list(axis.ticks), texts)
            continue
        kept, texts = -np.inf, list(axis.ticks.values())
        for place, box in enumerate(boxes):
            if box.x0 < kept + _GAP_PT * figure.dpi / 72 / 2:
                texts[place] = ""
            else:
                kept = box.x1
        axes.set_xticks(list(axis.ticks), texts)


def _break_titles(figure: Figure, titles: Sequence[Text], in_a_row: int) -> None:
    """Break the panels' titles, of one line each, where the next panel, or the figure's edge,
    begins. The names beside horizontal bars leave panels less room than `_TITLE` counts on."""
    figure.draw_without_rendering()
    lefts = [title.get_window_extent().x0 for title in titles]
    for number, (title, left) in enumerate(zip(titles, lefts, strict=True)):
        last = (number + 1) % in_a_row == 0 or number + 1 == len(titles)
        room = (figure.bbox.x1 if last else lefts[number + 1]) - left - _GAP_PT * figure.dpi / 72
        text, letters = title.get_text(), len(title.get_text())
        while title.get_window_extent().width > room and letters > 1:
            letters -= 1
            title.set_text(fill(text, letters))


def _value_axis(axes: Axes, panel: SweepPanel, horizontal: bool) -> None:
    """From 0, or logarithmic, where ratios have ticks that can be read near 1."""
    if horizontal:
        axes.set_xlim(0, panel.limit)
    elif not panel.logarithmic:
        axes.set_ylim(0, panel.limit)
    else:
        axes.set_yscale("log")
        if panel.ratio:
            low, high = axes.get_ylim()
            ticks = [tick for tick in _RATIOS if low <= tick <= high]
            axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_yticks([], minor=True)


def _say_what_is_missing(axes: Axes, panel: SweepPanel) -> None:
    """Note the series without a value in a panel of lines, and the reason."""
    reasons: dict[str, list[str]] = {}
    for series, reason in panel.missing.items():
        reasons.setdefault(reason, []).append(series)
    figure, spec = axes.get_figure(root=True), axes.get_subplotspec()
    assert figure is not None, "axes have a figure"
    panels = spec.get_gridspec().ncols if spec is not None else 1
    letters = max(_TITLE, int(_LETTERS * figure.get_figwidth() / panels))
    text = "\n".join(
        fill(f"{reason}: {', '.join(names)}", letters) for reason, names in reasons.items()
    )
    note = axes.text(0.02, 0.02, text, transform=axes.transAxes, fontsize="small", color=_NOTE)
    note.set_in_layout(False)  # a long one takes no width from the panels


def _line(axes: Axes, line: Line, joined: bool) -> None:
    style = line.style
    drawn = _LINES[style.line % len(_LINES)] if joined else "none"
    if line.constant is not None:
        axes.axhline(line.constant, color=style.color, linestyle=(0, (5, 2)), label=style.title)
    if np.isfinite(line.means).any():
        axes.errorbar(
            line.x, line.means, yerr=np.nan_to_num(line.half_widths), color=style.color,
            marker=style.marker, markersize=3,
            markerfacecolor=style.color if joined or not style.hatch else "white",
            linestyle=drawn, linewidth=1, capsize=2, elinewidth=0.8, label=style.title,
        )  # fmt: skip


def _bars(axes: Axes, panel: SweepPanel, chart: BarChart, horizontal: bool) -> None:
    """A bar per series with its number; a series without a value says what it lacks."""
    for place, series in enumerate(chart.series):
        style = series.style
        for bar in series.bars:
            _bar(axes, place, bar, style, panel.limit, horizontal)
        if not series.bars and style.title in panel.missing:
            _beside(axes, place, 0, panel.missing[style.title], horizontal, standing=True)
    if not horizontal:
        axes.set_xticks([])
        axes.set_xlim(-0.6, len(chart.series) - 0.4)


def _bar(
    axes: Axes, place: int, bar: Bar, style: PlotStyle, limit: float | None, horizontal: bool
) -> None:
    """One bar. `limit`: where the axis ends; a longer bar ends there, with its number."""
    mean, half = bar.estimate.mean, np.nan_to_num(bar.estimate.shown_half_width)
    cut = limit is not None and mean + half > limit
    look: dict[str, Any] = {
        "color": style.color, "hatch": style.hatch, "linewidth": 0, "label": style.title,
        "edgecolor": "white" if style.hatch else style.color, "error_kw": _ERROR,
    }  # fmt: skip
    error = None if cut or not half else half
    if horizontal:
        axes.barh(place, mean, height=0.7, xerr=error, **look)
    else:
        axes.bar(place, mean, yerr=error, **look)
    if cut:
        assert limit is not None
        _beside(axes, place, 0.97 * limit, f"{units.significant(mean)} \N{RIGHTWARDS ARROW}"
                if horizontal else f"{units.significant(mean)}\n\N{UPWARDS ARROW}",
                horizontal, inside=True)  # fmt: skip
    else:
        _beside(axes, place, mean + half, units.significant(mean), horizontal)


def _beside(
    axes: Axes,
    place: int,
    value: float,
    text: str,
    horizontal: bool,
    inside: bool = False,
    standing: bool = False,
) -> None:
    """A few letters behind the end of a bar, or `inside` before it on white; `standing`: turned, as
    words need it over a standing bar."""
    offset = -2 if inside else 2
    look: dict[str, Any] = {"fontsize": "small", "textcoords": "offset points"}
    if inside:
        look["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    if horizontal:
        side = "right" if inside else "left"
        axes.annotate(text, (value, place), xytext=(offset, 0), va="center", ha=side, **look)
    else:
        side = "top" if inside else "bottom"
        turned: dict[str, Any] = {"rotation": 90} if standing else {}
        axes.annotate(text, (place, value), xytext=(0, offset), va=side, ha="center",
                      **turned, **look)  # fmt: skip


def _x_axis(axes: Axes, axis: Axis) -> None:
    """Ticks at the values that were asked for."""
    if axis.logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(list(axis.ticks), list(axis.ticks.values()))
    axes.minorticks_off()
    axes.set_xlabel(axis.label)


def _mark(figure: Figure, frame: pd.DataFrame) -> None:
    """Says on the figure itself how many points are degraded."""
    points = frame.groupby("point")["fidelity"].first()
    degraded = int((points == "degraded").sum())
    if degraded:
        mark(figure, f"DEGRADED: {degraded} of {len(points)} points (report.txt says which)")
