"""Loop-free paths through switches, shortest first.

Hosts end paths and never forward. Among paths of equal length the order follows that of the
network's links, so that it is the same on every machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

import networkx

from testbed.routing.network import Network

Path = tuple[str, ...]


def distances(network: Network, target: str) -> dict[str, int]:
    """The number of links from each switch and host to a node, over switches only. Nodes without a
    path are left out."""
    found = {target: 0}
    for node, following in _hops(network, target).items():
        found[node] = found[following] + 1
    return found


def shortest_path(network: Network, source: str, target: str) -> Path | None:
    """The first of the shortest paths, the one that the routes of p4fabric.base.hops take;
    None: there is none."""
    hops = _hops(network, target)
    path = [source]
    while path[-1] != target:
        if path[-1] not in hops:
            return None
        path.append(hops[path[-1]])
    return tuple(path)


def _hops(network: Network, target: str) -> dict[str, str]:
    """The next node from each node that has a path to the target, the nearest nodes first."""
    known = network.next_hops
    if target not in known:
        known[target] = _next_hops(network, target)
    return known[target]


def _next_hops(network: Network, target: str) -> dict[str, str]:
    before: dict[str, list[str]] = {}
    for link in network.links:
        before.setdefault(link.target, []).append(link.source)
    hops: dict[str, str] = {}
    queue = deque([target])
    while queue:
        node = queue.popleft()
        if node != target and node in network.host:
            continue
        for source in before.get(node, ()):
            if source not in hops and source != target:
                hops[source] = node
                queue.append(source)
    return hops


def shortest_paths(network: Network, source: str, target: str, limit: int) -> list[Path]:
    """Up to `limit` loop-free paths from a node to another, shortest first, then in the order of
    the links; [] if there is none."""
    away = distances(network, target)
    if source not in away:
        return []
    found = list(islice(_shortest(network, source, target, away), limit))
    if len(found) == limit:
        return found
    # The next ones by Yen's algorithm, which finds those of the least length again.
    graph = network.switch_graph.copy()
    graph.add_edges_from((source, after) for after in network.after[source])
    graph.add_edges_from(
        link.ends for link in network.links if link.target == target and link.source in graph
    )
    graph.remove_nodes_from([node for node in graph if node not in away])
    shortest = away[source] + 1
    longer = (
        tuple(path)
        for path in networkx.shortest_simple_paths(graph, source, target)
        if len(path) > shortest
    )
    return found + list(islice(longer, limit - len(found)))


def _shortest(network: Network, source: str, target: str, away: dict[str, int]) -> Iterator[Path]:
    """All paths of the least length, each step one nearer to the target."""
    if source == target:
        yield (target,)
        return
    for after in network.after[source]:
        nearer = away.get(after) == away[source] - 1
        if nearer and (after == target or after in network.switch):
            for rest in _shortest(network, after, target, away):
                yield (source, *rest)
