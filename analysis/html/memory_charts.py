"""A switch's aggregators over time: by state, by the job that owns them, by place in the pool, and
what happened to them.

All of it is sampled (tables memory, pool, events). Shares of time, which depend on no sampling, are
in the printed table beside these charts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from testbed.analysis.data.thinning import thin
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style
from testbed.results.counters import EVENTS

if TYPE_CHECKING:
    from testbed.results import Results

SAMPLES = 1200  # steps of an area
SWITCHES = 6  # with charts of their own
JOBS = 10  # that an area can tell apart
MARKS = 250  # of preemptions; more would be one bar of colour
MARKED = ("preemptions", "preemptions_held")
# What shows trouble; the other events are switched on by a click.
SHOWN_EVENTS = ("preemptions", "collisions", "downgrades", "reminders", "flushes", "ghosts")


def switches(results: Results) -> list[str]:
    """The switches that get charts: those that aggregated most."""
    counted = results.switch_counters
    counted = counted[counted["counter"].isin(["allocations", "additions", "completions"])]
    busy = counted.groupby("switch")["value"].sum().astype("float64")
    names = list(dict.fromkeys(results.memory["switch"]))
    return sorted(names, key=lambda name: (-busy.get(name, 0.0), names.index(name)))[:SWITCHES]


def first_repetition(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first repetition that a table knows."""
    return table[table["repetition"] == table["repetition"].min()]


def by_state(results: Results, switch: str) -> Chart:
    """Filling, held and free aggregators as areas, with a mark wherever aggregators were
    preempted."""
    rows = _samples(results, switch)
    whole = rows[rows["job"].isna()] if rows["job"].isna().any() else rows
    capacity = int(rows["capacity"].max())
    totals = whole.groupby("time_ns")[["occupied", "held"]].sum().astype("float64")
    note = parts.thinned_note(len(totals), SAMPLES, "samples")
    totals = thin(totals, SAMPLES)
    totals["free"] = capacity - totals["occupied"] - totals["held"]
    time = parts.seconds(totals.index)
    states = (
        ("occupied", "filling", plot_style.FILLING, ""),
        ("held", "held", plot_style.HELD, "///"),
        ("free", "free", plot_style.FREE, ""),
    )
    traces: list[parts.Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": title,
            "stackgroup": "states",
            "x": time,
            "y": parts.numbers(totals[column]),
            **parts.area_fill(color, hatch),
            "hovertemplate": f"{title}: %{{y}}<extra></extra>",
        }
        for column, title, color, hatch in states
    ]
    traces += _preemption_marks(results, switch, capacity)
    return Chart(
        name=f"states-{switch}",
        title=f"{switch}: {capacity} aggregators by state",
        spec={"data": traces, "layout": _layout(capacity, time[-1])},
        text="Areas over time: how many aggregators are filling, held and free.",
        note=note,
        height=280,
        over_time=True,
    )


def _preemption_marks(results: Results, switch: str, capacity: int) -> list[parts.Trace]:
    """One mark for each span between two samples in which aggregators were preempted, or for some
    neighbouring spans."""
    happened = increments(results, switch)
    found = happened[happened["event"].isin(MARKED)]
    if not len(found):
        return []
    counts = found.groupby("time_ns")["count"].sum()
    thinned = counts
    if len(counts) > MARKS:
        step = -(-len(counts) // MARKS)
        groups = np.arange(len(counts)) // step
        thinned = counts.groupby(groups).sum()
        thinned.index = counts.index.to_series().groupby(groups).last()
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "preemptions since the mark before",
            "x": parts.seconds(thinned.index),
            "y": [1.04 * capacity] * len(thinned),
            "marker": {"symbol": "triangle-down", "size": 7, "color": plot_style.VERMILION},
            "customdata": [int(count) for count in thinned],
            "hovertemplate": "%{customdata} preemptions<extra></extra>",
        }
    ]


def by_job(results: Results, switch: str) -> Chart | None:
    """Aggregators in use as areas, by the job that owns them; None where jobs are not told
    apart."""
    rows = _samples(results, switch)
    rows = rows[rows["job"].notna()]
    if not len(rows):
        return None
    capacity = int(rows["capacity"].max())
    used = rows.assign(used=rows["occupied"] + rows["held"])
    table = used.pivot_table(
        index="time_ns", columns="job", values="used", aggfunc="sum", fill_value=0
    )
    note = parts.thinned_note(len(table), SAMPLES, "samples")
    table = thin(table.astype("float64"), SAMPLES)
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
    shown = list(table.columns)
    if len(shown) > JOBS:
        shown = sorted(table.sum().nlargest(JOBS - 1).index)
    time = parts.seconds(table.index)
    traces = [_job_area(time, table[job], int(job), str(names.get(job, job))) for job in shown]
    if len(shown) < len(table.columns):
        rest = table.drop(columns=shown)
        trace = _job_area(time, rest.sum(axis=1), 0, f"{rest.shape[1]} others")
        del trace["meta"]
        traces.append(trace | parts.area_fill(plot_style.EDGE))
    return Chart(
        name=f"owners-{switch}",
        title=f"{switch}: aggregators in use by job",
        spec={"data": traces, "layout": _layout(capacity, time[-1])},
        text="Areas over time: how many aggregators each job has in use.",
        note=note,
        height=240,
        over_time=True,
    )


