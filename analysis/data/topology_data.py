"""The positions of a network's nodes in a picture, and the traffic of its links and switches.

Switches stand above what hangs on them, level by level: a switch that hosts hang on lowest, a spine
above its leaves. Within a level nodes are ordered by what is below them, which keeps most lines
from crossing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from testbed.analysis.data.run_summary import first_repetition, naturally, spans

if TYPE_CHECKING:
    from testbed.results import Results

Neighbours = Mapping[str, Iterable[str]]  # of each node; a graph of networkx is one


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


def levels(graph: Neighbours, lowest: Iterable[str]) -> dict[str, int]:
    """The distance in links of each node from the nearest of the nodes `lowest`; of nodes that
    cannot be reached, 0."""
    reached = dict.fromkeys(lowest, 0)
    waiting = deque(reached)
    while waiting:
        node = waiting.popleft()
        for other in graph[node]:
            if other not in reached:
                reached[other] = reached[node] + 1
                waiting.append(other)
    return {node: reached.get(node, 0) for node in graph}


def switch_names(results: Results) -> list[str]:
    """The switches that count what goes over their links, in the order of table links."""
    hosts = set(results.hosts["host"])
    return [name for name in dict.fromkeys(results.links["node"]) if name not in hosts]


def places(edges: pd.DataFrame, switches: Collection[str]) -> dict[str, tuple[float, float]]:
    """(x from 0 to 1, level from 0 for hosts) of each node. `edges`: columns a and b, its nodes."""
    graph: dict[str, dict[str, None]] = {}  # the inner ones are sets that keep their order
    for one, other in edges[["a", "b"]].itertuples(index=False):
        graph.setdefault(one, {})[other] = None
        graph.setdefault(other, {})[one] = None
    level = levels(graph, [name for name in graph if name not in switches])
    return _spread(graph, {name: level[name] or int(name in switches) for name in graph})


def _spread(graph: Neighbours, level: dict[str, int]) -> dict[str, tuple[float, float]]:
    """Places every level evenly: hosts in the order in which their switches come, the nodes of each
    other level by the middle of what hangs below."""
    switches = [name for name in graph if level[name] == 1]
    below = [host for switch in switches for host in graph[switch] if level[host] == 0]
    hosts = list(dict.fromkeys(below))
    found: dict[str, tuple[float, float]] = {}
    for height in range(max(level.values()) + 1):
        names = hosts if height == 0 else [name for name in graph if level[name] == height]
        middle = {}
        for name in names:
            under = [found[other][0] for other in graph[name] if level[other] == height - 1]
            middle[name] = sum(under) / len(under) if under else 1.0
        for place, name in enumerate(sorted(names, key=lambda name: middle[name])):
            found[name] = (place + 0.5) / len(names), float(height)
    return found


_COUNTED = ("allocations", "additions", "completions", "preemptions")


def switch_work(results: Results) -> pd.DataFrame:
    """The work of each switch for each job in the first repetition, indexed by both: columns
    allocations, additions, completions and preemptions. Pairs without any are left out."""
    rows = first_repetition(results.switch_counters)
    rows = rows[rows["counter"].isin(_COUNTED) & rows["job"].notna()]
    table = rows.pivot_table(
        index=["switch", "job"], columns="counter", values="value", aggfunc="sum", fill_value=0
    )
    table = table.reindex(columns=list(_COUNTED), fill_value=0)
    table = table.sort_index(level="switch", key=naturally, sort_remaining=False, kind="stable")
    return table[table.sum(axis=1) > 0]
