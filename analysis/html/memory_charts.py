"""The charts of a switch's aggregators over time, drawn with Plotly: by state, by the job that owns
them, by place in the pool, and what happened to them. Shares of time, which depend on no sampling,
are in the printed table beside these charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.analysis.data import memory_chart_data
from testbed.analysis.data.chart_data import AreaChart
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from testbed.results import Results

SAMPLES = 1200  # steps of an area
RATES = 300  # steps of a line of events
SWITCHES = 6  # with charts of their own
MARKS = 250  # of preemptions; more would be one bar of colour
# What shows trouble; the other events are switched on by a click.
SHOWN_EVENTS = ("preemptions", "collisions", "downgrades", "reminders", "flushes", "ghosts")


def switches(results: Results) -> list[str]:
    """The switches that get charts: those that aggregated most."""
    return memory_chart_data.busiest_switches(results, SWITCHES)


def by_state(results: Results, switch: str, steps: int = SAMPLES) -> Chart:
    """Filling, held and free aggregators as areas of at most `steps`, with a mark wherever
    aggregators were preempted."""
    areas = memory_chart_data.aggregators_by_state(results, switch, steps)
    text = "aggregators filling, held and free."
    chart = _area_chart(f"states-{switch}", areas, "states", text, 280)
    counts = memory_chart_data.preemptions(results, switch, min(MARKS, steps))
    if len(counts):
        chart.spec["data"].append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "preemptions since the previous mark",
                "x": parts.seconds(counts.index),
                "y": [1.04 * areas.capacity] * len(counts),
                "marker": {"symbol": "triangle-down", "size": 7, "color": plot_style.VERMILION},
                "customdata": [int(count) for count in counts],
                "hovertemplate": "%{customdata} preemptions<extra></extra>",
            }
        )
    return chart


def by_job(results: Results, switch: str, steps: int = SAMPLES) -> Chart | None:
    """Aggregators in use as areas of at most `steps`, by the job that owns them; None where jobs
    are not told apart."""
    areas = memory_chart_data.aggregators_by_job(results, switch, steps)
    text = "aggregators in use by each job."
    return _area_chart(f"owners-{switch}", areas, "jobs", text, 240) if areas else None


def _area_chart(name: str, chart: AreaChart, stack: str, text: str, height: int) -> Chart:
    """Stacked areas over time, or a stacked bar for each of few samples. `stack` names them for
    Plotly."""
    time = parts.seconds(chart.time_ns)
    width = parts.numbers([chart.bar_ns / 1e9])[0]
    traces: list[parts.Trace] = []
    for area in chart.areas:
        look: parts.Trace = {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": stack,
            **parts.area_fill(area.color, area.hatch),
        }
        if chart.sparse:
            marker = parts.bar_marker(area.color, area.hatch)
            look = {"type": "bar", "width": width, "marker": marker}
        traces.append(
            look
            | {
                "name": area.title,
                "x": time,
                "y": parts.numbers(area.heights),
                "hovertemplate": f"{area.title}: %{{y}}<extra></extra>",
            }
        )
        if area.job is not None:
            traces[-1]["meta"] = {"job": area.job}
    layout = parts.layout(
        barmode="stack",
        xaxis=parts.time_axis(time[-1], rangemode="tozero"),
        yaxis={"text": "aggregators", "range": [0, 1.09 * chart.capacity]},
        hovermode="x unified",
    )
    kind = "Bars at the times of samples" if chart.sparse else "Areas over time"
    return Chart(
        name,
        chart.title,
        {"data": traces, "layout": layout},
        f"{kind}: {text}",
        f"{chart.note}.",
        height,
        over_time=True,
    )


def heat_map(results: Results, switch: str, steps: int | None = None) -> Chart | None:
    """Share of aggregators in use by place in the pool and time, at all moments or in `steps`; None
    where it was not sampled."""
    pool = memory_chart_data.pool_map(results, switch, steps)
    if pool is None:
        return None
    note = f"{len(pool.first)} blocks of neighbouring aggregators, {len(pool.time_ns)} moments."
    if pool.seen < pool.capacity:
        note += (
            f" {pool.seen} of {pool.capacity} aggregators are sampled, the first ones of every"
            " block."
        )
    held = ", %{customdata} % held" if pool.held.any() else ""
    trace: parts.Trace = {
        "type": "heatmap",
        "x": parts.seconds(pool.time_ns),
        "y": [*pool.first.tolist(), pool.capacity],  # edges
        "z": [parts.numbers(row, 4) for row in pool.used],
        "zmin": 0,
        "zmax": 100,
        "colorscale": [[0, "#f7f7f7"], [1, "#1a1a1a"]],
        # Above the map, whose right edge is that of the other charts.
        "colorbar": {
            "title": {"text": "in use (%)", "side": "top"},
            "orientation": "h",
            "thickness": 10,
            "len": 0.45,
            "x": 0,
            "xanchor": "left",
            "y": 1.0,
            "yanchor": "bottom",
        },
        "hovertemplate": f"around aggregator %{{y}}, at %{{x}}: %{{z}} % in use{held}"
        "<extra></extra>",
    }
    if held:
        trace["customdata"] = [parts.numbers(row, 4) for row in pool.held]
    layout = parts.layout(
        xaxis=parts.time_axis(trace["x"][-1]),
        yaxis={"text": "aggregator"},
        margin={"l": 60, "r": 16, "t": 58, "b": 48},  # room for the scale above the map
    )
    return Chart(
        name=f"pool-{switch}",
        title=f"{switch}: aggregators in use by place in the pool",
        spec={"data": [trace], "layout": layout},
        text="Heat map: places in the pool from bottom to top, time from left to right; the more a"
        " place stands out from the page, the more of its aggregators are in use.",
        note=note,
        height=310,
        over_time=True,
    )


def events(results: Results, switch: str, steps: int = RATES) -> Chart | None:
    """The rate of each event over time; None where it was not sampled. Only the rarer
    ones that mean trouble are shown at first, if there are any."""
    found = memory_chart_data.event_rates(results, switch, steps)
    if found is None:
        return None
    time = parts.seconds(found.time_ns)
    shown = found.rates.keys() & SHOWN_EVENTS or found.rates.keys()
    traces = []
    for number, (event, rates) in enumerate(found.rates.items()):
        title = event.replace("_", " ")
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": title,
                "x": time,
                "y": parts.numbers(rates, 4),
                "line": {
                    "color": plot_style.event_color(event),
                    "dash": parts.dash(number),
                    "shape": "hvh",
                    "width": 1.5,
                },
                "visible": True if event in shown else "legendonly",
                "hovertemplate": title + ": %{y} / s<extra></extra>",
            }
        )
    layout = parts.layout(
        xaxis=parts.time_axis(float(found.time_ns[-1]) / 1e9, rangemode="tozero"),
        yaxis={"text": "events / s", "rangemode": "tozero"},
        hovermode="x unified",
    )
    return Chart(
        name=f"events-{switch}",
        title=f"{switch}: events per second",
        spec={"data": traces, "layout": layout},
        text="Lines over time: events of the switch's program per second.",
        note="Click a name in the legend to show or hide its line.",
        height=340,
        over_time=True,
    )
