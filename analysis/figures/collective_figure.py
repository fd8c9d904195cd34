"""The figure of a collective's time and bus bandwidth over its size, for systems and algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from testbed.analysis.figures.figure_files import new_figure, save
from testbed.analysis.style import plot_style
from testbed.systems import SYSTEMS


@dataclass(frozen=True)
class Line:
    """The measurements of a system: sizes in bytes, times and bounds in ns, busbw in GB/s. note:
    with which costs, if those are others than of the other lines; its line is dashed."""

    system: str
    sizes: Sequence[int]
    times_ns: Sequence[float]
    bounds_ns: Sequence[float]
    busbw: Sequence[float]
    note: str = ""


@dataclass(frozen=True)
class Published:
    """A published point of a system: a time in ns or a busbw in GB/s, from `low` to `high`, and how
    far the measured one is from it."""

    system: str
    size: int
    low: float
    high: float
    is_time: bool
    error: str


def draw(
    path: Path, title: str, lines: Sequence[Line], published: Sequence[Published] = ()
) -> list[Path]:
    """Writes `path` as PNG and PDF; returns both. Dotted lines are bounds, crosses published."""
    with rc_context(plot_style.rc()):
        figure = new_figure(plot_style.PAGE, 2.6)
        left, right = figure.subplots(1, 2)
        for line in lines:
            system = SYSTEMS[line.system]
            look = {"color": system.color, "marker": system.marker, "markersize": 3}
            look |= {"linestyle": "--"} if line.note else {}
            label = f"{system.title}, {line.note}" if line.note else system.title
            times = [each / 1e3 for each in line.times_ns]
            left.plot(line.sizes, times, label=label, **look)
            if not line.note:
                bounds = [each / 1e3 for each in line.bounds_ns]
                left.plot(line.sizes, bounds, ":", color=system.color, lw=0.7)
            right.plot(line.sizes, line.busbw, **look)
        _mark(left, [each for each in published if each.is_time], 1e3)
        _mark(right, [each for each in published if not each.is_time], 1)
        left.set_yscale("log")
        left.set_ylabel("time (µs); dotted: bound")
        right.set_ylabel("busbw (GB/s)")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            _sizes(axes)
        left.set_title(title, loc="left", fontsize=7)
        handles = left.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower left", ncols=6, fontsize=6)
        return save(figure, path)


def _mark(axes: Axes, published: Sequence[Published], unit: float) -> None:
    """Crosses with ranges and errors, a series for each system."""
    for system in dict.fromkeys(each.system for each in published):
        own = [each for each in published if each.system == system]
        axes.errorbar(
            [each.size for each in own],
            [(each.low + each.high) / 2 / unit for each in own],
            [(each.high - each.low) / 2 / unit for each in own],
            fmt="x",
            color=SYSTEMS[system].color,
            markersize=5,
            lw=1,
            label=f"{SYSTEMS[system].title}, published",
        )
        for each in own:
            at = (each.size, (each.low + each.high) / 2 / unit)
            axes.annotate(each.error, at, (3, -8), textcoords="offset points", fontsize=5)


def _sizes(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlabel("size (bytes)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: short(size)))


def short(size: float) -> str:
    """A size in powers of 1024, as nccl-tests write it."""
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return f"{size:g}"
