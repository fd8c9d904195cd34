"""The maps of a sweep: who is fastest in each cell, and where adding up in switches pays."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from p4fabric.base import units

from testbed.analysis.data.map_data import Cell, Map
from testbed.analysis.figures.figure_files import new_figure
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = "PuOr"  # white where both kinds are as fast
_LEAST = 1.5  # the ratio at the ends of the colours, at least
_WORD = 13  # letters of a line in a cell
_LABEL = "fastest without / fastest with\naggregation in switches"


def maps_figure(maps: Sequence[Map], x_label: str) -> Figure:
    """All maps, side by side and below each other, with the same colours."""
    gains = np.concatenate([each.gains.ravel() for each in maps])
    known = gains[np.isfinite(gains)]
    end = max(_LEAST, *(max(gain, 1 / gain) for gain in known)) if len(known) else _LEAST
    norm = LogNorm(1 / end, end)
    wide = max(len(each.columns) for each in maps)
    in_a_row = 1 if plot_style.in_one_column() else max(1, min(len(maps), 9 // wide))
    lines = -(-len(maps) // in_a_row)
    tall = max(len(each.rows) for each in maps)
    figure = new_figure(plot_style.PAGE, lines * (0.55 + 0.42 * tall) + 0.3)
    grid = figure.subplots(lines, in_a_row, squeeze=False, sharey=False).ravel()
    for axes in grid[len(maps) :]:
        axes.remove()
    for number, (axes, each) in enumerate(zip(grid, maps, strict=False)):
        first = number % in_a_row == 0
        _map(axes, each, norm, named=first)
        axes.set_xlabel(x_label if number + in_a_row >= len(maps) else "")
    mappable = axes.collections[0]
    bar = figure.colorbar(mappable, ax=list(grid[: len(maps)]), pad=0.01, aspect=30)
    ticks = [tick for tick in (0.2, 0.33, 0.5, 0.67, 1, 1.5, 2, 3, 5) if 1 / end <= tick <= end]
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    bar.ax.minorticks_off()
    bar.set_label(_LABEL)
    return figure


def _map(axes: Axes, each: Map, norm: LogNorm, named: bool) -> None:
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(each.gains), cmap=_COLORS + "_r", norm=norm, edgecolors="white",
        linewidth=1,
    )  # fmt: skip
    mesh.set_rasterized(False)
    axes.set_facecolor("#DDDDDD")
    for cell in each.cells:
        _words(axes, cell, each, norm)
    axes.set_xticks(np.arange(len(each.columns)) + 0.5, each.columns)
    axes.set_yticks(np.arange(len(each.rows)) + 0.5, each.rows if named else [""] * len(each.rows))
    axes.tick_params(length=0)
    axes.invert_yaxis()
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(each.title, loc="left")


def _words(axes: Axes, cell: Cell, of: Map, norm: LogNorm) -> None:
    """The gain, and below it the fastest series, or how many are as fast."""
    x, y = of.columns.index(cell.column) + 0.5, of.rows.index(cell.row) + 0.5
    gain = cell.gain.mean
    known = bool(np.isfinite(gain))
    red, green, blue, _ = colormaps[_COLORS + "_r"](norm(gain if known else 1.0))
    ink = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.45 else "black"
    number = units.significant(gain) if known else ""
    axes.text(x, y - 0.18, number, ha="center", va="center", fontsize=7, color=ink)
    title = cell.fastest.title
    if cell.alike > 1:
        title = f"{cell.alike} of {cell.series} alike"
    name = fill(title, _WORD)
    axes.text(x, y + 0.2, name, ha="center", va="center", fontsize=5.5, color=ink)
