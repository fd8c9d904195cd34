"""The topology as a picture: who hangs where, what each link carried, which switch aggregated whose
gradients.

Switches stand above what hangs on them, level by level: a switch that hosts hang on lowest, a spine
above its leaves. Within a level nodes are ordered by what is below them, which keeps most lines
from crossing.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pandas as pd

from testbed.analysis.data.run_summary import spans
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart, TableView
from testbed.analysis.html.memory_charts import first_repetition
from testbed.analysis.style import plot_style, units
from testbed.analysis.tables import report_tables as tables

if TYPE_CHECKING:
    from testbed.results import Results

LABELS = 48  # nodes of one level that get their name written
# Load up to this share of the link's rate: colour, width, dash.
_LOADS = (
    (0.10, "#9ecae1", 1.5, "solid", "below 10 %"),
    (0.50, plot_style.SKY, 2.5, "solid", "10 to 50 %"),
    (0.80, plot_style.BLUE, 4.0, "solid", "50 to 80 %"),
    (9e9, plot_style.VERMILION, 5.0, "dash", "above 80 %"),
)
_UNKNOWN = (plot_style.GREY, 1.5, "dot", "unlimited or not known")


def links(results: Results) -> pd.DataFrame:
    """One row per link of the first repetition: columns a (a switch), b, up_bytes (b to a),
    down_bytes (a to b), up_load, down_load (shares of its rate over the run; NaN where unknown)."""
    rows = first_repetition(results.links)
    span_ns = spans(results)
    span_s = float(span_ns.iloc[0]) / 1e9 if len(span_ns) else float("nan")
    rows = rows.assign(
        load=rows["bytes"].astype("float64") * 8 / (rows["rate_bps"].astype("float64") * span_s)
    )
    down = rows[rows["direction"] == "egress"].rename(
        columns={"node": "a", "neighbour": "b", "bytes": "down_bytes", "load": "down_load"}
    )
    up = rows[rows["direction"] == "ingress"].rename(
        columns={"node": "a", "neighbour": "b", "bytes": "up_bytes", "load": "up_load"}
    )
    both = down.merge(up, on=["a", "b", "port"], suffixes=("", "_up"))
    # A link between two switches has been counted at both ends.
    switches = list(dict.fromkeys(both["a"]))
    rank = {name: number for number, name in enumerate(switches)}
    between = both["b"].isin(switches)
    first = both["a"].map(rank) < both["b"].map(lambda name: rank.get(name, len(rank)))
    kept = both[~between | first]
    columns = ["a", "b", "up_bytes", "down_bytes", "up_load", "down_load"]
    return kept[columns].reset_index(drop=True)


def places(edges: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """(x from 0 to 1, level from 0 for hosts) of every node."""
    switches = set(edges["a"])
    neighbours: dict[str, list[str]] = {}
    for a, b in zip(edges["a"], edges["b"], strict=True):
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    hosts = [name for name in neighbours if name not in switches]
    level = dict.fromkeys(hosts, 0)
    queue = deque(hosts)
    while queue:
        node = queue.popleft()
        for other in neighbours[node]:
            if other not in level:
                level[other] = level[node] + 1
                queue.append(other)
    for name in neighbours:
        level.setdefault(name, 1)
    rows: dict[int, list[str]] = {}
    for name in neighbours:
        rows.setdefault(level[name], []).append(name)
    return _spread(rows, level, neighbours)


def _spread(
    rows: dict[int, list[str]], level: dict[str, int], neighbours: dict[str, list[str]]
) -> dict[str, tuple[float, float]]:
    """Places every row evenly; the lowest in the order in which its switches come, each other one
    by the middle of what hangs below."""
    order: dict[str, float] = {}
    switches = [name for name in neighbours if level[name] == 1]
    hosts = [host for switch in switches for host in neighbours[switch] if level[host] == 0]
    if 0 in rows:
        rows[0] = hosts
    found: dict[str, tuple[float, float]] = {}
    for height in sorted(rows):
        names = rows[height]
        if height > 0:
            for place, name in enumerate(names):
                below = [order[other] for other in neighbours[name] if level[other] == height - 1]
                order[name] = sum(below) / len(below) if below else place / len(names)
            names = sorted(names, key=lambda name: order[name])
        for place, name in enumerate(names):
            order[name] = (place + 0.5) / len(names)
            found[name] = order[name], float(height)
    return found


def topology(results: Results) -> Chart | None:
    """The picture; None where no link was counted."""
    edges = links(results)
    if not len(edges):
        return None
    place = places(edges)
    traces = [*_edges(edges, place), _hovers(edges, place), *_nodes(results, edges, place)]
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
        "Switches above the hosts that hang on them; a line per link, the thicker, the larger the"
        " share of its rate that it carried over the run, in the busier direction.",
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
    return "" if load != load else f", {100 * load:.0f} % of its rate"


def _nodes(
    results: Results, edges: pd.DataFrame, place: dict[str, tuple[float, float]]
) -> list[parts.Trace]:
    switches = list(dict.fromkeys(edges["a"]))
    hosts = first_repetition(results.hosts)
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
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
            "marker": {"symbol": "square", "size": 20, "color": "#444"},
            "hovertext": ["<br>".join([name, *work.get(name, [])]) for name in switches],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
    ]
    for (job, role), some in hosts.groupby(["job", "role"]):
        some = some[some["host"].isin(place)]
        job, title = int(job), f"{names.get(job, job)}: {'PS' if role == 'ps' else 'workers'}"
        traces.append(
            {
                "type": "scatter",
                "mode": mode,
                "name": title,
                "meta": {"job": job},
                "x": [place[name][0] for name in some["host"]],
                "y": [place[name][1] for name in some["host"]],
                "text": some["host"].tolist(),
                "textposition": "bottom center",
                "marker": {
                    "symbol": "star-square" if role == "ps" else "circle",
                    "size": 15 if role == "ps" else 12,
                    "color": plot_style.job_color(job),
                    "line": {"color": "#222", "width": 1.5 if role == "ps" else 0.5},
                },
                "hovertext": [
                    f"{row.host}: {title}"
                    if role == "ps"
                    else f"{row.host}: worker {row.worker} of {names.get(job, job)}"
                    for row in some.itertuples()
                ],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
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
                "marker": {"symbol": "circle-open", "size": 10, "color": plot_style.GREY},
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return traces


_COUNTED = ("allocations", "additions", "completions", "preemptions")


def _counts(results: Results) -> pd.DataFrame:
    """Indexed by switch and job: columns of _COUNTED, of the first repetition; only of jobs that a
    switch has done something for."""
    rows = first_repetition(results.switch_counters)
    rows = rows[rows["counter"].isin(_COUNTED) & rows["job"].notna()]
    table = rows.pivot_table(
        index=["switch", "job"], columns="counter", values="value", aggfunc="sum", fill_value=0
    )
    table = table.reindex(columns=_COUNTED, fill_value=0)
    return table[table.sum(axis=1) > 0]


def _work(results: Results) -> dict[str, list[str]]:
    """What each switch did for whom, in lines."""
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
    found: dict[str, list[str]] = {}
    for (switch, job), row in _counts(results).iterrows():
        text = f"{names.get(job, job)}: {units.number(row['completions'])} sums completed"
        found.setdefault(switch, []).append(text)
    return found


def aggregation_table(results: Results) -> TableView | None:
    """Who aggregates what: a row per switch and job; None where nothing was aggregated."""
    counts = _counts(results)
    if not len(counts):
        return None
    note = "In a tree of switches, a sum that is complete for one of them counts there."
    return TableView(tables.aggregation(results, counts), note=note)
