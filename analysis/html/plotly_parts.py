"""The parts that all Plotly charts share: layout, axes, fills, markers, and short numbers.

Charts are dictionaries in Plotly's format (https://plotly.com/javascript/reference/). A pattern, a
marker or a dash repeats what a colour says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from p4fabric.base import units

from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from testbed.analysis.html.html_page import Chart

Trace = dict[str, Any]

# From matplotlib's names in style/plot_style.py and testbed/systems to Plotly's.
_PATTERNS = {stroke: stroke for stroke in "/.\\x-+|"} | {"o": ".", "O": "."}
_SYMBOLS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "D": "diamond",
    "d": "diamond-tall",
    "*": "star",
    "P": "cross",
    "X": "x",
    "p": "pentagon",
    "h": "hexagon",
    "<": "triangle-left",
    ">": "triangle-right",
}
_DASHES = (
    "solid", "dash", "dot", "dashdot", "longdash", "8px,2px,2px,2px,2px,2px", "2px,8px",
    "longdashdot",
)  # fmt: skip
LETTER = 7.5  # pixels, of a label beside an axis
DIGITS = 6  # significant, of numbers in charts


def layout(**settings: Any) -> dict[str, Any]:
    """A chart's layout; settings go on top, axes are merged."""
    axis: dict[str, Any] = {
        "gridcolor": "#e4e4e4",
        "linecolor": "#888",
        "zeroline": False,
        "automargin": True,
        "title": {"standoff": 8},
    }
    found: dict[str, Any] = {
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "margin": {"l": 60, "r": 16, "t": 16, "b": 48},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hoverlabel": {"align": "left"},
        "bargap": 0.25,
    }
    for name, value in settings.items():
        if name.startswith(("xaxis", "yaxis")):
            found[name] = axis | {"title": axis["title"] | {"text": value.pop("text", "")}} | value
        else:
            found[name] = value
    for name in ("xaxis", "yaxis"):
        found.setdefault(name, dict(axis))
    return found


def seconds(ns: Iterable[Any]) -> list[float | None]:
    """Times in ns as seconds, null where unknown."""
    return numbers(pd.Series(ns, dtype="float64") / 1e9, DIGITS + 2)


def time_axis(last: float | None, **settings: Any) -> dict[str, Any]:
    """The x axis of a chart over time whose data end at `last` s: labelled in ms or us where a run
    is shorter than a second."""
    short = last is not None and last < 1
    formats = {"tickformat": "~s", "hoverformat": ".5~s"} if short else {}
    return {"text": "time", "ticksuffix": "s" if short else " s"} | formats | settings


def align(charts: Iterable[Chart], end_ns: float) -> None:
    """Gives charts over a run's time the same left and right edge, and the same end."""
    over_time = [chart.spec["layout"] for chart in charts if chart.over_time]
    labels = [text for layout in over_time for text in layout["yaxis"].get("ticktext", ())]
    left = max(60, 20 + round(LETTER * max(map(len, labels), default=0)))
    for layout in over_time:
        layout["xaxis"]["range"] = [0, max(end_ns, 1.0) / 1e9]
        layout["yaxis"]["automargin"] = False
        layout["margin"] = layout["margin"] | {"l": left}


def vertical_line(x: float) -> dict[str, Any]:
    """A dotted line over the whole height, at the value to compare with."""
    line = {"color": "#222", "width": 1, "dash": "dot"}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def numbers(values: Iterable[Any], digits: int = DIGITS) -> list[float | int | None]:
    """Values as short as `digits` significant digits allow; null where unknown."""
    column = pd.Series(values).astype("float64").to_numpy()
    found: list[float | int | None] = []
    for value in column:
        if not np.isfinite(value):
            found.append(None)
        elif value == int(value) and abs(value) < 1e15:
            found.append(int(value))
        else:
            found.append(float(f"{value:.{digits}g}"))
    return found


def bar_marker(color: str, hatch: str = "") -> dict[str, Any]:
    """Fill of a bar, with a pattern that repeats the colour."""
    marker: dict[str, Any] = {"color": color}
    if pattern(hatch):
        marker["pattern"] = {
            "shape": pattern(hatch),
            "fillmode": "overlay",
            "fgcolor": "white",
            "size": 7,
            "solidity": 0.3,
        }
    return marker


def ink_on(color: str) -> dict[str, Any]:
    """The font of a text inside a bar. On greys, which a dark page turns around, the browser
    chooses."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    if max(red, green, blue) - min(red, green, blue) <= 8:
        return {}
    light = 0.3 * red + 0.59 * green + 0.11 * blue > 140
    return {"insidetextfont": {"color": "#2a1a10" if light else "#fffbe8"}}


def area_fill(color: str, hatch: str = "") -> dict[str, Any]:
    """Settings of a stacked area."""
    fill: dict[str, Any] = {"fillcolor": color, "line": {"width": 0, "shape": "hv"}}
    if pattern(hatch):
        ink = "#222" if color in (plot_style.HELD, plot_style.FREE, plot_style.YELLOW) else "white"
        fill["fillpattern"] = {
            "shape": pattern(hatch),
            "fgcolor": ink,
            "bgcolor": color,
            "size": 7,
            "solidity": 0.25,
        }
    return fill


def pattern(hatch: str) -> str:
    """Plotly's pattern for one of matplotlib's hatches, "" for none."""
    return _PATTERNS.get(hatch[:1], "/" if hatch else "")


def symbol(marker: str) -> str:
    """Plotly's symbol for one of matplotlib's markers."""
    return _SYMBOLS.get(marker, "circle")


def dash(number: int) -> str:
    """The number-th way to draw a line."""
    return _DASHES[number % len(_DASHES)]


def thinned_note(rows: int, most: int, what: str) -> str:
    """A note for readers about `thin`; "" where nothing was left out."""
    if rows <= most:
        return ""
    shown = f"{units.number(rows)} {what} are shown as {units.number(most)}"
    return f"{shown} means of neighbours."


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names as a phrase; of many the first ones."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
