"""How far apart the hosts of a network are: what a round trip takes before any packet waits.

Defaults that must suit a network's speed (how long a queue may get before it is marked) follow from
it. It is found by going to the farthest host twice, which is exact for trees and near enough for
other networks, at the cost of two searches instead of one per host.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.topology import Topology

if TYPE_CHECKING:
    from testbed.experiment.experiment import LinkDirection


def round_trip_ns(
    topology: Topology, ways: Sequence[tuple[LinkDirection, LinkDirection]], switch_ns: int
) -> int:
    """Time in ns there and back between the hosts that are farthest apart, with `switch_ns` for
    each way through a switch; `ways` are both directions of each link. 0 without two hosts."""
    if len(topology.hosts) < 2:
        return 0
    end, _ = _farthest(topology, ways, switch_ns, topology.hosts[0])
    _, total = _farthest(topology, ways, switch_ns, end)
    return total


def _farthest(
    topology: Topology,
    ways: Sequence[tuple[LinkDirection, LinkDirection]],
    switch_ns: int,
    start: str,
) -> tuple[str, int]:
    """The host with the longest shortest round trip from `start`, and that."""
    hosts = set(topology.hosts)
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        spent, node = heapq.heappop(queue)
        if spent > best[node] or node in hosts and node != start:
            continue  # hosts do not forward
        for neighbour, link, _ in topology.ports(node).values():
            total = spent + sum(way.delay_ns for way in ways[link])
            total += 2 * switch_ns if neighbour not in hosts else 0
            if total < best.get(neighbour, total + 1):
                best[neighbour] = total
                heapq.heappush(queue, (total, neighbour))
    reached = [host for host in topology.hosts if host in best]
    found = max(reached, key=lambda host: best[host])
    return found, best[found]
