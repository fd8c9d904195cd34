"""The charts of a sweep's points side by side: each kind of chart once, with a small one per point.

They are those of a run's page, in fewer steps, since each has a quarter of the width and a page may
have dozens. What is to be compared has the same scale in all of them; the axes of memory, whose
size is often what was varied, reach to the size that a point has. Of a point's switches the one
that aggregated most is shown, as the page of the point shows all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.analysis.data.job_chart_data import iteration_lines
from testbed.analysis.data.run_summary import summary
from testbed.analysis.data.sweep_data import Point
from testbed.analysis.html import html_page as page
from testbed.analysis.html import job_charts, measure_charts, memory_charts, topology_chart
from testbed.analysis.html.timeline_chart import timeline

if TYPE_CHECKING:
    from testbed.results import Results

POINTS = 40  # that get charts
STEPS = 100  # of an area or line over time
MARKS = 300  # of a timeline; more: it is painted, in as many columns as STEPS
HEIGHT = 190  # in pixels; of bars and timelines less or more, by their rows

# Kind: its title, the axes that have the same scale for all points, and what it shows.
KINDS = {
    "jct": ("Job completion time", "x", "A bar per job, from its start to its end"),
    "iterations": ("Iteration times", "xy", "A line per job: the time of each iteration"),
    "measure": ("Measures", "xy", "Measures reported by programs, over time"),
    "topology": ("Link loads", "", "The network; thicker links have more load"),
    "timeline": ("Worker timelines", "x", "A row per worker: computing above communicating"),
    "states": ("Aggregators by state", "x", "Aggregators filling, held and free, over time"),
    "owners": ("Aggregators by job", "x", "Aggregators that each job has in use, over time"),
    "pool": (
        "Places in the pool",
        "x",
        "Aggregators in use, by their place in the pool, over time",
    ),
    "ps-packets": (
        "PS packets per fragment",
        "x",
        "A bar per job; 1: switches completed all sums",
    ),
    "ps-bytes": ("Bytes on the PS links", "x", "Two bars per job, one for each direction"),
    "events": ("Switch events", "xy", "Events of the P4 program per second"),
}


def sections(points: Sequence[tuple[Point, str, str]]) -> list[page.Section]:
    """A section for each kind of chart that one of the points has; the first one is open. points:
    those that have finished, each with what it is called and where its page is ("": nowhere)."""
    found: dict[str, list[page.Chart]] = {}
    runs = [point.results for point, _, _ in points[:POINTS] if point.results is not None]
    largest = _largest(runs)
    for results, (point, title, link) in zip(runs, points, strict=False):
        for chart in _charts(results, largest):
            small = _small(chart, f"{chart.name}-{point.key}", title, link)
            found.setdefault(_kind(chart), []).append(small)
    left_out = len(points) - POINTS
    note = f"The first {POINTS} points; {left_out} more are in the table." if left_out > 0 else ""
    return [
        page.Section(
            f"all-{kind}",
            title,
            [_grid(kind, found[kind], shared, f"{text}; a chart per point.", note)],
            folded=number > 0,
        )
        for number, (kind, (title, shared, text)) in enumerate(
            (kind, said) for kind, said in KINDS.items() if kind in found
        )
    ]


def _largest(runs: Iterable[Results]) -> dict[str, float]:
    """The largest values of all points, which decide about the unit of all charts of a kind."""
    columns = ("jct_ns", "iteration_max_ns", "ps_link_bytes_in", "ps_link_bytes_out")
    jobs = [summary(results)["jobs"] for results in runs]
    return {
        column: max(_known(each[column].astype("float64").max() for each in jobs), default=0.0)
        for column in columns
    }


def _charts(results: Results, largest: Mapping[str, float]) -> Iterator[page.Chart]:
    """The charts of a run's page, in fewer steps. largest: see `_largest`."""
    jobs = summary(results)["jobs"]
    lines = iteration_lines(results, largest["iteration_max_ns"])
    in_bytes = max(largest["ps_link_bytes_in"], largest["ps_link_bytes_out"])
    drawn: list[page.Chart | None] = []
    if len(jobs):
        drawn += [job_charts.completion_times(jobs, largest["jct_ns"])]
        drawn += [job_charts.ps_packets(jobs), job_charts.ps_bytes(jobs, in_bytes)]
    if lines:
        drawn.append(job_charts.iterations(lines, STEPS))
    drawn += measure_charts.measures(results, STEPS)
    if len(results.links):
        drawn.append(topology_chart.topology(results))
    if len(results.iterations):
        drawn.append(timeline(results, MARKS, STEPS))
    if len(results.memory):
        switch = memory_charts.switches(results)[0]
        drawn += [
            memory_charts.by_state(results, switch, STEPS),
            memory_charts.by_job(results, switch, STEPS),
            memory_charts.heat_map(results, switch, STEPS),
            memory_charts.events(results, switch, STEPS),
        ]
    yield from (chart for chart in drawn if chart is not None)


