"""The settings of each direction of each link, and of each switch, from all places that set them.

The experiment's `links` come first, then the topology's class, then `links.each` and its
directions. The last place that sets a key counts. The same with `switches`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from p4fabric.base.config.fields import SECOND
from p4fabric.base.config.link_settings import LinkSettings
from p4fabric.base.config.problems import Path, Problem
from p4fabric.base.config.units import TIME, show
from p4fabric.base.errors import did_you_mean, sentence
from p4fabric.base.topology import Topology
from p4fabric.base.transports import AIMD
from pydantic import ValidationError

from testbed import systems
from testbed.experiment.experiment import Experiment, LinkDirection
from testbed.experiment.printing import shown
from testbed.experiment.rules import Found, Known, Rule, not_among
from testbed.experiment.schema import VirtualTime, explain
from testbed.experiment.schema_jobs import Job
from testbed.experiment.schema_network import (
    PER_ROOT,
    PINNED,
    UNPINNED,
    LinkOptions,
    Links,
    Paths,
    Switches,
    SwitchException,
    Transport,
)
from testbed.traffic.draws import Stream

if TYPE_CHECKING:
    from testbed.experiment.schema_jobs import Fault

# Congestion marks begin at a queue of so many packets at least where the file does not say: long
# enough that an unloaded link never marks the bursts of its hosts, short enough that a window of
# every worker of a job does not overflow the default queue. Where links are fast or long, a
# bandwidth-delay product is more, and a window that a mark has halved must still fill it.
DEFAULT_THRESHOLD = 100
DELAYS = 0x11A7  # distinguishes the streams of links' delays from others of the same seed
MILLION = 1_000_000
# Of a packet without values: Ethernet, IPv4, UDP, the header of p4/ina.p4 and a bitmap of 32 bits.
MIN_FRAME_BYTES = 14 + 20 + 8 + 24 + 4

Directions = Sequence[tuple[LinkDirection, LinkDirection]]


def check_links(links: Links, values_per_packet: int | None = None) -> Found:
    """Check what all links have in common."""
    unfit = list(_unfit(links, values_per_packet))
    for key, message in unfit:
        yield Problem(("links", key), message)
    yield {"links_fit": not unfit}


def resolve_links(
    links: Links,
    links_fit: bool,
    network: Topology,
    values_per_packet: int | None = None,
    runtime: str = "",
    virtual: VirtualTime | None = None,
    seed: int = 0,
) -> Found:
    """Both directions of each link, in the topology's order, and the network without the links that
    have failed."""
    named, problems = _named_links(links, network)
    directions: list[tuple[LinkDirection, LinkDirection]] = []
    failed: set[int] = set()
    for index, (a, b) in enumerate(network.links):
        place: Path = ("topology",)
        layers: list[tuple[LinkOptions, bool]] = []
        try:
            layers.append((LinkOptions.model_validate(network.link_options[index]), False))
        except ValidationError as error:
            wrong = explain(error, (), LinkOptions)
            problems += [Problem(place, f"link {a}-{b}, {each}") for each in wrong]
        for position, flipped in named.get(index, []):
            layers.append((links.each[position], flipped))
            place = ("links", "each", position)
        stated = [layer.failed for layer, _ in layers if "failed" in layer.model_fields_set]
        if stated and stated[-1]:
            failed.add(index)
            if host := next((node for node in (a, b) if network.is_host(node)), ""):
                at = (*place, "failed") if place[0] == "links" else place
                message = f"{a}-{b} is the only link of {host}; allowed: links between switches"
                problems.append(Problem(at, message))
        # Each link has a random part of its delay, the same in both directions.
        settings = _settings(links, layers)
        for each in settings:
            most = each["delay_ns"] * round(MILLION * each.pop("delay_spread")) // MILLION
            each["delay_ns"] += Stream(seed, DELAYS, index).below(2 * most + 1) - most
        both = LinkDirection(a, b, **settings[0]), LinkDirection(b, a, **settings[1])
        directions.append(both)
        problems += [
            Problem(place, f"{way.source} to {way.target}: {message}")
            for way in (both if links_fit else ())
            for _, message in _unfit(way, values_per_packet)
        ]
    yield from problems
    times = (virtual or VirtualTime()) if runtime == "virtual" else None
    found = _marked(directions, network, times, values_per_packet)
    ways = tuple(way for both in found for way in both)
    yield {"directions": found, "ways": ways, "limited": any(way.bandwidth_bps for way in ways)}
    if links_fit and not problems:
        yield {"sound_links": links}
        if failed:
            yield {"network": network.failing(failed)}


def _settings(links: Links, layers: Sequence[tuple[LinkOptions, bool]]) -> tuple[Known, Known]:
    """Settings of both directions of a link. `layers`: the places that set them, and whether they
    name it the other way round."""
    base = {name: getattr(links, name) for name in LinkSettings.model_fields}
    settings = dict(base), dict(base)
    for layer, flipped in layers:
        for each in settings:
            each.update(layer.given())
        forward, backward = settings[::-1] if flipped else settings
        forward.update(layer.forward.given() if layer.forward else {})
        backward.update(layer.backward.given() if layer.backward else {})
    return settings


def _named_links(
    links: Links, network: Topology
) -> tuple[dict[int, list[tuple[int, bool]]], list[Problem]]:
    """{link index: [(position in `each`, True if `between` names it the other way round)]}."""
    by_ends: dict[frozenset[str], list[int]] = {}
    for index, linked in enumerate(network.links):
        by_ends.setdefault(frozenset(linked), []).append(index)
    nodes = [*network.hosts, *network.switches]
    first: dict[frozenset[str], int] = {}
    found: dict[int, list[tuple[int, bool]]] = {}
    problems = []
    for position, each in enumerate(links.each):
        ends = frozenset(each.between)
        if unknown := [name for name in each.between if name not in nodes]:
            near = did_you_mean(unknown[0], nodes)
            message = sentence(f"there is no node {unknown[0]} in the topology", near)
        elif ends not in by_ends:
            near = _neighbours(network, each.between[0])
            message = f"there is no link between {' and '.join(each.between)}"
            message += f"; {each.between[0]} is linked to {near}"
        elif ends in first:
            message = f"these links are already in links.each[{first[ends]}]; keep one of them"
        else:
            first[ends] = position
            for index in by_ends[ends]:
                found.setdefault(index, []).append((position, network.links[index] != each.between))
            continue
        problems.append(Problem(("links", "each", position, "between"), message))
    return found, problems


def _neighbours(network: Topology, node: str) -> str:
    names = [neighbour for neighbour, _, _ in network.ports(node).values()]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _unfit(way: LinkSettings | LinkDirection, values: int | None) -> Iterator[tuple[str, str]]:
    """Settings of a direction that do not agree with each other: (key, message). `values`: of a
    packet."""
    if way.jitter_ns > way.delay_ns:
        jitter, delay = shown(way, "jitter_ns"), shown(way, "delay_ns")
        yield "jitter", f"found jitter {jitter}; allowed: at most the delay, which is {delay}"
    threshold, queue = way.ecn_threshold_packets, way.queue_packets
    if threshold is not None and threshold > queue:
        yield (
            "ecn_threshold",
            f"found ecn_threshold {threshold} packets; allowed: at most the queue, which is"
            f" {queue} packets",
        )
    most = way.ecn_max_threshold_packets
    if most is not None and not threshold:
        yield "ecn_max_threshold", "found no ecn_threshold beside it; give both, or neither"
    elif most is not None and not (threshold or 0) < most <= queue:
        yield (
            "ecn_max_threshold",
            f"found ecn_max_threshold {most} packets with ecn_threshold"
            f" {shown(way, 'ecn_threshold_packets')}; allowed: more than that, and at most the"
            f" queue, which is {queue} packets",
        )
    least_ns = packet_ns(way, values)
    if way.reorder and way.reorder_delay_ns <= least_ns:
        more = f"more than {show(least_ns, TIME)}, a packet's time on the link"
        yield (
            "reorder_delay",
            f"found reorder {shown(way, 'reorder')} with reorder_delay"
            f" {shown(way, 'reorder_delay_ns')}, so that no packet would overtake another; allowed:"
            f" {more if least_ns else 'more than 0'}",
        )


def packet_ns(direction: LinkSettings | LinkDirection, values: int | None) -> int:
    """Time that a packet of so many values takes on the link; 0 where its rate is unlimited."""
    if direction.bandwidth_bps is None or values is None:
        return 0
    return (MIN_FRAME_BYTES + 4 * values) * 8 * SECOND // direction.bandwidth_bps


# -- congestion marks


def _marked(
    directions: Directions, network: Topology, virtual: VirtualTime | None, values: int | None
) -> tuple[tuple[LinkDirection, LinkDirection], ...]:
    """The directions, each with a congestion threshold: a bandwidth-delay product if it has none,
    with the longest round trip of the empty network. `virtual`: what hosts and switches take in
    virtual time; None on a real clock."""
    trip_ns = _round_trip_ns(network, directions, virtual.switch_latency_ns if virtual else 0)
    trip_ns += virtual.worker_delay_ns + virtual.server_delay_ns if virtual else 0

    def marked(way: LinkDirection) -> LinkDirection:
        if way.ecn_threshold_packets != 0:
            return way
        if way.bandwidth_bps is None:
            return replace(way, ecn_threshold_packets=None)
        bits = 8 * (MIN_FRAME_BYTES + 4 * (values or 64))
        product = way.bandwidth_bps * trip_ns // (bits * SECOND)
        most = max(way.queue_packets // 2, 1)
        return replace(way, ecn_threshold_packets=min(max(DEFAULT_THRESHOLD, product), most))

    return tuple((marked(there), marked(back)) for there, back in directions)


def _round_trip_ns(network: Topology, directions: Directions, switch_ns: int) -> int:
    """Round-trip time in ns between the two hosts that are farthest apart; 0 with fewer than two
    hosts. `switch_ns`: time through a switch, once.

    It is found by going to the farthest host twice. That is exact for trees and close enough for
    other networks, and takes two searches instead of one per host."""
    if len(network.hosts) < 2:
        return 0
    end, _ = _farthest(network, directions, switch_ns, network.hosts[0])
    _, total = _farthest(network, directions, switch_ns, end)
    return total


def _farthest(
    network: Topology, directions: Directions, switch_ns: int, start: str
) -> tuple[str, int]:
    """The host that is farthest from `start`, and the round trip to it in ns."""
    hosts = set(network.hosts)
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        spent, node = heapq.heappop(queue)
        if spent > best[node] or node in hosts and node != start:
            continue  # hosts do not forward
        for neighbour, link, _ in network.ports(node).values():
            total = spent + sum(direction.delay_ns for direction in directions[link])
            total += 2 * switch_ns if neighbour not in hosts else 0
            if total < best.get(neighbour, total + 1):
                best[neighbour] = total
                heapq.heappush(queue, (total, neighbour))
    reached = [host for host in network.hosts if host in best]
    found = max(reached, key=lambda host: best[host])
    return found, best[found]


def unmarked(experiment: Experiment) -> list[str]:
    """Without marks, senders learn of a full queue by its drops and delays alone."""
    directions = [direction for both in experiment.directions for direction in both]
    unmarked = [
        each for each in directions if each.bandwidth_bps and each.ecn_threshold_packets is None
    ]
    if not unmarked:
        return []
    where = "all links" if len(unmarked) == len(directions) else f"{len(unmarked)} link directions"
    return [
        f"{where} have a bandwidth and no ecn_threshold: senders do not notice congestion before "
        "timers expire or queues overflow; leave links.ecn_threshold out, or set it"
    ]


# -- switches


def resolve_switches(
    switches: Switches, network: Topology, entry: systems.System | None = None
) -> Found:
    """The settings with those of the topology's class among them, and the network with its switches
    that only forward. The exceptions name switches, and the system uses the settings."""
    settings, problems = _with_topology(switches, network)
    problems = _named_switches(switches, network) or problems
    yield from problems
    if problems:
        return
    found = {name: settings.of(name) for name in network.switches}
    off = [name for name, each in found.items() if not each.aggregates]
    if entry is not None and not entry.planned:
        place: Path = ("switches",) if switches != Switches() else ("topology",)
        limits = [name for name, each in found.items() if each.capacity_bps or each.burst_packets]
        if limits:
            yield Problem(
                place,
                f"switch {limits[0]}: {entry.title} has no plan that would use a capacity or burst;"
                " allowed with system grid. Take it out",
            )
        elif entry.memory and len(off) == len(found):
            yield Problem(
                place,
                f"no switch is left that aggregates for {entry.title}; allow one, or take system"
                " ps",
            )
    yield {"switches": settings, "network": network.only_forwarding(off) if off else network}


def _named_switches(switches: Switches, network: Topology) -> list[Problem]:
    """Exceptions that name no switch, or one that has been named already."""
    problems = []
    first: dict[str, int] = {}
    for position, each in enumerate(switches.each):
        name = each.switch
        message = not_among(name, network.switches, network.hosts, "a host")
        if not message and name in first:
            message = f"{name} is already in switches.each[{first[name]}]; keep one of them"
        if message:
            problems.append(Problem(("switches", "each", position, "switch"), message))
        first.setdefault(name, position)
    return problems


def _with_topology(switches: Switches, network: Topology) -> tuple[Switches, list[Problem]]:
    """Switches with the settings of the topology's class, where the file says nothing of them."""
    problems = []
    given = {each.switch: each for each in switches.each}
    for name, options in network.switch_options.items():
        try:
            own = SwitchException.model_validate({"switch": name, **options})
        except ValidationError as error:
            wrong = explain(error, (), SwitchException)
            problems += [Problem(("topology",), f"switch {name}, {each}") for each in wrong]
            continue
        said = given.get(name, own)
        update = {key: getattr(said, key) for key in said.model_fields_set}
        given[name] = own.model_copy(update=update)
    return switches.model_copy(update={"each": tuple(given.values())}), problems


