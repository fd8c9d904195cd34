"""Loop-free paths through switches, shortest first.

Hosts end paths and never forward. Among paths of equal length the order follows that of the
network's links, so that it is the same on every machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache

from testbed.routing.network import Network

Path = tuple[str, ...]


def distances(network: Network, target: str) -> dict[str, int]:
    """Links from each switch, and each host, to a node, over switches only; nodes without a way are
    left out."""
    before: dict[str, list[str]] = {}
    for link in network.links:
        before.setdefault(link.target, []).append(link.source)
    found = {target: 0}
    queue = deque([target])
    while queue:
        node = queue.popleft()
        if node != target and node in network.host:
            continue
        for source in before.get(node, ()):
            if source not in found:
                found[source] = found[node] + 1
                queue.append(source)
    return found


def shortest_path(network: Network, source: str, target: str) -> Path | None:
    """The first of the shortest paths, the one that the routes of testbed/routing/tree.py take;
    None: there is none."""
    hops = _next_hops(network, target)
    path = [source]
    while path[-1] != target:
        if path[-1] not in hops:
            return None
        path.append(hops[path[-1]])
    return tuple(path)


@lru_cache(maxsize=256)
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


def shortest_paths(network: Network, source: str, target: str, most: int) -> list[Path]:
    """Up to `most` loop-free paths from a node to another, shortest first, then in the order of the
    links; [] if there is none.

    Paths of one length are found by a search that goes no further from the target than the length
    leaves room for, one length after the other."""
    away = distances(network, target)
    if source not in away:
        return []
    found: list[Path] = []
    longest = len(network.switches) + 1
    for length in range(away[source], longest + 1):
        for path in _of_length(network, source, target, length, away):
            found.append(path)
            if len(found) == most:
                return found
    return found


def _of_length(
    network: Network, source: str, target: str, length: int, away: dict[str, int]
) -> Iterator[Path]:
    path = [source]
    on_path = {source}

    def extend() -> Iterator[Path]:
        node = path[-1]
        left = length - len(path) + 1
        if node == target:
            if left == 0:
                yield tuple(path)
            return
        if node in network.host and node != source:
            return
        for other in network.after[node]:
            if other not in on_path and away.get(other, length) <= left - 1:
                path.append(other)
                on_path.add(other)
                yield from extend()
                path.pop()
                on_path.discard(other)

    yield from extend()
