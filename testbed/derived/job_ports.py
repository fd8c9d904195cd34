"""Through which ports of which switches a job's packets come.

A host's packets come through its own port. Between switches packets follow the routes from each
switch that has something to send for the job (its hosts' switches, and those that aggregate) to
each of the others, the links of the job's tree, and with a plan the ways of its tags and of its
results. When routes change, packets that are on the old ways go on from wherever they are, so every
switch on the old ways has something to send; and the old ports stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from testbed.derived.job_trees import tree_of_job
from testbed.derived.plan_entries import (
    aggregating_switches,
    former_switches,
    next_nodes_by_tag,
    plan_of,
)
from testbed.experiment import Experiment
from testbed.routing.tree import next_hops, switch_of
from testbed.topology import Topology

Ports = Mapping[str, frozenset[int]]


def ports_of_job(experiment: Experiment, number: int) -> Ports:
    """{switch: the ports through which packets of a job may come}. Switches that none passes are
    left out. Raises UserError if a worker has no path to its server."""
    return experiment.derived(("ports", number), lambda: _find(experiment, number))


def keep_ports(view: Experiment, before: Experiment, number: int) -> None:
    """Let the ports that a job had `before` routes changed stay its ports in the `view`."""
    ports = ports_of_job(before, number)
    view.derived(("former ports", number), lambda: ports)


def _find(experiment: Experiment, number: int) -> Ports:
    topology = experiment.topology_object()
    former: Ports = experiment.derived(("former ports", number), dict)
    found = {switch: set(ports) for switch, ports in former.items()}
    placement = experiment.jobs[number].fixed_placement
    ends = _aggregating(experiment, number)
    for host in (*placement.workers, *placement.servers):
        gateway = switch_of(topology, host)
        ends.add(gateway)
        if topology.is_linked(gateway, host):
            found.setdefault(gateway, set()).add(topology.port_to(gateway, host))
    for switch, port in _leaving(experiment, number, ends, {*ends, *former}):
        neighbour, link = _links(topology, switch)[port]
        there = _links(topology, neighbour).items()
        back = next(port for port, (_, other) in there if other == link)
        found.setdefault(neighbour, set()).add(back)
    return {switch: frozenset(ports) for switch, ports in found.items()}


def _aggregating(experiment: Experiment, number: int) -> set[str]:
    """The switches that hold sums of a job, and those between them; of earlier routes, too."""
    if experiment.system_entry.planned:
        planned = plan_of(experiment).jobs[number]
        return {*aggregating_switches(planned), *former_switches(experiment, number)}
    if not experiment.system_entry.memory:
        return set()
    tree = tree_of_job(experiment, number)
    return {*tree.below, *tree.former}


def _leaving(
    experiment: Experiment, number: int, ends: Iterable[str], begins: Iterable[str]
) -> Iterator[tuple[str, int]]:
    """(switch, port) where a job's packets leave for another switch: on the routes from each of the
    switches `begins` to each of the switches `ends`, on its tree, and on the ways of its plan."""
    topology = experiment.topology_object()
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
    if experiment.system_entry.planned:
        planned = plan_of(experiment).jobs[number]
        onwards = next_nodes_by_tag(planned).items()
        ways = [(switch, following) for (switch, _), following in onwards]
        ways += planned.results.links
    elif experiment.system_entry.memory:
        tree = tree_of_job(experiment, number)
        ways = [(switch, following) for switch, (_, following) in tree.parent.items()]
        ways += [(switch, child) for switch, found in tree.children.items() for _, child in found]
    for switch, following in ways:
        if topology.is_host(following) or topology.is_host(switch):
            continue
        if topology.is_linked(switch, following):
            yield switch, topology.port_to(switch, following)


def _links(topology: Topology, node: str) -> dict[int, tuple[str, int]]:
    """{port: (neighbour, link)} of a node, of links that are up."""

    def find() -> dict[int, tuple[str, int]]:
        return {port: leads[:2] for port, leads in topology.ports(node).items()}

    return topology.derived(("links of", node), find)
