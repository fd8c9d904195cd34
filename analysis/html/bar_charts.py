"""Bars of one run or of several, with an interval and a mark per repetition where there are some.

What is drawn as a bar is a mean over repetitions; the interval is its 95 % confidence interval
(Student's t), as in the printed tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from testbed.analysis.data.run_summary import interval
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style, units

LABELLED = 24  # bars that get their value printed


@dataclass(frozen=True)
class Bars:
    """Bars of one colour: `samples` per group, a value for each repetition."""

    title: str
    color: str
    hatch: str
    samples: Mapping[str, Sequence[float]]
    job: int | None = None


def grouped(
    name: str,
    title: str,
    bars: Sequence[Bars],
    groups: Sequence[str],
    axis: str,
    text: str,
    show: Callable[[float], str],
    horizontal: bool = False,
    note: str = "",
) -> Chart:
    """Bars side by side in groups. The samples are in the axis' unit; `show` words a value."""
    traces: list[parts.Trace] = []
    along, across = ("x", "y") if horizontal else ("y", "x")
    labelled = sum(len(each.samples) for each in bars) <= LABELLED
    for number, each in enumerate(bars):
        shown = [group for group in groups if len(pd.Series(each.samples.get(group, ())).dropna())]
        samples = [pd.Series(each.samples[group], dtype="float64").dropna() for group in shown]
        means = [interval(values)[0] for values in samples]
        halves = [interval(values)[1] if len(values) > 2 else float("nan") for values in samples]
        trace: parts.Trace = {
            "type": "bar",
            "name": each.title,
            "offsetgroup": str(number) if each.job is None else "0",
            across: shown,
            along: parts.numbers(means),
            "marker": parts.bar_marker(each.color, each.hatch),
            "hovertext": [
                f"{each.title}, {group}: {show(mean)}"
                for group, mean in zip(shown, means, strict=True)
            ],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        if labelled:
            trace |= {
                "text": [show(mean) for mean in means],
                "textposition": "outside",
                "cliponaxis": False,
            }
        if any(half == half for half in halves):
            trace[f"error_{along}"] = {
                "type": "data",
                "array": parts.numbers(halves),
                "thickness": 1.2,
                "width": 4,
            }
            # A label beside the bar would lie on the interval.
            trace |= {"textposition": "inside", "insidetextanchor": "start"} if labelled else {}
        if each.job is not None:
            trace["meta"] = {"job": each.job}
        if horizontal:
            trace["orientation"] = "h"
        traces.append(trace)
    axes = {
        f"{along}axis": {"text": axis, "rangemode": "tozero"},
        f"{across}axis": {
            "categoryorder": "array",
            "categoryarray": list(groups),
            "showgrid": False,
        },
    }
    if horizontal:
        axes["yaxis"]["autorange"] = "reversed"
    layout = parts.layout(barmode="group", showlegend=len(bars) > 1, **axes)
    rows = max(sum(len(each.samples) for each in bars), len(groups))
    height = 130 + 26 * rows if horizontal else 320
    return Chart(name, title, {"data": traces, "layout": layout}, text, note, height)


def of_jobs(per_job: pd.DataFrame, column: str, scale: float = 1.0) -> tuple[list[Bars], list[str]]:
    """(one set of bars per job, the groups): a bar per job of `column` of frame jobs / scale."""
    bars, groups = [], []
    for job, rows in per_job.groupby("job"):
        job, name = int(job), str(rows["name"].iloc[0])
        values = (rows[column].astype("float64") / scale).tolist()
        color, hatch = plot_style.job_color(job), plot_style.job_hatch(job)
        bars.append(Bars(name, color, hatch, {name: values}, job))
        groups.append(name)
    return bars, groups


def worded(unit: str) -> Callable[[float], str]:
    """Three significant digits and a unit."""
    return lambda value: f"{units.significant(value)} {unit}".strip()
