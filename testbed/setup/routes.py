"""Where a communicator's fragments meet, and through which ports its packets come.

A host's packets come through its own port. Between switches packets follow the routes from each
switch that has something to send for the job (its hosts' switches, and those that aggregate) to
each of the others, the links of the job's tree, and with a plan the paths of its tags and of its
results. When routes change, packets on the old paths go on from wherever they are, so every switch
on the old paths has something to send; and the old ports stay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from testbed.experiment.link_faults import LinkChange
from testbed.routing.tree import JobTree, job_tree, next_hops, switch_of
from testbed.setup.plan_entries import aggregating_switches, next_nodes_by_tag
from testbed.setup.records import Communicator, Ports
from testbed.topology import Topology


def connected(topology: Topology, hosts: Sequence[str], tree: JobTree | None = None) -> bool:
    """Whether hosts have paths to each other, or to the root of `tree` if that is a switch."""
    start = hosts[0]
    if tree is not None and not topology.is_host(tree.target):
        start = tree.target
    seen, queue = {start}, deque([start])
    while queue:
        for neighbour, _, _ in topology.ports(queue.popleft()).values():
            if neighbour in seen:
                continue
            seen.add(neighbour)
            if not topology.is_host(neighbour):
                queue.append(neighbour)
    return seen.issuperset(hosts)


def planned_topologies(whole: Topology, changes: Sequence[LinkChange]) -> list[Topology]:
    """The networks for which routes are computed during a run, each once, the whole one first."""
    found = [frozenset[int]()]
    for moment in changes:
        down: frozenset[int] = frozenset()
        for change in changes:
            if change.at_ns <= moment.followed_ns:
                down = down - change.links if change.up else down | change.links
        found.append(down)
    return [whole.failing(whole.failed | down) for down in dict.fromkeys(found)]


def tree_switches(
    tree: JobTree, workers: tuple[str, ...], server: str, later: Iterable[Topology]
) -> tuple[str, ...]:
    """The switches that aggregate for a job with a server at any time of a run, those of its first
    tree first. later: the networks that links leave behind when they fail."""
    found = dict.fromkeys(tree.switches)
    for topology in later:
        if connected(topology, (*workers, server)):
            found |= dict.fromkeys(job_tree(topology, workers, server).switches)
    return tuple(found)


def ports_of(group: Communicator) -> Ports:
    """{switch: the ports through which packets of a communicator may come}. Switches that none
    passes are left out. Raises UserError if a worker has no path to its server."""
    topology, before = group.topology, group.ports_before
    found = {switch: set(ports) for switch, ports in before.items()}
    ends = _aggregating(group)
    for host in group.hosts:
        gateway = switch_of(topology, host)
        ends.add(gateway)
        if topology.is_linked(gateway, host):
            found.setdefault(gateway, set()).add(topology.port_to(gateway, host))
    for switch, port in _leaving(group, ends, {*ends, *before}):
        neighbour, link = _links(topology, switch)[port]
        there = _links(topology, neighbour).items()
        back = next(port for port, (_, other) in there if other == link)
        found.setdefault(neighbour, set()).add(back)
    return {switch: frozenset(ports) for switch, ports in found.items()}


def _aggregating(group: Communicator) -> set[str]:
    """The switches that hold sums, and those between them; of earlier routes, too."""
    if group.plan is not None:
        return {*aggregating_switches(group.plan), *group.former}
    return set() if group.tree is None else {*group.tree.below, *group.tree.former}


def _leaving(
    group: Communicator, ends: Iterable[str], begins: Iterable[str]
) -> Iterator[tuple[str, int]]:
    """(switch, port) where packets leave for another switch: on the routes from each of the
    switches `begins` to each of the switches `ends`, on the tree, and on the paths of the plan."""
    topology = group.topology
    for end in ends:
        hops = next_hops(topology, end)
        passed: set[str] = set()
        for begin in begins:
            node = begin
            while node not in passed and node in hops:
                passed.add(node)
                port, following = hops[node]
                yield node, port
                node = following
    ways: list[tuple[str, str]] = []
    if group.plan is not None:
        ways = [(switch, node) for (switch, _), node in next_nodes_by_tag(group.plan).items()]
        ways += group.plan.results.links
    elif group.tree is not None:
        ways = [(switch, following) for switch, (_, following) in group.tree.parent.items()]
        for switch, found in group.tree.children.items():
            ways += [(switch, child) for _, child in found]
    for switch, following in ways:
        if topology.is_host(following) or topology.is_host(switch):
            continue
        if topology.is_linked(switch, following):
            yield switch, topology.port_to(switch, following)


def _links(topology: Topology, node: str) -> Mapping[int, tuple[str, int]]:
    """{port: (neighbour, link)} of a node, of links that are up."""

    def find() -> dict[int, tuple[str, int]]:
        return {port: leads[:2] for port, leads in topology.ports(node).items()}

    return topology.derived(("links of", node), find)
