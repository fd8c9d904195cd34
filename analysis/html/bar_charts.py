"""Bar charts of one run or of several, drawn with Plotly."""

from __future__ import annotations

from collections.abc import Callable

from p4fabric.base import units

from testbed.analysis.data.chart_data import BarChart
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart

LABELLED = 24  # bars that get their value printed


def _reach(bars: BarChart) -> float:
    """End of the longest bar with its interval."""
    found = [bar.estimate for series in bars.series for bar in series.bars]
    halves = (each.shown_half_width if each.shown_half_width > 0 else 0.0 for each in found)
    ends = (each.mean + half for each, half in zip(found, halves, strict=True))
    return max(ends, default=0.0) or 1.0


def bar_chart(
    name: str,
    title: str,
    bars: BarChart,
    text: str,
    show: Callable[[float], str] | None = None,
    note: str = "",
    single: bool = False,
) -> Chart:
    """Lying bars, side by side in groups: means over repetitions, with their 95 % interval from
    three on. `show` formats a value, else it gets three digits and the unit. `single`: each group
    has one bar, which takes the place of all."""
    show = show or (lambda value: f"{units.significant(value)} {bars.unit}".strip())
    labelled = sum(len(series.bars) for series in bars.series) <= LABELLED
    traces: list[parts.Trace] = []
    for number, series in enumerate(bars.series):
        estimates = [bar.estimate for bar in series.bars]
        halves = [estimate.shown_half_width for estimate in estimates]
        style = series.style
        trace: parts.Trace = {
            "type": "bar",
            "orientation": "h",
            "name": style.title,
            "offsetgroup": "0" if single or series.job is not None else str(number),
            "y": [bar.group for bar in series.bars],
            "x": parts.numbers([estimate.mean for estimate in estimates]),
            "marker": parts.bar_marker(style.color, style.hatch),
            "hovertext": [
                f"{style.title}, {bar.group}: {show(bar.estimate.mean)}" for bar in series.bars
            ],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        if labelled:
            trace |= {
                "text": [show(estimate.mean) for estimate in estimates],
                "textposition": "outside",
                "cliponaxis": False,
            }
        if any(half == half for half in halves):
            trace["error_x"] = {
                "type": "data",
                "array": parts.numbers(halves),
                "thickness": 1.2,
                "width": 4,
            }
            # A label beside the bar would lie on the interval.
            if labelled:
                trace |= {"textposition": "inside", "insidetextanchor": "start"}
                trace |= parts.ink_on(style.color)
        if series.job is not None:
            trace["meta"] = {"job": series.job}
        traces.append(trace)
    layout = parts.layout(
        barmode="group",
        showlegend=len(bars.series) > 1 and not single,
        xaxis={"text": bars.axis, "rangemode": "tozero"},
        yaxis={
            "categoryorder": "array",
            "categoryarray": list(bars.groups),
            "showgrid": False,
            "autorange": "reversed",
        },
    )
    if labelled:
        layout["xaxis"]["range"] = [0, 1.32 * _reach(bars)]  # room for the numbers
    rows = max(sum(len(series.bars) for series in bars.series), len(bars.groups))
    return Chart(name, title, {"data": traces, "layout": layout}, text, note, 130 + 26 * rows)
