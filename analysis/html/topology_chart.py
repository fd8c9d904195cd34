"""The picture of the topology, drawn with Plotly: where hosts are attached, what each link carried,
and which switch aggregated whose gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from p4fabric.base import units

from testbed.analysis.data.run_summary import MOST_JOBS, first_repetition, job_names, longest_jobs
from testbed.analysis.data.topology_data import links, places, switch_names, switch_work
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart, TableView
from testbed.analysis.style import plot_style
from testbed.analysis.tables import report_tables as tables

if TYPE_CHECKING:
    from testbed.results import Results

HOVERED = 16  # jobs that are listed for a switch
LABELS = 48  # nodes of one level that get their name written
# Load up to this share of the link's rate: colour, width, dash.
_LOADS = (
    (0.10, "#C0C0C0", 1.5, "solid", "below 10 %"),
    (0.50, "#9C9C9C", 2.5, "solid", "10 to 50 %"),
    (0.80, "#707070", 4.0, "solid", "50 to 80 %"),
    (9e9, "#2E2E2E", 5.0, "dash", "above 80 %"),
)
_UNKNOWN = (plot_style.GREY, 1.5, "dot", "unlimited or not known")


def topology(results: Results) -> Chart | None:
    """The picture; None where no link was counted."""
    edges = links(results)
    if not len(edges):
        return None
    switches = switch_names(results)
    place = places(edges, switches)
    traces = [*_edges(edges, place), _hovers(edges, place), *_nodes(results, switches, place)]
    height = max(level for _, level in place.values())
    layout = parts.layout(
        xaxis={"visible": False, "range": [-0.02, 1.02]},
        yaxis={"visible": False, "range": [-0.45, height + 0.4]},
        hovermode="closest",
    )
    return Chart(
        "topology",
        "Topology and link loads",
        {"data": traces, "layout": layout},
        "Switches above their hosts; a line per link, thicker for a larger share of its rate over"
        " the run, in the busier direction.",
        "Load: bytes over the run against the link's rate, in the busier direction.",
        height=int(200 + 110 * height),
    )


def _edges(edges: pd.DataFrame, place: dict[str, tuple[float, float]]) -> list[parts.Trace]:
    """One trace for each class of load."""
    busier = edges[["up_load", "down_load"]].max(axis=1)
    kinds = [*(each[1:] for each in _LOADS), _UNKNOWN]
    number = busier.map(
        lambda load: next(
            (n for n, each in enumerate(_LOADS) if load <= each[0]),
            len(_LOADS),
        )
    )
    traces = []
    for kind, (color, width, dash, title) in enumerate(kinds):
        some = edges[number == kind]
        if not len(some):
            continue
        x: list[float | None] = []
        y: list[float | None] = []
        for a, b in zip(some["a"], some["b"], strict=True):
            x += [place[a][0], place[b][0], None]
            y += [place[a][1], place[b][1], None]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"load {title}",
                "x": x,
                "y": y,
                "line": {"color": color, "width": width, "dash": dash},
                "hoverinfo": "skip",
            }
        )
    return traces


def _hovers(edges: pd.DataFrame, place: dict[str, tuple[float, float]]) -> parts.Trace:
    """Invisible points in the middle of the links, for the pointer."""
    texts = [
        f"{row.b} to {row.a}: {units.size(row.up_bytes)}{_share(row.up_load)}<br>"
        f"{row.a} to {row.b}: {units.size(row.down_bytes)}{_share(row.down_load)}"
        for row in edges.itertuples()
    ]
    middles = [
        [(place[a][axis] + place[b][axis]) / 2 for a, b in zip(edges["a"], edges["b"], strict=True)]
        for axis in (0, 1)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": parts.numbers(middles[0]),
        "y": parts.numbers(middles[1]),
        "marker": {"size": 18, "opacity": 0},
        "hovertext": texts,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "showlegend": False,
    }


def _share(load: float) -> str:
    return "" if load != load else f", {units.share(load)} of its rate"


def _nodes(
    results: Results, switches: list[str], place: dict[str, tuple[float, float]]
) -> list[parts.Trace]:
    hosts = first_repetition(results.hosts)
    names = job_names(results.jobs)
    crowd = pd.Series([level for _, level in place.values()]).value_counts().max()
    mode = "markers+text" if crowd <= LABELS else "markers"
    work = _work(results)
    traces: list[parts.Trace] = [
        {
            "type": "scatter",
            "mode": mode,
            "name": "switch",
            "x": [place[name][0] for name in switches],
            "y": [place[name][1] for name in switches],
            "text": switches,
            "textposition": "top center",
            "cliponaxis": False,
            "marker": {"symbol": "square", "size": 20, "color": "#444"},
            "hovertext": ["<br>".join([name, *work.get(name, [])]) for name in switches],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
    ]
    traces += _hosts(hosts[hosts["host"].isin(place)], names, place, mode)
    idle = [name for name in place if name not in set(hosts["host"]) | set(switches)]
    if idle:
        traces.append(
            {
                "type": "scatter",
                "mode": mode,
                "name": "host without a role",
                "x": [place[name][0] for name in idle],
                "y": [place[name][1] for name in idle],
                "text": idle,
                "textposition": "bottom center",
                "cliponaxis": False,
                "marker": {"symbol": "circle-open", "size": 10, "color": plot_style.GREY},
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return traces


def _hosts(
    hosts: pd.DataFrame, names: pd.Series, place: dict[str, tuple[float, float]], mode: str
) -> list[parts.Trace]:
    """The hosts of each job in its colour; of many jobs, which use the same hosts in turn, the
    hosts of all in one. `names`: of the jobs."""
    if len(names) > MOST_JOBS:
        groups = [((None, role), some) for role, some in hosts.groupby("role")]
    else:
        groups = list(hosts.groupby(["job", "role"]))
    traces: list[parts.Trace] = []
    for (job, role), some in groups:
        server, owner = role == "ps", "all jobs" if job is None else names.get(job, job)
        title = f"{owner}: {'PS' if server else 'workers'}"
        shown = some["host"].drop_duplicates().tolist()
        if job is None:
            counts = some["host"].value_counts()
            hovers = [f"{name}: {'PS' if server else 'worker'} of {counts[name]}" for name in shown]
        elif server:
            hovers = [f"{name}: {title}" for name in shown]
        else:
            pairs = zip(shown, some["worker"], strict=True)
            hovers = [f"{name}: worker {worker} of {owner}" for name, worker in pairs]
        trace: parts.Trace = {
            "type": "scatter",
            "mode": mode,
            "name": title,
            "x": [place[name][0] for name in shown],
            "y": [place[name][1] for name in shown],
            "text": shown,
            "textposition": "bottom center",
            "cliponaxis": False,
            "marker": {
                "symbol": "star-square" if server else "circle",
                "size": 15 if server else 12,
                "color": "#888888" if job is None else plot_style.job_color(int(job)),
                "line": {"color": "#222", "width": 1.5 if server else 0.5},
            },
            "hovertext": hovers,
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        if job is not None:
            trace["meta"] = {"job": int(job)}
        traces.append(trace)
    return traces


def _work(results: Results) -> dict[str, list[str]]:
    """The work of each switch for its jobs, in lines: for the jobs of which it completed most."""
    names = job_names(results.jobs)
    found: dict[str, list[str]] = {}
    for switch, counts in switch_work(results)["completions"].groupby("switch"):
        most = counts.droplevel("switch").nlargest(HOVERED)
        shown = most.sort_index().items()
        found[switch] = [
            f"{names.get(job, job)}: {units.number(count)} sums completed" for job, count in shown
        ]
        if len(counts) > len(most):
            found[switch].append(f"and {len(counts) - len(most)} more jobs")
    return found


def aggregation_table(results: Results) -> TableView | None:
    """Aggregation by switch and job, a row for each pair; None where nothing was aggregated."""
    counts = switch_work(results)
    shown = longest_jobs(results.jobs)["job"]
    counts = counts[counts.index.isin(shown, level="job")]
    if not len(counts):
        return None
    note = "In a tree of switches, a sum that is complete for one of them counts there."
    return TableView(tables.aggregation(results, counts), note=note)
