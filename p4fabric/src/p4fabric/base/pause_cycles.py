"""Ports that wait for each other where links pause: those that hold packets, and cycles of them.

A port waits for the switch behind it, whose input is full of packets that wait for other ports. If
those are paused, too, and so on in a circle, nothing will ever move again: a deadlock. A port that
a host has paused waits for that host. An input that is full of what a program keeps waits for what
that lacks: packets that are behind other ports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from p4engine.switch.library import Switch
from p4engine.switch.lossless_links import flow, holds, lacks, waiting

from p4fabric.base.topology import Topology

Describe = Callable[[bytes], str]  # a packet, in words
Place = tuple[str, int]  # a switch and its port
MOST_NAMED = 8


def size_of(packet: bytes) -> str:
    """The words for a packet of which nothing is known."""
    return f"a packet of {len(packet)} B"


@dataclass(frozen=True)
class Blocked:
    """A port that is paused while packets wait for it. sent: packets that have left it so far."""

    place: Place
    neighbour: str
    packets: int
    paused_ns: int
    sent: int


class PauseWatch:
    """Looks at the switches of a network whose links pause; two looks tell whether anything has
    moved. `describe` names the packet that waits first. Of switches in other processes, `blocked`
    and `paused_by_hosts` alone can be asked: by their control interfaces."""

    def __init__(
        self,
        topology: Topology,
        switches: Mapping[str, Switch],
        priority: int,
        describe: Describe = size_of,
    ) -> None:
        self._topology = topology
        self._switches = switches
        self._priority = priority
        self._describe = describe
        self._before: list[Blocked] = []

    def deadlock(self) -> str:
        """The cycle of ports of which none has sent anything since the last look, in words; "":
        there is none."""
        cycle = self.cycle()
        still = cycle and {(each.place, each.sent) for each in cycle} <= {
            (each.place, each.sent) for each in self._before
        }
        self._before = cycle
        if not still:
            return ""
        lines = [f"  {self._line(each)}" for each in cycle[:MOST_NAMED]]
        if len(cycle) > MOST_NAMED:
            lines.append(f"  and {len(cycle) - MOST_NAMED} more")
        return "\n".join(
            [f"deadlock: {len(cycle)} ports wait for each other, and nothing moves:", *lines]
        )

    def cycle(self) -> list[Blocked]:
        """Blocked ports that wait for each other in a circle; empty: there is none."""
        blocked = {each.place: each for each in self.blocked()}
        waits = {place: self._waits_for(each, blocked) for place, each in blocked.items()}
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:  # its second part names who is waited for first
            return [blocked[place] for place in reversed(error.args[1][1:])]
        return []

    def blocked(self) -> Iterator[Blocked]:
        """Ports that are paused while packets wait for them."""
        for name, switch in self._switches.items():
            counts = {
                row["port"]: row["packets"]
                for row in switch.port_stats()
                if row["direction"] == "egress"
            }
            for port, (neighbour, _, _) in self._topology.ports(name).items():
                seen = switch.flow_stats(port, self._priority)
                if seen["paused"] and seen["waiting"]:
                    times = seen["waiting"], seen["paused_ns"], counts[port]
                    yield Blocked((name, port), neighbour, *times)

    def paused_by_hosts(self) -> list[str]:
        """Ports that hosts keep from sending, and hosts that have sent pauses of no class here, in
        words, the longest pause first."""
        found = []
        for name, switch in self._switches.items():
            for port, (neighbour, _, _) in self._topology.ports(name).items():
                if not self._topology.is_host(neighbour):
                    continue
                seen = switch.flow_stats(port, self._priority)
                if seen["paused"] and seen["waiting"]:
                    time_us = seen["paused_ns"] / 1e3
                    what = (
                        f"host {neighbour} has paused {name}-p{port} for {time_us:g} us in all,"
                        f" where {seen['waiting']} packets wait"
                    )
                    found.append((-seen["paused_ns"], what))
                if seen["unknown"]:
                    bits = seen["unknown_classes"]
                    classes = ", ".join(str(n) for n in range(16) if bits >> n & 1) or "none"
                    what = (
                        f"host {neighbour} has sent {seen['unknown']} pause frames of classes that"
                        f" are not lossless here ({classes}); they were ignored"
                    )
                    found.append((0, what))
        return [what for _, what in sorted(found)]

    def _entry(self, each: Blocked) -> int:
        """The port of the next switch behind a port."""
        name, port = each.place
        _, link, _ = self._topology.ports(name)[port]
        there = self._topology.ports(each.neighbour)
        return next(number for number, (_, index, _) in there.items() if index == link)

    def _waits_for(self, each: Blocked, blocked: Mapping[Place, Blocked]) -> list[Place]:
        """Blocked ports of the next switch that keep its input from taking more."""
        neighbour = each.neighbour
        if self._topology.is_host(neighbour):
            return []
        there, entry = self._topology.ports(neighbour), self._entry(each)
        stuck = [output for output in there if (neighbour, output) in blocked]
        switch = self._switches[neighbour]
        held = flow(switch, entry, self._priority)["held"] > 0
        kept_for = self._lacking(neighbour, entry, blocked) if held else []
        inputs = [entry, *(port for host, port in kept_for if host == neighbour)]
        return [place for place in kept_for if place in blocked] + [
            (neighbour, output)
            for output in stuck
            if flow(switch, output, self._priority)["full"]  # it pauses all inputs
            or any(holds(switch, port, self._priority, output) for port in inputs)
        ]

    def _lacking(self, name: str, entry: int, blocked: Mapping[Place, Blocked]) -> list[Place]:
        """Blocked ports, and ports of this switch to hosts, behind which packets wait that what it
        keeps of an input lacks."""
        switch, found = self._switches[name], []
        for place, each in blocked.items():
            other = self._switches[place[0]]
            if each.neighbour == name and lacks(switch, entry, self._priority, other, place[1]):
                found.append(place)
        for port, (neighbour, _, _) in self._topology.ports(name).items():
            if not self._topology.is_host(neighbour):
                continue
            if lacks(switch, entry, self._priority, switch, port, host=True):
                found.append((name, port))
        return found

    def _line(self, each: Blocked) -> str:
        name, port = each.place
        packet = waiting(self._switches[name], port, self._priority)
        first = f", first {self._describe(packet)}" if packet else ""
        return (
            f"{name}-p{port} was paused by {each.neighbour}{self._kept(each)}; {each.packets}"
            f" packets wait for it{first}"
        )

    def _kept(self, each: Blocked) -> str:
        """Bytes of this port's packets that the next switch keeps, in words; "": none."""
        if self._topology.is_host(each.neighbour):
            return ""
        entry = self._entry(each)
        held = flow(self._switches[each.neighbour], entry, self._priority)["held"]
        return f", which keeps {held} B of sums that are not complete" if held else ""
