"""Shortest-path routes of a topology.

Every switch forwards towards a host along a shortest path of links that are up. Of equal paths it
takes the neighbour that comes first in the topology's order, so that routes are the same on every
machine; towards a host with local rank r, the r-th neighbour, and of parallel links the r-th, so
that the hosts of a server are reached over different links (as in a rail-optimised network). The
topology may be any graph, with cycles and parallel links.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from p4fabric.base.topology import Topology


def next_hop(topology: Topology, switch: str, target: str) -> tuple[int, str] | None:
    """A switch's port and neighbour on the way to the node `target`; None if it has none."""
    if not topology.is_host(target):
        return _hop(topology, switch, target, 0)
    last = switch_of(topology, target)
    if switch == last:
        up = topology.is_linked(switch, target)
        return (topology.port_to(switch, target), target) if up else None
    return _hop(topology, switch, last, topology.local_rank(target))


def routes(topology: Topology, switch: str) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """(nodes, port, neighbour), with every node to which a switch has a way. The hosts below
    another switch that have the same local rank go together, whichever links have failed."""
    single = list(topology.switches)
    for (last, rank), hosts in topology.derived("hosts below", lambda: _below(topology)).items():
        if last == switch:
            single += hosts
        elif (hop := _hop(topology, switch, last, rank)) is not None:
            yield hosts, *hop
    for node in single:
        if (hop := next_hop(topology, switch, node)) is not None:
            yield (node,), *hop


def _below(topology: Topology) -> dict[tuple[str, int], tuple[str, ...]]:
    """Hosts by their switch and local rank."""
    found: dict[tuple[str, int], list[str]] = {}
    for host in topology.hosts:
        found.setdefault((switch_of(topology, host), topology.local_rank(host)), []).append(host)
    return {key: tuple(hosts) for key, hosts in found.items()}


def next_hops(
    topology: Topology, target: str, rail: int | None = None
) -> dict[str, tuple[int, str]]:
    """Port and neighbour on the way to the node `target`, for each switch that can reach it.

    Links that have failed are not used. rail: which of equal paths is taken; None: the local rank
    of a host, 0 for a switch."""
    if topology.is_host(target):
        last = switch_of(topology, target)
        towards = next_hops(topology, last, topology.local_rank(target) if rail is None else rail)
        return {**towards, last: (topology.port_to(last, target), target)}
    return topology.derived(
        ("next hops", target, rail or 0), lambda: _hops(topology, target, rail or 0)
    )


def equal_hops(topology: Topology, switch: str, target: str) -> tuple[tuple[int, str], ...]:
    """Port and neighbour of each of a switch's shortest paths to the node `target`, the one of
    local rank r in place r; () if there is none."""
    if topology.is_host(target):
        last = switch_of(topology, target)
        if switch == last:
            return (hop,) if (hop := next_hop(topology, switch, target)) else ()
        target = last
    choices = _ways(topology, target).get(switch, [])
    ports = [topology.ports_to(switch, following) for following in choices]
    return tuple(
        (ports[place][turn], following)
        for turn in range(max(map(len, ports), default=0))
        for place, following in enumerate(choices)
        if turn < len(ports[place])
    )


def hops_towards(
    topology: Topology, begins: Iterable[str], target: str, spread: bool
) -> Iterator[tuple[str, int, str]]:
    """(switch, port, neighbour) of each hop on the way from some switches to a node, each switch
    once; spread: on all shortest ways."""
    passed: set[str] = set()
    left = [*begins][::-1]
    while left:
        switch = left.pop()
        if switch in passed or switch == target:
            continue
        passed.add(switch)
        one = next_hop(topology, switch, target)
        hops = equal_hops(topology, switch, target) if spread else (one,) if one else ()
        for port, following in hops:
            yield switch, port, following
            if not topology.is_host(following):
                left.append(following)


def links_of_all_paths(topology: Topology, source: str, target: str) -> list[tuple[int, int]]:
    """(link, its end nearer to the source) of each hop that all shortest paths from a host to a
    node have in common; [] if there is no path."""
    shared, nodes = [next(iter(topology.ports(source).values()))], {switch_of(topology, source)}
    while nodes != {target}:
        hops = {(node, *hop) for node in nodes for hop in equal_hops(topology, node, target)}
        if not hops:
            return []
        if len(hops) == 1:
            ((node, port, _),) = hops
            shared.append(topology.ports(node)[port])
        nodes = {following for _, _, following in hops}
    return [(link, end) for _, link, end in shared]


def links_between(topology: Topology, source: str, target: str) -> list[tuple[int, int]]:
    """(link, its end nearer to the source) of each hop from a host to a node; [] if there is no
    way."""
    hops, here = next_hops(topology, target), switch_of(topology, source)
    leads = [next(iter(topology.ports(source).values()))]
    while here != target:
        if here not in hops:
            return []
        port, following = hops[here]
        leads.append(topology.ports(here)[port])
        here = following
    return [(link, end) for _, link, end in leads]


def _hops(topology: Topology, target: str, rail: int) -> dict[str, tuple[int, str]]:
    found = {switch: _hop(topology, switch, target, rail) for switch in _ways(topology, target)}
    return {switch: hop for switch, hop in found.items() if hop is not None}


def _hop(topology: Topology, switch: str, target: str, rail: int) -> tuple[int, str] | None:
    """The same for one switch on the way to another one."""
    choices = _ways(topology, target).get(switch)
    if choices is None:
        return None
    following = choices[rail % len(choices)]
    ports = topology.ports_to(switch, following)
    return ports[rail // len(choices) % len(ports)], following


def _ways(topology: Topology, target: str) -> dict[str, list[str]]:
    """See `next_nodes`; kept with the topology."""

    def neighbours(node: str) -> list[str]:
        return [neighbour for neighbour, _, _ in topology.ports(node).values()]

    return topology.derived(
        ("next nodes", target), lambda: next_nodes(neighbours, topology.hosts, target)
    )


def next_nodes(
    neighbours: Callable[[str], Iterable[str]], hosts: Iterable[str], target: str
) -> dict[str, list[str]]:
    """The next switches on the shortest paths to the switch `target`, for each switch that can
    reach it, those that come first in their own neighbours' order first. `neighbours` returns a
    node's neighbours in the order of its ports."""
    towards: dict[str, list[str]] = {}
    steps = dict.fromkeys(hosts, -1)  # they do not forward
    steps[target] = 0
    queue = deque([target])
    while queue:
        node = queue.popleft()
        for neighbour in neighbours(node):
            if neighbour not in steps:
                steps[neighbour] = steps[node] + 1
                queue.append(neighbour)
                towards[neighbour] = [node]
            elif steps[neighbour] == steps[node] + 1 and node not in towards[neighbour]:
                towards[neighbour].append(node)
    return towards


def switch_of(topology: Topology, host: str) -> str:
    """The switch that a host hangs on."""
    return topology.switch_of(host)
