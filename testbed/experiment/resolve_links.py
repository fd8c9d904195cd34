"""The settings of each direction of each link, from all places that may set them.

The experiment's `links` come first, then the topology's class, then `links.each` and its
directions. The last place that sets a key counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from testbed.config.fields import SECOND
from testbed.config.problems import Path as KeyPath
from testbed.config.problems import Problem
from testbed.config.units import TIME, show
from testbed.errors import did_you_mean, sentence
from testbed.experiment.experiment import Experiment, LinkDirection
from testbed.experiment.printing import shown
from testbed.experiment.round_trip import round_trip_ns
from testbed.experiment.schema import VirtualTime
from testbed.experiment.schema_links import LinkOptions, Links, LinkSettings
from testbed.experiment.unknown_keys import explain
from testbed.topology import Topology
from testbed.traffic.draws import Stream

# Congestion marks begin at a queue of so many packets at least where the file does not say: long
# enough that an unloaded link never marks the bursts of its hosts, short enough that a window of
# every worker of a job does not overflow the default queue. Where links are fast or long, a
# bandwidth-delay product is more, and a window that a mark has halved must still fill it.
DEFAULT_THRESHOLD = 100
DELAYS = 0x11A7  # distinguishes the streams of links' delays from others of the same seed
MILLION = 1_000_000
# Of a packet without values: Ethernet, IPv4, UDP, the header of p4/ina.p4 and a bitmap of 32 bits.
MIN_FRAME_BYTES = 14 + 20 + 8 + 24 + 4


def resolve_links(
    links: Links,
    topology: Topology | None,
    values_per_packet: int | None,
    virtual: VirtualTime | None,
    seed: int,
) -> tuple[list[tuple[LinkDirection, LinkDirection]], frozenset[int], list[Problem]]:
    """Both directions of each link, in the topology's order, the indices of those that have failed,
    and the problems.

    Without a topology only what all links have in common is checked. `virtual`: what hosts and
    switches take in virtual time; None on a real clock. `seed`: where drawn delays come from."""
    resolver = _Links(topology, values_per_packet, seed)
    resolver.resolve(links)
    if topology is not None:
        switch_ns = virtual.switch_latency_ns if virtual else 0
        hosts_ns = virtual.worker_delay_ns + virtual.server_delay_ns if virtual else 0
        resolver.mark(round_trip_ns(topology, resolver.directions, switch_ns) + hosts_ns)
    return resolver.directions, frozenset(resolver.failed), resolver.problems


class _Links:
    def __init__(self, topology: Topology | None, values_per_packet: int | None, seed: int) -> None:
        self.topology = topology
        self.seed = seed
        self.values_per_packet = values_per_packet
        self.problems: list[Problem] = []
        self.directions: list[tuple[LinkDirection, LinkDirection]] = []
        self.failed: set[int] = set()

    def add_problem(self, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(path, message))

    def resolve(self, links: Links) -> None:
        sound = self.fits(links, ("links",), "")
        if self.topology is None:
            return
        named = self.exceptions(links)
        for index, (a, b) in enumerate(self.topology.links):
            base = {name: getattr(links, name) for name in LinkSettings.model_fields}
            settings = [dict(base), dict(base)]
            place: KeyPath = ("topology",)
            options = self.topology_options(index)
            layers: list[tuple[LinkOptions, bool]] = [(options, False)] if options else []
            for position, flipped in named.get(index, []):
                layers.append((links.each[position], flipped))
                place = ("links", "each", position)
            for layer, flipped in layers:
                forward, backward = (1, 0) if flipped else (0, 1)
                for each in settings:
                    each.update(layer.given())
                settings[forward].update(layer.forward.given() if layer.forward else {})
                settings[backward].update(layer.backward.given() if layer.backward else {})
            stated = [layer.failed for layer, _ in layers if "failed" in layer.model_fields_set]
            if stated and stated[-1]:
                self.fail(index, place)
            for each in settings:
                self.spread(index, each)
            there, back = LinkDirection(a, b, **settings[0]), LinkDirection(b, a, **settings[1])
            if sound:
                for direction in (there, back):
                    who = f"{direction.source} to {direction.target}: "
                    self.fits(direction, place, who)
            self.directions.append((there, back))

    def spread(self, index: int, settings: dict[str, Any]) -> None:
        """Add the link's random part to the delay of one of its directions."""
        maximum = settings["delay_ns"] * round(MILLION * settings.pop("delay_spread")) // MILLION
        settings["delay_ns"] += Stream(self.seed, DELAYS, index).below(2 * maximum + 1) - maximum

    def fail(self, index: int, place: KeyPath) -> None:
        """A link is down."""
        assert self.topology is not None
        ends = self.topology.links[index]
        hosts = [node for node in ends if node in self.topology.hosts]
        if hosts:
            self.add_problem(
                (*place, "failed") if place[0] == "links" else place,
                f"{'-'.join(ends)} is the only link of {hosts[0]}; allowed: links between switches",
            )
        self.failed.add(index)

    def exceptions(self, links: Links) -> dict[int, list[tuple[int, bool]]]:
        """{link index: [(position in `each`, True if `between` names it the other way round)]}."""
        assert self.topology is not None
        by_ends: dict[frozenset[str], list[int]] = {}
        for index, linked in enumerate(self.topology.links):
            by_ends.setdefault(frozenset(linked), []).append(index)
        nodes = [*self.topology.hosts, *self.topology.switches]
        first: dict[frozenset[str], int] = {}
        result: dict[int, list[tuple[int, bool]]] = {}
        for position, each in enumerate(links.each):
            path = ("links", "each", position, "between")
            unknown = [name for name in each.between if name not in nodes]
            ends = frozenset(each.between)
            if unknown:
                near = did_you_mean(unknown[0], nodes)
                self.add_problem(
                    path, sentence(f"there is no node {unknown[0]} in the topology", near)
                )
            elif ends not in by_ends:
                here = self.neighbours(each.between[0])
                message = f"there is no link between {' and '.join(each.between)}"
                self.add_problem(path, f"{message}; {each.between[0]} is linked to {here}")
            elif ends in first:
                message = f"these links are already in links.each[{first[ends]}]; keep one of them"
                self.add_problem(path, message)
            else:
                first[ends] = position
                for index in by_ends[ends]:
                    flipped = self.topology.links[index] != each.between
                    result.setdefault(index, []).append((position, flipped))
        return result

    def neighbours(self, node: str) -> str:
        assert self.topology is not None
        names = [neighbour for neighbour, _, _ in self.topology.ports(node).values()]
        return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")

    def topology_options(self, index: int) -> LinkOptions | None:
        assert self.topology is not None
        a, b = self.topology.links[index]
        try:
            return LinkOptions.model_validate(self.topology.link_options[index])
        except ValidationError as error:
            for problem in explain(error, (), LinkOptions):
                self.add_problem(("topology",), f"link {a}-{b}, {problem}")
            return None

    def fits(self, direction: LinkSettings | LinkDirection, path: KeyPath, who: str) -> bool:
        """True if the settings of a direction agree with each other; otherwise adds problems."""
        before = len(self.problems)
        at = path if who else (*path, "jitter")
        if direction.jitter_ns > direction.delay_ns:
            jitter, delay = shown(direction, "jitter_ns"), shown(direction, "delay_ns")
            self.add_problem(
                at, f"{who}found jitter {jitter}; allowed: at most the delay, which is {delay}"
            )
        threshold = direction.ecn_threshold_packets
        if threshold is not None and threshold > direction.queue_packets:
            at = path if who else (*path, "ecn_threshold")
            found, queue = f"{threshold} packets", f"{direction.queue_packets} packets"
            self.add_problem(
                at,
                f"{who}found ecn_threshold {found}; allowed: at most the queue, which is {queue}",
            )
        if direction.reorder and direction.reorder_delay_ns <= packet_ns(
            direction, self.values_per_packet
        ):
            at = path if who else (*path, "reorder_delay")
            found, minimum = (
                shown(direction, "reorder_delay_ns"),
                packet_ns(direction, self.values_per_packet),
            )
            time = (
                f"more than {show(minimum, TIME)}, a packet's time on the link" if minimum else ""
            )
            self.add_problem(
                at,
                f"{who}found reorder {shown(direction, 'reorder')} with reorder_delay {found}, so"
                f" that no packet would overtake another; allowed: {time or 'more than 0'}",
            )
        return len(self.problems) == before

    def mark(self, round_trip_ns: int) -> None:
        """Give each direction without one its congestion threshold: a bandwidth-delay product, with
        the longest round trip of the empty network."""
        for index, (there, back) in enumerate(self.directions):
            marked = self.marked(there, round_trip_ns), self.marked(back, round_trip_ns)
            self.directions[index] = marked

    def marked(self, direction: LinkDirection, round_trip_ns: int) -> LinkDirection:
        if direction.ecn_threshold_packets != 0:
            return direction
        if direction.bandwidth_bps is None:
            return replace(direction, ecn_threshold_packets=None)
        bits = 8 * (MIN_FRAME_BYTES + 4 * (self.values_per_packet or 64))
        product = direction.bandwidth_bps * round_trip_ns // (bits * SECOND)
        maximum = max(direction.queue_packets // 2, 1)
        return replace(
            direction, ecn_threshold_packets=min(max(DEFAULT_THRESHOLD, product), maximum)
        )


def packet_ns(direction: LinkSettings | LinkDirection, values: int | None) -> int:
    """Time that a packet of so many values takes on the link; 0 where its rate is unlimited."""
    if direction.bandwidth_bps is None or values is None:
        return 0
    return (MIN_FRAME_BYTES + 4 * values) * 8 * SECOND // direction.bandwidth_bps


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