def _job_area(time: list, values: pd.Series, job: int, name: str) -> parts.Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "stackgroup": "jobs",
        "meta": {"job": job},
        "x": time,
        "y": parts.numbers(values),
        **parts.area_fill(plot_style.job_color(job), plot_style.job_hatch(job)),
        "hovertemplate": f"{name}: %{{y}}<extra></extra>",
    }


def heat_map(results: Results, switch: str) -> Chart | None:
    """Share of aggregators in use by place in the pool and time; None where it was not sampled."""
    rows = first_repetition(results.pool)
    rows = rows[rows["switch"] == switch]
    if not len(rows):
        return None
    rows = rows.assign(
        used=(100.0 * (rows["filling"] + rows["held"]) / rows["seen"]).round(1),
    )
    table = rows.pivot_table(index="first", columns="time_ns", values="used", aggfunc="mean")
    held = rows.assign(share=(100.0 * rows["held"] / rows["seen"]).round(1)).pivot_table(
        index="first", columns="time_ns", values="share", aggfunc="mean"
    )
    partial = int(rows.groupby("first")["seen"].max().sum())
    capacity = int(_samples(results, switch)["capacity"].max())
    note = f"{len(table)} blocks of neighbouring aggregators, {table.shape[1]} moments."
    if partial < capacity:
        note += (
            f" {partial} of {capacity} aggregators are looked at, the first ones of every block."
        )
    trace: parts.Trace = {
        "type": "heatmap",
        "x": parts.seconds(table.columns),
        "y": [int(first) for first in table.index],
        "z": [parts.numbers(row, 4) for row in table.to_numpy()],
        "zmin": 0,
        "zmax": 100,
        "colorscale": [[0, "#f7f7f7"], [0.5, plot_style.SKY], [1, "#08306b"]],
        "colorbar": {"title": {"text": "in use (%)"}, "thickness": 12},
        "hovertemplate": "from aggregator %{y} on, at %{x}: %{z} % in use<extra></extra>",
    }
    if held.to_numpy().any():
        trace["customdata"] = [parts.numbers(row, 4) for row in held.to_numpy()]
        trace["hovertemplate"] = (
            "from aggregator %{y} on, at %{x}: %{z} % in use, %{customdata} % held<extra></extra>"
        )
    layout = parts.layout(
        xaxis=parts.time_axis(trace["x"][-1]),
        yaxis={"text": "aggregator"},
    )
    return Chart(
        name=f"pool-{switch}",
        title=f"{switch}: where in the pool aggregators are in use",
        spec={"data": [trace], "layout": layout},
        text="Heat map: places in the pool from bottom to top, time from left to right; the darker,"
        " the more aggregators there are in use.",
        note=note,
        height=300,
        over_time=True,
    )


def increments(results: Results, switch: str) -> pd.DataFrame:
    """Columns time_ns, event, count: how often an event happened since the sample before."""
    rows = first_repetition(results.events)
    rows = rows[rows["switch"] == switch].sort_values(["event", "time_ns"])
    before = rows.groupby("event")["value"].shift(1).fillna(0).astype("int64")
    # A switch that was restarted counts anew.
    count = (rows["value"] - before).where(rows["value"] >= before, rows["value"])
    return rows.assign(count=count)[["time_ns", "event", "count"]]


def events(results: Results, switch: str) -> Chart | None:
    """How many of each event per second, over time; None where it was not sampled. Only the rarer
    ones that mean trouble are shown at first."""
    happened = increments(results, switch)
    if not len(happened):
        return None
    samples = sorted(
        first_repetition(results.memory).query("switch == @switch")["time_ns"].unique()
    )
    bins = samples[:: -(-len(samples) // 300)]
    lengths_s = pd.Series(bins).diff().to_numpy()[1:] / 1e9
    traces = []
    present = set(happened["event"])
    for number, event in enumerate(name for name in EVENTS if name in present):
        some = happened[happened["event"] == event]
        place = pd.cut(some["time_ns"], bins, labels=False)
        counts = some.groupby(place)["count"].sum().reindex(range(len(bins) - 1), fill_value=0)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": event.replace("_", " "),
                "x": parts.seconds(bins[1:]),
                "y": parts.numbers(counts.to_numpy() / lengths_s, 4),
                "line": {
                    "color": plot_style.JOB_COLORS[number % len(plot_style.JOB_COLORS)],
                    "dash": parts.dash(number // len(plot_style.JOB_COLORS) + number % 2),
                    "shape": "hvh",
                    "width": 1.5,
                },
                "visible": True if event in SHOWN_EVENTS else "legendonly",
                "hovertemplate": event.replace("_", " ") + ": %{y} / s<extra></extra>",
            }
        )
    layout = parts.layout(
        xaxis=parts.time_axis(bins[-1] / 1e9, rangemode="tozero"),
        yaxis={"text": "events / s", "rangemode": "tozero"},
        hovermode="x unified",
    )
    return Chart(
        name=f"events-{switch}",
        title=f"{switch}: what happened, per second",
        spec={"data": traces, "layout": layout},
        text="Lines over time: how often each event of the switch's program happened per second.",
        note="A name in the legend switches its line on and off.",
        height=340,
        over_time=True,
    )


def _samples(results: Results, switch: str) -> pd.DataFrame:
    rows = first_repetition(results.memory)
    return rows[rows["switch"] == switch]


def _layout(capacity: int, last: float | None) -> dict[str, Any]:
    return parts.layout(
        xaxis=parts.time_axis(last, rangemode="tozero"),
        yaxis={"text": "aggregators", "range": [0, 1.09 * capacity]},
        hovermode="x unified",
    )
