"""Lab 9: which node aggregates whose gradient, and over which path?

The planner is a local search: it changes one worker's node or one path at a time, as long as the
fullest link, switch or server becomes less full. What ties is decided by the next fullest. It ends
when its time is over, or when nothing is fuller than a worker's own link: no plan can do better.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter

import networkx

PATHS = 4  # candidates from one node to another
MOVED = 3  # workers, when the search begins again
SECONDS = 0.7  # of CPU time


def _graph(network: dict) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_weighted_edges_from(network["links"])
    return graph


def _hosts(network: dict) -> set:
    return {*network["workers"], network["ps"]}


def _paths(network: dict, graph: networkx.Graph, source: str, target: str) -> list[list[str]]:
    """The shortest loop-free paths that pass through no host."""
    through = graph.copy()
    through.remove_nodes_from(_hosts(network) - {source, target})
    return list(itertools.islice(networkx.shortest_simple_paths(through, source, target), PATHS))


def _fill(network: dict, plan: dict) -> list[float]:
    """Load of each link, switch and server per Gbit/s of rate: flows divided by capacity."""
    on_link: Counter = Counter()
    into: Counter = Counter()
    at_ps = 0
    for node, path in plan["workers"].values():
        on_link.update(itertools.pairwise(path))
        into[node] += 1
    for switch, path in plan["aggregates"].items():
        if into[switch]:
            on_link.update(itertools.pairwise(path))
            at_ps += 1
    at_ps += into[network["ps"]]
    full = [at_ps / network["ps_ingress"]]
    for a, b, capacity in network["links"]:
        full += [on_link[a, b] / capacity, on_link[b, a] / capacity]
    full += [into[name] / capacity for name, capacity in network["switches"].items() if into[name]]
    return full


def rate(network: dict, plan: dict) -> float:
    """The rate in Gbit/s at which all workers can send at the same time."""
    return 1 / max(_fill(network, plan))


def plan_none(network: dict) -> dict:
    """No switch aggregates: all gradients go to the PS over a shortest path."""
    graph, ps = _graph(network), network["ps"]
    workers = {w: [ps, networkx.shortest_path(graph, w, ps)] for w in network["workers"]}
    return {"workers": workers, "aggregates": {}}


def plan_nearest(network: dict) -> dict:
    """Each worker's own switch aggregates, and sends the sum to the PS over a shortest path."""
    graph = _graph(network)
    own = {w: next(iter(graph[w])) for w in network["workers"]}
    return {
        "workers": {w: [s, [w, s]] for w, s in own.items()},
        "aggregates": {s: networkx.shortest_path(graph, s, network["ps"]) for s in own.values()},
    }


def plan(network: dict) -> dict:
    """The best plan that you can find in a second."""
    graph, ps = _graph(network), network["ps"]
    nodes = [*network["switches"], ps]
    choices = {
        w: [[n, p] for n in nodes for p in _paths(network, graph, w, n)] for w in network["workers"]
    }
    ways = {s: _paths(network, graph, s, ps) for s in network["switches"]}
    rng, end = random.Random(1), time.process_time() + SECONDS

    def cost(candidate: dict) -> list[float]:
        return sorted(_fill(network, candidate), reverse=True)

    least = max(1 / capacity for *ends, capacity in network["links"] if {*ends} & set(choices))
    best = min([plan_nearest(network), plan_none(network)], key=cost)
    start = best
    while cost(best)[0] > least and time.process_time() < end:
        current = {
            "workers": dict(start["workers"]),
            "aggregates": {s: paths[0] for s, paths in ways.items()} | start["aggregates"],
        }
        now, improved = cost(current), True
        while improved and time.process_time() < end:
            improved = False
            moves = [("workers", w, c) for w, each in choices.items() for c in each]
            moves += [("aggregates", s, p) for s, each in ways.items() for p in each]
            rng.shuffle(moves)
            for part, name, new in moves:
                old = current[part][name]
                current[part][name] = new
                then = cost(current)
                if then < now:
                    now, improved = then, True
                else:
                    current[part][name] = old
        if now < cost(best):
            best = current
        moved = rng.sample(list(choices), min(MOVED, len(choices)))
        workers = best["workers"] | {w: rng.choice(choices[w]) for w in moved}
        start = {"workers": workers, "aggregates": best["aggregates"]}
    used = {node for node, _ in best["workers"].values()}
    aggregates = {s: p for s, p in best["aggregates"].items() if s in used}
    return {"workers": best["workers"], "aggregates": aggregates}
