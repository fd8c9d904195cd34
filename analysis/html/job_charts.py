"""What the jobs took and cost: completion and iteration times, packets at the parameter servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from testbed.analysis.data.run_summary import interval, iteration_times
from testbed.analysis.data.thinning import thin
from testbed.analysis.html import bar_charts
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style, units

if TYPE_CHECKING:
    from testbed.results import Results

JOBS = 64  # with bars of their own
POINTS = 400  # of a job's line
SINGLE = 400  # points of all lines together that get a marker and an interval each; more: a band
JOB_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross", "x", "star", "triangle-down")


def completion_times(per_job: pd.DataFrame) -> Chart | None:
    """JCT per job; None when none ended. `per_job`: frame jobs of
    testbed.analysis.data.run_summary."""
    ended = _some(per_job.dropna(subset=["jct_ns"]))
    if not len(ended):
        return None
    scale, unit = units.time_unit(float(ended["jct_ns"].max()))
    found, groups = bar_charts.of_jobs(ended, "jct_ns", scale)
    return bar_charts.grouped(
        "jct",
        "Job completion time",
        found,
        groups,
        f"JCT ({unit})",
        "A bar per job: the time from its start to the end of its last iteration.",
        bar_charts.worded(unit),
        horizontal=True,
        note=_note(per_job),
    )


def ps_packets(per_job: pd.DataFrame) -> Chart | None:
    """PS packets per fragment, per job; None without parameter servers."""
    known = _some(per_job.dropna(subset=["ps_packets_per_fragment"]))
    if not len(known):
        return None
    found, groups = bar_charts.of_jobs(known, "ps_packets_per_fragment")
    chart = bar_charts.grouped(
        "ps-packets",
        "PS packets per fragment",
        found,
        groups,
        "packets / fragment",
        "A bar per job: 1 means that every sum was completed in the switch; as many as it has"
        " workers, that none was aggregated.",
        units.ratio,
        horizontal=True,
        note=_note(per_job),
    )
    chart.spec["layout"]["shapes"] = [
        {
            "type": "line",
            "x0": 1,
            "x1": 1,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": "#222", "width": 1, "dash": "dot"},
        }
    ]
    return chart


def ps_bytes(per_job: pd.DataFrame) -> Chart | None:
    """Bytes on the parameter servers' links, per job and direction; None without servers."""
    known = _some(per_job.dropna(subset=["ps_link_bytes_in", "ps_link_bytes_out"]))
    if not len(known):
        return None
    largest = float(known[["ps_link_bytes_in", "ps_link_bytes_out"]].max().max())
    scale, unit = units.size_unit(largest)
    groups = [str(rows["name"].iloc[0]) for _, rows in known.groupby("job")]
    directions = (
        ("ps_link_bytes_in", "to the PS", plot_style.BLUE, ""),
        ("ps_link_bytes_out", "from the PS", plot_style.ORANGE, "///"),
    )
    found = [
        bar_charts.Bars(
            title,
            color,
            hatch,
            {
                str(rows["name"].iloc[0]): (rows[column].astype("float64") / scale).tolist()
                for _, rows in known.groupby("job")
            },
        )
        for column, title, color, hatch in directions
    ]
    return bar_charts.grouped(
        "ps-bytes",
        "Bytes on the PS links",
        found,
        groups,
        unit,
        "Two bars per job: bytes on its parameter server's link, in each direction.",
        bar_charts.worded(unit),
        horizontal=True,
        note=_note(per_job),
    )


def iterations(results: Results) -> Chart | None:
    """Time of each iteration, a line per job: the mean over workers and repetitions, with its 95 %
    interval over repetitions where there are three, else from the fastest worker to the slowest."""
    times = iteration_times(results).dropna(subset=["time_ns"])
    if not len(times):
        return None
    scale, unit = units.time_unit(float(times["time_ns"].max()))
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
    repeated = times["repetition"].nunique() > 2
    spreads = {}
    for job, rows in times.groupby("job"):
        spread = rows.groupby("iteration")["time_ns"].agg(["mean", "min", "max"]) / scale
        if repeated:
            means = rows.groupby(["iteration", "repetition"])["time_ns"].mean() / scale
            half = means.groupby("iteration").agg(lambda values: interval(values)[1])
            spread["min"], spread["max"] = spread["mean"] - half, spread["mean"] + half
        spreads[int(job)] = spread
    most = max(map(len, spreads.values()))
    single = sum(map(len, spreads.values())) <= SINGLE
    traces: list[parts.Trace] = []
    for job, spread in spreads.items():
        name = str(names.get(job, job))
        traces += _iteration_line(job, name, thin(spread, POINTS), unit, single)
    marks = "bars" if single else "bands"
    meaning = (
        f"{marks} are 95 % confidence intervals over repetitions"
        if repeated
        else f"{marks} reach from the fastest worker to the slowest"
    )
    layout = parts.layout(
        xaxis={"text": "iteration", "dtick": 1 if most <= 20 else None},
        yaxis={"text": f"time ({unit})", "rangemode": "tozero"},
        showlegend=len(spreads) > 1,
    )
    return Chart(
        "iterations",
        "Iteration times",
        {"data": traces, "layout": layout},
        f"A line per job: how long each iteration took, as a mean over its workers; {meaning}.",
        parts.thinned_note(most, POINTS, "iterations"),
    )


def _iteration_line(
    job: int, name: str, spread: pd.DataFrame, unit: str, single: bool
) -> list[parts.Trace]:
    """A job's line over columns mean, min and max: with a marker and an interval for each point if
    `single`, else on a band, which takes a browser two shapes instead of a thousand."""
    x = [int(number) for number in spread.index]
    line: parts.Trace = {
        "type": "scatter",
        "mode": "lines+markers" if single else "lines",
        "name": name,
        "meta": {"job": job},
        "legendgroup": str(job),
        "x": x,
        "y": parts.numbers(spread["mean"]),
        "line": {"color": plot_style.job_color(job), "dash": parts.dash(job), "width": 1.5},
        "hovertemplate": f"{name}, iteration %{{x}}: %{{y}} {unit}<extra></extra>",
    }
    if single:
        line["marker"] = {"symbol": JOB_SYMBOLS[job % len(JOB_SYMBOLS)], "size": 7}
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
        "fillcolor": plot_style.job_color(job),
        "hoverinfo": "skip",
    }
    return [band, line]


def _some(per_job: pd.DataFrame) -> pd.DataFrame:
    return per_job[per_job["job"] < JOBS]


def _note(per_job: pd.DataFrame) -> str:
    count = per_job["job"].nunique()
    return f"The first {JOBS} of {count} jobs." if count > JOBS else ""
