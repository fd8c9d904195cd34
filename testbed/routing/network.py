"""The input of planners: a network with directed capacities, and the jobs that share it. Pure data.

A network comes from an experiment or from a graph file. Both are converted to these classes, so
planners do not see the difference. Links that are known to have failed are not part of the network.
Rates are whole bit/s and count bytes from the Ethernet header to the end of the payload, as
everywhere; None: unlimited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

FRAME_BYTES = 14 + 20 + 8 + 24 + 4 + 4 * 64  # a gradient packet of 64 values, bitmap of 32 bits


@dataclass(frozen=True)
class Switch:
    """A switch. `aggregates`: True if it can add up gradients at all; `aggregation_bps`: its
    aggregation capacity C_s, the largest sum of its inputs; `slots`: aggregators that its memory
    holds."""

    name: str
    aggregates: bool = True
    aggregation_bps: int | None = None
    slots: int | None = None


@dataclass(frozen=True)
class Host:
    """A host. `ingress_bps`: the rate that a parameter server on it can take in, besides the
    capacity of its link."""

    name: str
    ingress_bps: int | None = None


@dataclass(frozen=True)
class Link:
    """One direction of a link."""

    source: str
    target: str
    capacity_bps: int | None = None
    delay_ns: int = 0

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target


@dataclass(frozen=True)
class PlanJob:
    """A job: the hosts of its workers, in order, and of its parameter server (PS).

    `max_rate_bps` is T of the published model, the most that a worker may send; None: what its PS
    takes in."""

    name: str
    workers: tuple[str, ...]
    ps: str
    max_rate_bps: int | None = None


@dataclass(frozen=True)
class Network:
    """Switches, hosts and directed links. Their order decides between equal choices.

    `host_spread_ns`: by how much the workers' hosts differ in when they send the same fragment.
    `frame_bytes`: length of a frame with one fragment."""

    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    host_spread_ns: int = 0
    frame_bytes: int = FRAME_BYTES
    failed: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def switch(self) -> dict[str, Switch]:
        """The switches by name."""
        return {each.name: each for each in self.switches}

    @cached_property
    def host(self) -> dict[str, Host]:
        """The hosts by name."""
        return {each.name: each for each in self.hosts}

    @cached_property
    def link(self) -> dict[tuple[str, str], Link]:
        """The links by (source, target)."""
        return {each.ends: each for each in self.links}

    @cached_property
    def after(self) -> dict[str, tuple[str, ...]]:
        """Next nodes of each node over its links."""
        nodes: tuple[Switch | Host, ...] = (*self.switches, *self.hosts)
        found: dict[str, list[str]] = {each.name: [] for each in nodes}
        for link in self.links:
            found[link.source].append(link.target)
        return {name: tuple(targets) for name, targets in found.items()}

    @cached_property
    def switch_graph(self) -> networkx.DiGraph:
        """The switches and the links between them."""
        import networkx  # takes as long as the rest of a small plan

        graph = networkx.DiGraph()
        graph.add_nodes_from(self.switch)
        graph.add_edges_from(
            link.ends
            for link in self.links
            if link.source in self.switch and link.target in self.switch
        )
        return graph

    @cached_property
    def next_hops(self) -> dict[str, dict[str, str]]:
        """Next node on the way, {node: next node}, for each target that was asked for (filled by
        loop_free_paths.py)."""
        return {}

    @cached_property
    def aggregating(self) -> tuple[str, ...]:
        """The switches that aggregate: those that can, and have memory for it."""
        return tuple(each.name for each in self.switches if each.aggregates and each.slots != 0)

    def ingress_bps(self, host: str) -> int | None:
        """B of a parameter server on `host`: the smaller of the rate that it takes in and the
        capacity of the links towards it; None: unlimited."""
        into = [each.capacity_bps for each in self.links if each.target == host]
        links = None if None in into else sum(each for each in into if each is not None)
        return min_capacity((self.host[host].ingress_bps, links))

    def delay_ns(self, path: tuple[str, ...]) -> int:
        """Propagation delay of a path of nodes."""
        return sum(self.link[ends].delay_ns for ends in zip(path, path[1:], strict=False))


def min_capacity(capacities: Iterable[int | None]) -> int | None:
    """The smallest of some capacities; None: all are unlimited."""
    return min((each for each in capacities if each is not None), default=None)
