"""The longest round trip between two hosts of an empty network.

Defaults that depend on the network follow from it, such as the queue length from which packets are
marked. It is found by going to the farthest host twice. That is exact for trees and close enough
for other networks, and takes two searches instead of one per host.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.topology import Topology

if TYPE_CHECKING:
    from testbed.experiment.experiment import LinkDirection


def round_trip_ns(
    topology: Topology, directions: Sequence[tuple[LinkDirection, LinkDirection]], switch_ns: int
) -> int:
    """Round-trip time in ns between the two hosts that are farthest apart; 0 with fewer than two
    hosts. `switch_ns`: time through a switch, once. `directions`: both directions of each link."""
    if len(topology.hosts) < 2:
        return 0
    end, _ = _farthest(topology, directions, switch_ns, topology.hosts[0])
    _, total = _farthest(topology, directions, switch_ns, end)
    return total


def _farthest(
    topology: Topology,
    directions: Sequence[tuple[LinkDirection, LinkDirection]],
    switch_ns: int,
    start: str,
) -> tuple[str, int]:
    """The host that is farthest from `start`, and the round trip to it in ns."""
    hosts = set(topology.hosts)
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        spent, node = heapq.heappop(queue)
        if spent > best[node] or node in hosts and node != start:
            continue  # hosts do not forward
        for neighbour, link, _ in topology.ports(node).values():
            total = spent + sum(direction.delay_ns for direction in directions[link])
            total += 2 * switch_ns if neighbour not in hosts else 0
            if total < best.get(neighbour, total + 1):
                best[neighbour] = total
                heapq.heappush(queue, (total, neighbour))
    reached = [host for host in topology.hosts if host in best]
    found = max(reached, key=lambda host: best[host])
    return found, best[found]