def _kind(chart: page.Chart) -> str:
    """The kind of a chart by its name, `states-s1` for instance."""
    return next(kind for kind in KINDS if chart.name == kind or chart.name.startswith(f"{kind}-"))


def _small(chart: page.Chart, name: str, title: str, link: str) -> page.Chart:
    """The chart without its legend and with small margins. `title`: of the point."""
    layout = chart.spec["layout"]
    layout = layout | {
        "showlegend": False,
        "font": layout["font"] | {"size": 11},
        "margin": {"l": 40, "r": 10, "t": 8, "b": 32},
    }
    rows = len(layout["yaxis"].get("tickvals", layout["yaxis"].get("categoryarray", ())))
    height = 60 + 16 * min(max(rows, 2), 16) if rows else HEIGHT
    data = [_plain(trace) for trace in chart.spec["data"]]
    return replace(
        chart,
        name=name,
        title=f"{title}: {chart.title}" if _kind(chart) == "measure" else title,
        spec={"data": data, "layout": layout},
        height=height,
        link=link,
    )


def _plain(trace: dict[str, Any]) -> dict[str, Any]:
    """A trace without the scale of its colours, for which there is no room, and without what only a
    chart with switches for jobs needs."""
    trace = {key: value for key, value in trace.items() if key not in ("colorbar", "meta")}
    return trace | {"showscale": False} if trace["type"] == "heatmap" else trace


def _grid(
    kind: str, charts: Sequence[page.Chart], shared: str, text: str, note: str
) -> page.Multiples:
    """Charts of one kind with the same scale on the `shared` axes, and one legend for all."""
    for axis in (f"{each}axis" for each in shared):
        alike: dict[str, list[page.Chart]] = {}
        for chart in charts:  # each of several measures has an axis of its own
            title = chart.spec["layout"][axis]["title"].get("text", "")
            alike.setdefault(title, []).append(chart)
        for some in alike.values():
            ends = [_ends(chart, axis[0]) for chart in some]
            low, high = min(low for low, _ in ends), max(high for _, high in ends)
            if high > low:
                widest = some[[high for _, high in ends].index(high)].spec["layout"][axis]
                for chart in some:
                    chart.spec["layout"][axis] = widest | {"range": [low, high]}
    colors: dict[str, str] = {}
    for chart in charts:
        for trace in chart.spec["data"]:
            seen = trace.get("showlegend", True) and trace.get("visible") != "legendonly"
            if trace.get("name") and seen and _color(trace):
                colors.setdefault(trace["name"], _color(trace))
    notes = dict.fromkeys(chart.note for chart in charts if chart.note)
    if len(notes) > 1:
        notes = dict.fromkeys(["Long data are thinned."])
    return page.Multiples(
        f"all-{kind}", charts, tuple(colors.items()), " ".join([text, *notes, note]).strip()
    )


def _ends(chart: page.Chart, axis: str) -> tuple[float, float]:
    """The smallest and the largest number of a chart on an axis; 0 is on it."""
    ends: list[float] = [0.0]
    for trace in chart.spec["data"]:
        if trace.get("visible") == "legendonly" or (trace["type"] == "heatmap" and axis == "y"):
            continue
        values = np.array(_known(trace.get(axis)))
        for more in (trace.get("base") if axis == "x" else None, trace.get(f"error_{axis}")):
            added = more["array"] if isinstance(more, dict) else more
            values = values + (np.array(_known(added)) if added else 0.0)
        beside = trace["type"] == "bar" and "text" in trace  # its number stands beside a bar
        ends.append(float(values.max(initial=0.0)) * (1.3 if beside else 1.04))
        ends.append(float(values.min(initial=0.0)) * 1.04)
    return min(ends), max(ends)


def _known(values: Iterable[Any] | None) -> list[float]:
    """The numbers among values, 0 for what is not known."""
    return [
        float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
        for value in values or ()
    ]


def _color(trace: dict[str, Any]) -> str:
    """The colour of the trace in a legend; "": it has none."""
    places = (
        (trace, "fillcolor"),
        (trace.get("marker", {}), "color"),
        (trace.get("line", {}), "color"),
    )
    return next((str(each[key]) for each, key in places if each.get(key)), "")
