"""Shortest-path routes and the aggregation tree of a job.

Every switch forwards towards a host along a shortest path; among equals the neighbour that comes
first in the topology's order wins, so that routes are the same on every machine. The routes of all
switches towards a job's parameter server form a tree; the job's workers pick its branches.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from testbed.errors import UserError
from testbed.topology import Topology


def next_hops(topology: Topology, target: str) -> dict[str, tuple[int, str]]:
    """For each switch that can reach the node `target`: its port and neighbour on the way."""
    hops: dict[str, tuple[int, str]] = {}
    seen = {target}
    queue = deque([target])
    hosts = set(topology.hosts)
    while queue:
        node = queue.popleft()
        if node in hosts and node != target:
            continue  # hosts do not forward
        for _, (neighbour, _, _) in sorted(topology.ports(node).items()):
            if neighbour in seen:
                continue
            seen.add(neighbour)
            queue.append(neighbour)
            if neighbour not in hosts:
                hops[neighbour] = (_port_to(topology, neighbour, node), node)
    return hops


def _port_to(topology: Topology, node: str, neighbour: str) -> int:
    return min(port for port, (other, _, _) in topology.ports(node).items() if other == neighbour)


def switch_of(topology: Topology, host: str) -> str:
    """The switch that a host hangs on."""
    return topology.ports(host)[1][0]


@dataclass(frozen=True)
class JobTree:
    """Where a job's fragments meet on their way to its server.

    `parent` maps each switch of the tree to (port, next node); the last switch's next node is the
    server. `below` maps each to the numbers of the workers whose fragments pass it. `children`
    maps each to [(port, node)], the switches and workers that results go on to."""

    server: str
    parent: dict[str, tuple[int, str]]
    below: dict[str, tuple[int, ...]]
    children: dict[str, tuple[tuple[int, str], ...]]

    @property
    def switches(self) -> tuple[str, ...]:
        return tuple(self.parent)


def job_tree(topology: Topology, workers: tuple[str, ...], server: str) -> JobTree:
    """The tree of a job; raises UserError if a worker has no path to the server."""
    hops = next_hops(topology, server)
    parent: dict[str, tuple[int, str]] = {}
    below: dict[str, list[int]] = {}
    children: dict[str, dict[str, int]] = {}
    for number, worker in enumerate(workers):
        child, node = worker, switch_of(topology, worker)
        while node != server:
            if node not in hops:
                raise UserError(f"{worker} has no path to its parameter server {server}")
            parent[node] = hops[node]
            below.setdefault(node, []).append(number)
            children.setdefault(node, {})[child] = _port_to(topology, node, child)
            child, node = node, hops[node][1]
    return JobTree(
        server=server,
        parent={name: parent[name] for name in topology.switches if name in parent},
        below={name: tuple(numbers) for name, numbers in below.items()},
        children={
            name: tuple((port, child) for child, port in sorted(found.items(), key=lambda x: x[1]))
            for name, found in children.items()
        },
    )
