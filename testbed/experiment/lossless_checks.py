"""Checks for systems that cannot recover from lost packets.

Some options make a system rely on a network that delivers every packet once and in order
(`SystemOptions.lossless_reason`). Then settings that lose, duplicate or reorder packets are errors
before anything runs, and so is a queue that could overflow. A worker has at most one packet of each
slot of its window in flight, and a switch sends one sum of it in either direction. So a queue with
room for the windows of all jobs that use it never drops a sum.

The queue of gradients on a worker's own link is not counted. The worker's pacing keeps it short,
and a gradient that is lost there is sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from p4fabric.base.config.lossless_settings import CREDITS
from p4fabric.base.config.problems import Path, Problem
from p4fabric.base.topology import Topology

from testbed.experiment.printing import shown
from testbed.experiment.rules import Found, Rule
from testbed.experiment.schema_network import LinkOptions, Links, lossless_of
from testbed.protocols.sizes import memory_part
from testbed.routing.job_tree import job_tree, root_switch

if TYPE_CHECKING:
    from testbed.experiment.experiment import Experiment, LinkDirection
    from testbed.systems.options import SlotOptions, SystemOptions

Direction = tuple[int, int]  # a link's index, and 0 there or 1 back


def lossy_links(
    system: SystemOptions,
    sound_links: Links,
    network: Topology,
    directions: Sequence[tuple[LinkDirection, LinkDirection]],
) -> Found:
    """Links that lose, duplicate or reorder packets on purpose; one problem per place in the
    file."""
    found: dict[Path, Problem] = {}
    for index, both in enumerate(directions if system.lossless_reason else ()):
        for end, direction in enumerate(both):
            for key in ("loss", "duplicate", "reorder"):
                if not getattr(direction, key):
                    continue
                place = _place(sound_links, network, (index, end), key)
                what = f"found {shown(direction, key)}; allowed: 0, since {system.lossless_reason}"
                if place == ("topology",):
                    what = f"{direction.source} to {direction.target}, {key}: {what}"
                found.setdefault(place, Problem(place, what))
    yield from found.values()


RESTARTS = Rule(  # planned faults that lose packets and registers while jobs go on
    "faults[*].fault",
    lambda each, system: system.lossless_reason and each.kind in ("restart", "link_down"),
    "found {each.kind}; allowed: pause, slow, kill, since {system.lossless_reason}",
)

RESTARTS_WITH_CREDITS = Rule(
    "faults[*].fault",
    lambda each, sound_links: (
        each.kind == "restart" and (given := lossless_of(sound_links)) and given.control == CREDITS
    ),
    "found {each.kind}; allowed: pause, slow, kill, link_down, since both ends of a link count"
    " credits from its beginning",
)


def short_queues(experiment: Experiment) -> list[Problem]:
    """Queues that could overflow where no packet may be lost; the worst of each place in the
    file."""
    why = experiment.system.lossless_reason
    given = lossless_of(experiment.links)
    if not why or given is not None and given.classes != "background":
        return []
    topology = experiment.topology_object()
    full, worst = _window(experiment), dict[Path, tuple[int, str]]()
    for (index, end), most in _packets(experiment).items():
        direction = experiment.directions[index][end]
        if direction.bandwidth_bps is None or direction.queue_packets >= most:
            continue
        place = _place(experiment.links, topology, (index, end), "queue_packets")
        window = direction.queue_packets * full // most
        smaller = f" (or system.window: at most {window})" if window else ""
        message = (
            f"{direction.source} to {direction.target}: found {direction.queue_packets} packets;"
            f" allowed: at least {most} packets, the sum of all windows there{smaller}, since {why}"
        )
        worst[place] = max(worst.get(place, (0, "")), (most, message))
    return [Problem(place, message) for place, (_, message) in worst.items()]


def _window(experiment: Experiment) -> int:
    """Packets of one worker of any job in flight."""
    options = cast("SlotOptions", experiment.system)
    part = memory_part(experiment.aggregators, options.sets, experiment.memory_parts, 0)
    return part.window(options.window)


def _packets(experiment: Experiment) -> dict[Direction, int]:
    """The most sums that can be in each queue of a switch at a time."""
    if experiment.arrivals is not None:
        return _packets_of_any(experiment)
    topology = experiment.topology_object()
    window = _window(experiment)
    found: Counter[Direction] = Counter()
    for job in experiment.jobs:
        workers = job.fixed_placement.workers
        tree = job_tree(topology, workers, root_switch(topology, workers))
        ports = [(switch, port) for switch, (port, _) in tree.parent.items()]
        for switch, children in tree.children.items():
            ports += [(switch, port) for port, _ in children]
        for switch, port in ports:
            _, link, end = topology.ports(switch)[port]
            found[link, end] += window
    return found


def _packets_of_any(experiment: Experiment) -> dict[Direction, int]:
    """The same where jobs come and go. A host belongs to one job at a time; between switches the
    packets of all running jobs may share a link."""
    topology = experiment.topology_object()
    window = _window(experiment)
    return {
        (link, end): window * (1 if neighbour in topology.hosts else experiment.memory_parts)
        for switch in topology.switches
        for neighbour, link, end in topology.ports(switch).values()
    }


def _place(links: Links, topology: Topology, direction: Direction, key: str) -> Path:
    """The place in the file that set a direction of a link; see resolve_network.py."""
    index, end = direction
    ends = topology.links[index]
    for position, each in enumerate(links.each):
        if frozenset(each.between) == frozenset(ends):
            there = end if each.between == ends else 1 - end
            if part := _given(each, key, there):
                return ("links", "each", position, *part)
    options = LinkOptions.model_validate(topology.link_options[index])
    return ("topology",) if _given(options, key, end) else ("links", _written(key))


def _given(options: LinkOptions, key: str, end: int) -> Path:
    """The place of a direction's setting in a link's options; () if it is not there."""
    name, own = (("forward", options.forward), ("backward", options.backward))[end]
    if own is not None and key in own.model_fields_set:
        return (name, _written(key))
    return (_written(key),) if key in options.model_fields_set else ()


def _written(key: str) -> str:
    return LinkOptions.model_fields[key].alias or key