# -- equal paths


def _needs_a_pool(paths: Paths | None, entry: systems.System) -> bool:
    """Sums that only a server with a shared pool of aggregators can complete."""
    pool = entry.memory and entry.servers == "one" and not (entry.planned or entry.managed)
    return paths is not None and paths.sums != PINNED and not pool


def _unmet(paths: Paths | None, entry: systems.System, network: Topology) -> str:
    """Switches that only forward, where gradients would take paths on which they do not meet."""
    if paths is None or not entry.memory or entry.planned or paths.sums == UNPINNED:
        return ""
    spread = paths.of_packets or paths.sums == PER_ROOT
    return ", ".join(name for name in network.switches if spread and name in network.forwarding)


def _rerouted(paths: Paths | None, entry: systems.System, faults: Sequence[Fault]) -> str:
    """A fault of links after which sums would need new paths that nobody works out."""
    if paths is None or not (paths.sums != PINNED or entry.divided or entry.managed):
        return ""
    changed = paths.sums != PINNED or paths.of_packets
    return next((each.kind for each in faults if changed and each.of_link), "")


PATH_RULES = (
    Rule(
        "paths.sums",
        _needs_a_pool,
        "found {paths.sums} with system {entry.name}; allowed: pinned. Sums on several paths need a"
        " shared pool and a server that completes them (esa, atp, a2tp); tree has `trees`, grid a"
        " plan",
    ),
    Rule(
        "paths.sums",
        lambda paths, system: (
            paths is not None
            and paths.sums != PINNED
            and getattr(system, "results_from", "server") == "switch"
        ),
        "found {paths.sums} with results_from switch, which has one tree of results; take"
        " results_from: server, or sums: pinned",
    ),
    Rule(
        "paths",
        _unmet,
        "gradients would take several paths through {found}, which only forward, and not meet; let"
        " these switches aggregate, or take choice: first and sums: pinned",
    ),
    Rule(
        "paths",
        _rerouted,
        "found with the fault {found}, after which sums of system {entry.name} would need other"
        " paths; take the fault out, or choice: first and sums: pinned",
    ),
)


# -- packets between hosts


def why_no_control(
    transport: Transport,
    entry: systems.System,
    scale_windows: bool,
    jobs: Sequence[Job] = (),
    kinds: Sequence[Job] = (),
) -> str:
    """Why a congestion control cannot be honoured; "" if it can."""
    control = transport.congestion_control
    if control == AIMD:
        return ""
    if scale_windows:
        return f"found {control} with scale_windows, which cannot scale its constants; take one out"
    if entry.algorithm or any(job.has_ranks for job in (*jobs, *kinds)):
        return ""
    return (
        f"found {control}, but no packets between workers: {entry.title} has windows of its own,"
        f" and no job replays a program of ranks. Take {AIMD}, or a system of hosts"
        " (docs/baselines.md)"
    )
