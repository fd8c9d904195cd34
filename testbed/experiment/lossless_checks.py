"""Checks of lossless links, and for systems that cannot recover from lost packets.

Lossless links (`links.lossless`) stop senders before a buffer is full, if it has room for what
still comes then; a buffer without is an error.

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
from p4fabric.base.lossless_buffers import BufferPlan, plan_buffers, without_rate
from p4fabric.base.topology import Topology

from testbed.experiment.printing import shown
from testbed.experiment.rules import Found, Rule
from testbed.experiment.schema import VirtualTime
from testbed.experiment.schema_network import STAY, LinkOptions, Links, lossless_of
from testbed.protocols.sizes import frame_bytes, memory_part
from testbed.routing.job_tree import job_tree, root_switch

if TYPE_CHECKING:
    from testbed.experiment.experiment import Experiment, LinkDirection
    from testbed.experiment.schema_background import Background
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


def lossless_links(
    system: SystemOptions,
    sound_links: Links,
    network: Topology,
    directions: Sequence[tuple[LinkDirection, LinkDirection]],
    runtime: str,
    frame: int,
    switch: str = "",
    background: Sequence[Background] = (),
    virtual: VirtualTime | None = None,
) -> Found:
    """Links that cannot be lossless as the file has them."""
    given = lossless_of(sound_links)
    if given is None:
        return
    place: Path = ("links", "lossless")
    if runtime != "virtual":
        who = "BMv2 has no pause frames" if switch == "bmv2" else "switches do not pause there"
        yield Problem(place, f"is for runtime virtual; {who}: take it out, or take runtime virtual")
        return
    link = directions.__getitem__
    if unlimited := without_rate(network, link):
        yield Problem(place, f"{unlimited} has no bandwidth, which pauses are counted in; give all")
        return
    if given.sums == STAY and system.name != "tree":
        what = f"found {STAY} with system {system.name}; allowed: leave, or system tree"
        yield Problem((*place, "sums"), what)
        return
    unfit, strict = ["reorder"], given.control
    if given.control == CREDITS:
        unfit = ["reorder", "loss"]
    if given.sums == STAY:  # a packet that comes again would stay for ever
        unfit, strict = ["reorder", "loss", "duplicate"], f"sums: {STAY}"
    for both in directions:
        for way in both:
            for key in unfit:
                if getattr(way, key):
                    what = f"{way.source} to {way.target}: found {key} {shown(way, key)}"
                    yield Problem(place, f"{what}; allowed: 0 with {strict}")
                    return
    longest = max([frame, *(each.packet_bytes for each in background)])
    latency_ns = (virtual or VirtualTime()).switch_latency_ns
    for name, plan in plan_buffers(given, network, link, longest, latency_ns):
        if plan.too_small:
            where = (*place, plan.too_small_key) if _is_mapping(sound_links) else place
            yield Problem(where, f"{name}, {plan.too_small}")
            return


def _is_mapping(links: Links) -> bool:
    return not isinstance(links.lossless, str | None)


def buffers_of(experiment: Experiment) -> dict[str, BufferPlan]:
    """The buffer of each switch, by name; empty where links lose packets."""
    given = lossless_of(experiment.links)
    if given is None:
        return {}
    frame = frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    longest = max([frame, *(each.packet_bytes for each in experiment.background)])
    latency_ns = (experiment.virtual or VirtualTime()).switch_latency_ns
    topology, link = experiment.topology_object(), experiment.directions.__getitem__
    return dict(plan_buffers(given, topology, link, longest, latency_ns))


RESTARTS = Rule(  # planned faults that lose packets and registers while jobs go on
    "faults[*].fault",
    lambda each, system: system.lossless_reason and each.kind in ("restart", "link_down"),
    "found {each.kind}; allowed: pause, slow, kill, since {system.lossless_reason}",
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
