"""Shortest-path routes and the aggregation tree of a job.

Every switch forwards towards a host along a shortest path of links that are up. Of equal paths it
takes the neighbour that comes first in the topology's order, so that routes are the same on every
machine; towards a host with local rank r, the r-th neighbour, and of parallel links the r-th, so
that the ranks of a server are reached over different links (as in a rail-optimised network). The
topology may be any graph, with cycles and parallel links. The routes of all switches towards a
job's parameter server, or its root switch if it has no server, form a tree, whose choice among
equal paths is that of the job's first worker. The job's tree has the branches with its workers. A
switch that only forwards is a node of the tree like any other, but never the root.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from p4fabric.base.errors import UserError
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


@dataclass(frozen=True)
class JobTree:
    """The tree in which a job's fragments meet on their way to their target, a server or the root
    switch.

    `parent` maps each switch of the tree except the root switch to (port, next node). `below` maps
    each switch to the numbers of the workers whose fragments pass it. `children` maps each switch
    to [(port, node)], the switches and workers to which it sends results. `forwarding`: the
    topology's switches that do not aggregate. `former`: switches that aggregated for the job before
    links failed, and do no longer."""

    target: str
    parent: dict[str, tuple[int, str]]
    below: dict[str, tuple[int, ...]]
    children: dict[str, tuple[tuple[int, str], ...]]
    forwarding: frozenset[str] = frozenset()
    former: frozenset[str] = frozenset()

    @property
    def switches(self) -> tuple[str, ...]:
        """Switches that aggregate for the job."""
        return tuple(name for name in self.below if name not in self.forwarding)

    def receivers(self, switch: str) -> tuple[tuple[int, str], ...]:
        """(port, node) of the workers and the next aggregating switches below a switch. Switches
        between them only forward."""
        found: list[tuple[int, str]] = []
        for port, child in self.children[switch]:
            if child in self.forwarding:
                found += [(port, node) for _, node in self.receivers(child)]
            else:
                found.append((port, child))
        return tuple(found)


def job_tree(topology: Topology, workers: tuple[str, ...], target: str) -> JobTree:
    """The tree of a job whose server, or root switch, is `target`.

    Raises UserError if a worker has no path to the target."""
    hops = next_hops(topology, target, topology.local_rank(workers[0]))
    parent: dict[str, tuple[int, str]] = {}
    below: dict[str, list[int]] = {}
    children: dict[str, dict[str, int]] = {}
    for number, worker in enumerate(workers):
        child, node = worker, switch_of(topology, worker)
        link = topology.ports(worker)[1][1]
        while True:
            if node != target and node not in hops:
                raise UserError(f"{worker} has no path to {target}")
            if topology.is_host(node):
                break
            below.setdefault(node, []).append(number)
            children.setdefault(node, {})[child] = topology.port_of(node, link)
            if node == target:
                break
            parent[node] = hops[node]
            link = topology.ports(node)[hops[node][0]][1]
            child, node = node, hops[node][1]
    return JobTree(
        target=target,
        parent={name: parent[name] for name in topology.switches if name in parent},
        below={name: tuple(below[name]) for name in topology.switches if name in below},
        children={
            name: tuple((port, child) for child, port in sorted(found.items(), key=lambda x: x[1]))
            for name, found in children.items()
        },
        forwarding=topology.forwarding,
    )


def root_switch(topology: Topology, workers: tuple[str, ...]) -> str:
    """The switch that completes the sums of a job without a server: of the nearest ones the r-th,
    where r is the first worker's local rank. Raises UserError if none has a path to all workers."""
    found = roots(topology, workers)[0]
    return found[topology.local_rank(workers[0]) % len(found)]


def roots(topology: Topology, workers: tuple[str, ...]) -> list[list[str]]:
    """The aggregating switches that have a path to all workers, the nearest first: those with the
    shortest path to their farthest worker, of these the ones with the smallest sum of paths.
    Equally near ones are together, in the topology's order.

    Raises UserError if there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for switch in topology.switches:
        if switch in topology.forwarding:
            continue
        hops = next_hops(topology, switch)
        distances = [steps_to(hops, switch_of(topology, worker), switch) for worker in workers]
        if None not in distances:
            steps = [each for each in distances if each is not None]
            found.setdefault((max(steps), sum(steps)), []).append(switch)
    if not found:
        raise UserError(f"no switch that aggregates has a path to all of {', '.join(workers)}")
    return [found[rank] for rank in sorted(found)]


def steps_to(hops: dict[str, tuple[int, str]], node: str, target: str) -> int | None:
    """Links from a switch to a target switch along `hops`; None if there is no path."""
    steps = 0
    while node != target:
        if node not in hops:
            return None
        node = hops[node][1]
        steps += 1
    return steps


def tiers_crossed(
    topology: Topology, hosts: Sequence[str], target: str | None = None
) -> tuple[str, ...]:
    """The tiers of the links of the hosts' aggregation tree, in the topology's order: of rails,
    ("scale_up",) inside a server. target: the parameter server where their sums end; None: the
    switch in their middle. Of a single host without target, nothing. Raises UserError if they have
    no paths to each other."""
    workers = tuple(hosts)
    if target is None and len(workers) < 2:
        return ()
    tree = job_tree(topology, workers, target or root_switch(topology, workers))
    crossed = {topology.ports(host)[1][1] for host in workers}
    crossed |= {topology.ports(switch)[port][1] for switch, (port, _) in tree.parent.items()}
    found = {topology.tiers[link] for link in crossed}
    return tuple(tier for tier in dict.fromkeys(topology.tiers) if tier in found)
