"""What can lose a packet, for systems that cannot make up for it.

Some options make a system rely on a network that delivers every packet once and in order
(`SystemOptions.fragile`). Then whatever an experiment has that loses, doubles or reorders packets
is an error before anything runs, and so is a queue that could overflow. A worker has at most one
packet of each slot of its window under way, and a switch sends one sum of it in either direction;
so a queue that has room for the windows of all jobs that use it never drops a sum.

What a gradient packet meets on its worker's own link is not counted: without loss on purpose a
worker's pace keeps that queue short, and one that gets lost there is sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.config.problems import Path, Problem
from testbed.experiment.memory_shares import window_of_slots
from testbed.experiment.printing import shown
from testbed.experiment.schema_jobs import Fault
from testbed.experiment.schema_links import LinkOptions, Links
from testbed.routing.tree import job_tree, root_switch
from testbed.topology import Topology

if TYPE_CHECKING:
    from testbed.experiment.experiment import Experiment, LinkDirection

Way = tuple[int, int]  # a link's index, and 0 there or 1 back


def losing_links(
    links: Links,
    topology: Topology,
    directions: Sequence[tuple[LinkDirection, LinkDirection]],
    why: str,
) -> list[Problem]:
    """Links that lose, double or reorder packets on purpose, each place that says so once."""
    found: dict[Path, Problem] = {}
    for index, ways in enumerate(directions):
        for end, way in enumerate(ways):
            for key in ("loss", "duplicate", "reorder"):
                if not getattr(way, key):
                    continue
                place = _place(links, topology, (index, end), key)
                what = f"found {shown(way, key)}; allowed: 0, since {why}"
                if place == ("topology",):
                    what = f"{way.source} to {way.target}, {key}: {what}"
                found.setdefault(place, Problem(place, what))
    return list(found.values())


def restarts(faults: Sequence[Fault], why: str) -> list[Problem]:
    """Planned faults that lose packets and registers of jobs that go on."""
    return [
        Problem(
            ("faults", number, "fault"),
            f"found restart; allowed: pause, slow, kill, since {why}",
        )
        for number, fault in enumerate(faults)
        if fault.kind == "restart"
    ]


def short_queues(experiment: Experiment) -> list[Problem]:
    """Queues that could overflow where no packet may be lost, the shortest of each place."""
    why = experiment.system.fragile
    if not why:
        return []
    topology = experiment.topology_object()
    worst: dict[Path, tuple[int, str]] = {}
    for (index, end), most in _packets(experiment).items():
        way = experiment.link(index)[end]
        if way.bandwidth_bps is None or way.queue_packets >= most:
            continue
        place = _place(experiment.links, topology, (index, end), "queue_packets")
        window = way.queue_packets * window_of_slots(experiment, 0) // most
        smaller = f" (or system.window: at most {window})" if window else ""
        message = (
            f"{way.source} to {way.target}: found {way.queue_packets} packets; allowed: at least"
            f" {most} packets, all windows that meet there{smaller}, since {why}"
        )
        worst[place] = max(worst.get(place, (0, "")), (most, message))
    return [Problem(place, message) for place, (_, message) in worst.items()]


def _packets(experiment: Experiment) -> dict[Way, int]:
    """The most sums that can be in each queue of a switch at a time."""
    if experiment.arrivals is not None:
        return _packets_of_any(experiment)
    topology = experiment.topology_object()
    found: Counter[Way] = Counter()
    for number, job in experiment.placed_jobs:
        workers = job.fixed_placement.workers
        tree = job_tree(topology, workers, root_switch(topology, workers))
        ports = [(switch, port) for switch, (port, _) in tree.parent.items()]
        for switch, children in tree.children.items():
            ports += [(switch, port) for port, _ in children]
        for switch, port in ports:
            _, link, end = topology.ports(switch)[port]
            found[link, end] += window_of_slots(experiment, number)
    return found


def _packets_of_any(experiment: Experiment) -> dict[Way, int]:
    """The same where jobs come and go, on whatever hosts: a host is one job's, and between
    switches all that run at once may meet."""
    topology = experiment.topology_object()
    window = window_of_slots(experiment, 0)
    return {
        (link, end): window * (1 if neighbour in topology.hosts else experiment.memory_parts)
        for switch in topology.switches
        for neighbour, link, end in topology.ports(switch).values()
    }


def _place(links: Links, topology: Topology, way: Way, key: str) -> Path:
    """The place in the file that set a direction of a link; see resolve_links.py."""
    index, end = way
    ends = topology.links[index]
    for position, each in enumerate(links.each):
        if frozenset(each.between) == frozenset(ends):
            there = end if each.between == ends else 1 - end
            if part := _given(each, key, there):
                return ("links", "each", position, *part)
    options = LinkOptions.model_validate(topology.link_options[index])
    return ("topology",) if _given(options, key, end) else ("links", _written(key))


def _given(options: LinkOptions, key: str, end: int) -> Path:
    """Where among the options of a link a setting of one of its directions stands; () if it does
    not."""
    name, own = (("forward", options.forward), ("backward", options.backward))[end]
    if own is not None and key in own.model_fields_set:
        return (name, _written(key))
    return (_written(key),) if key in options.model_fields_set else ()


def _written(key: str) -> str:
    return LinkOptions.model_fields[key].alias or key
