"""The picture of the topology, drawn with Plotly: where hosts are attached, what each link carried,
and which switch aggregated whose gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from p4fabric.base import units

from testbed.analysis.data.network_picture import NetworkPicture, of_results
from testbed.analysis.data.run_summary import longest_jobs
from testbed.analysis.data.topology_data import switch_work
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart, TableView
from testbed.analysis.tables import report_tables as tables

if TYPE_CHECKING:
    from testbed.results import Results

# Symbol, size and width of the edge of a node, by its role.
_LOOKS = {
    "switch": ("square", 20, 0.0),
    "worker": ("circle", 12, 0.5),
    "ps": ("star-square", 15, 1.5),
    "host": ("circle", 12, 0.5),
    "idle": ("circle-open", 10, 0.0),
}


def topology(results: Results) -> Chart | None:
    """The picture of a run's network; None where no link was counted."""
    picture = of_results(results)
    return None if picture is None else chart(picture)


def chart(picture: NetworkPicture) -> Chart:
    """The picture of a network with loads."""
    traces = [*_edges(picture), _hovers(picture), *_nodes(picture)]
    layout = parts.layout(
        xaxis={"visible": False, "range": [-0.02, 1.02]},
        yaxis={"visible": False, "range": [-0.45, picture.height + 0.4]},
        hovermode="closest",
    )
    return Chart(
        "topology",
        "Topology and link loads",
        {"data": traces, "layout": layout},
        "Switches above their hosts; a line per link, thicker for a larger share of its rate over"
        " the run, in the busier direction.",
        f"Load: {picture.load}.",
        height=int(200 + 110 * picture.height),
    )


def _edges(picture: NetworkPicture) -> list[parts.Trace]:
    """One trace for each class of load."""
    traces = []
    for kind, some in picture.by_load():
        x: list[float | None] = []
        y: list[float | None] = []
        for a, b in zip(some["a"], some["b"], strict=True):
            for point in picture.way(a, b):
                x.append(point[0])
                y.append(point[1])
            x.append(None)
            y.append(None)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": kind.title,
                "x": x,
                "y": y,
                "line": {"color": kind.color, "width": kind.width, "dash": kind.dash[0]},
                "hoverinfo": "skip",
            }
        )
    return traces


def _hovers(picture: NetworkPicture) -> parts.Trace:
    """Invisible points in the middle of the links, for the pointer."""
    texts = [
        f"{row.b} to {row.a}: {units.size(row.up_bytes)}{_share(row.up_load)}<br>"
        f"{row.a} to {row.b}: {units.size(row.down_bytes)}{_share(row.down_load)}"
        for row in picture.links.itertuples()
    ]
    x, y = picture.middles()
    return {
        "type": "scatter",
        "mode": "markers",
        "x": parts.numbers(x),
        "y": parts.numbers(y),
        "marker": {"size": 18, "opacity": 0},
        "hovertext": texts,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "showlegend": False,
    }


def _share(load: float) -> str:
    return "" if load != load else f", {units.share(load)} of its rate"


def _nodes(picture: NetworkPicture) -> list[parts.Trace]:
    traces: list[parts.Trace] = []
    for some in picture.nodes:
        symbol, size, edge = _LOOKS[some.role]
        marker = {"symbol": symbol, "size": size, "color": some.color}
        trace: parts.Trace = {
            "type": "scatter",
            "mode": "markers+text" if picture.named(some) else "markers",
            "name": some.title,
            "x": [picture.place[name][0] for name in some.names],
            "y": [picture.place[name][1] for name in some.names],
            "text": list(some.names),
            "textposition": "top center" if some.role == "switch" else "bottom center",
            "cliponaxis": False,
            "marker": marker | ({"line": {"color": "#222", "width": edge}} if edge else {}),
            "hovertext": list(some.hovers),
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        if some.job is not None:
            trace["meta"] = {"job": some.job}
        traces.append(trace)
    return traces


def aggregation_table(results: Results) -> TableView | None:
    """Aggregation by switch and job, a row for each pair; None where nothing was aggregated."""
    counts = switch_work(results)
    shown = longest_jobs(results.jobs)["job"]
    counts = counts[counts.index.isin(shown, level="job")]
    if not len(counts):
        return None
    note = "In a tree of switches, a sum that is complete for one of them counts there."
    return TableView(tables.aggregation(results, counts), note=note)
