"""The charts of what the jobs took and cost, drawn with Plotly."""

from __future__ import annotations

import pandas as pd
from p4fabric.base import units

from testbed.analysis.data import job_chart_data
from testbed.analysis.data.chart_data import thin
from testbed.analysis.data.job_chart_data import IterationChart, IterationLine
from testbed.analysis.data.run_summary import jobs_left_out, longest_jobs
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.bar_charts import bar_chart
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style

POINTS = 400  # of a job's line
SINGLE = 400  # points of all lines together that get a marker and an interval each; more: a band


def completion_times(per_job: pd.DataFrame, beside: float = 0.0) -> Chart | None:
    """JCT per job; None when none ended. `per_job`: frame "jobs" of data/run_summary.py. `beside`:
    see data/job_chart_data.py, here and below."""
    bars = job_chart_data.jct_by_job(longest_jobs(per_job), beside)
    text = "A bar per job: the time from its start to the end of its last iteration."
    note = _note(per_job)
    return bar_chart("jct", "Job completion time", bars, text, note=note) if bars else None


def ps_packets(per_job: pd.DataFrame) -> Chart | None:
    """PS packets per fragment, per job; None without parameter servers."""
    bars = job_chart_data.ps_packets_by_job(longest_jobs(per_job))
    if bars is None:
        return None
    chart = bar_chart(
        "ps-packets",
        "PS packets per fragment",
        bars,
        "A bar per job: 1 means that every sum was completed in the switch, the number of workers"
        " that none was aggregated.",
        units.ratio,
        _note(per_job),
    )
    chart.spec["layout"]["shapes"] = [parts.vertical_line(1)]
    return chart


def ps_bytes(per_job: pd.DataFrame, beside: float = 0.0) -> Chart | None:
    """Bytes on the parameter servers' links, per job and direction; None without servers."""
    bars = job_chart_data.ps_bytes_by_job(longest_jobs(per_job), beside)
    text = "Two bars per job: bytes on its parameter server's link, in each direction."
    note = _note(per_job)
    return bar_chart("ps-bytes", "Bytes on the PS links", bars, text, note=note) if bars else None


def iterations(chart: IterationChart, points: int = POINTS) -> Chart:
    """Time of each iteration, a line per job of at most `points`, with its interval or the range of
    its workers."""
    most = max(len(line.times) for line in chart.lines)
    single = sum(len(line.times) for line in chart.lines) <= SINGLE
    traces: list[parts.Trace] = []
    for line in chart.lines:
        traces += _iteration_line(line, chart.unit, single, points)
    marks = "bars" if single else "bands"
    meaning = (
        f"{marks} are 95 % confidence intervals over repetitions"
        if chart.repeated
        else f"{marks} reach from the fastest worker to the slowest"
    )
    layout = parts.layout(
        xaxis={"text": "iteration", "dtick": 1 if most <= 20 else None},
        yaxis={"text": f"time ({chart.unit})", "rangemode": "tozero"},
        showlegend=len(chart.lines) > 1,
    )
    return Chart(
        "iterations",
        "Iteration times",
        {"data": traces, "layout": layout},
        f"A line per job: the time of each iteration, as a mean over its workers; {meaning}.",
        parts.thinned_note(most, points, "iterations"),
    )


def _iteration_line(each: IterationLine, unit: str, single: bool, points: int) -> list[parts.Trace]:
    """A job's line: with a marker and an interval for each point if `single`, else on a band, which
    takes a browser two shapes instead of a thousand."""
    job, name, spread = each.job, each.name, thin(each.times, points)
    style = plot_style.job_style(job, name)
    x = [int(number) for number in spread.index]
    line: parts.Trace = {
        "type": "scatter",
        "mode": "lines+markers" if single else "lines",
        "name": name,
        "meta": {"job": job},
        "legendgroup": str(job),
        "x": x,
        "y": parts.numbers(spread["mean"]),
        "line": {"color": style.color, "dash": parts.dash(job), "width": 1.5},
        "hovertemplate": f"{name}, iteration %{{x}}: %{{y}} {unit}<extra></extra>",
    }
    if single:
        line["marker"] = {"symbol": parts.symbol(style.marker), "size": 7}
        line["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": parts.numbers(spread["max"] - spread["mean"]),
            "arrayminus": parts.numbers(spread["mean"] - spread["min"]),
            "thickness": 1,
            "width": 3,
        }
        return [line]
    known = spread.dropna(subset=["min", "max"])
    there = [int(number) for number in known.index]
    band: parts.Trace = {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": {"job": job},
        "legendgroup": str(job),
        "showlegend": False,
        "x": there + there[::-1],
        "y": parts.numbers([*known["min"], *known["max"][::-1]]),
        "fill": "toself",
        "opacity": 0.25,
        "line": {"width": 0},
        "fillcolor": style.color,
        "hoverinfo": "skip",
    }
    return [band, line]


def _note(per_job: pd.DataFrame) -> str:
    chosen = jobs_left_out(per_job)
    return f"Only {chosen}." if chosen else ""
