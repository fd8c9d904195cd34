"""The steps of a fragment's packets, in order of time and linked to each other, and the way along
which its result came late.

What was seen at each place (a host sends, a switch handles, a packet leaves a queue, a packet
arrives) is known by its place and its header. A link keeps the order of packets with equal headers,
so the first that comes out is the first that went in, and one that never comes out got lost.

The *late path* goes backwards from the last worker's first result, along the values. A result
followed from the last gradient that its sender had got; a sum that a switch sent on from the packet
that completed it, or, where it left for a reminder or was evicted, from the last one that was
added; what else a host sent from the last packet that it had got. A worker sends its gradient for
the first time on its own schedule, so the path ends there, with the time since another worker sent
it first. So it names where the time went, wait by wait.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from testbed.protocols import wire
from testbed.topology import Topology
from testbed.tracing.packets import Packet
from testbed.tracing.watch import Gone, Handled, Slot, Values

SENT, HANDLED, GONE, ARRIVED = "sent", "handled", "left", "arrived"


class Seen(NamedTuple):
    """A packet on the link of a host, at a switch's port: sent by the host, or arrived there."""

    time_ns: int
    host: str
    switch: str
    port: int
    packet: Packet


@dataclass
class Step:
    """One step. `kind`: SENT (by host `node`), HANDLED (by switch `node`), GONE (it left the queue
    of switch `node` for the link) or ARRIVED (at host `node`). `peer`: where it goes to, or comes
    from. `cause`: the step that it followed from. `content`: that from which its values come, if it
    is another one. `end`: what became of it, if that ended here."""

    number: int
    time_ns: int
    node: str
    kind: str
    peer: str
    packet: Packet
    event: str = ""
    before: Slot | None = None
    after: Slot | None = None
    leaves: Packet | None = None
    cause: Step | None = None
    content: Step | None = None
    end: str = ""
    port: int = 0
    to_port: int | None = None
    copies: bool = False
    values: Values | None = None


class Wait(NamedTuple):
    """A part of the late path: what took so long, between two times."""

    what: str
    where: str
    begin_ns: int
    end_ns: int

    @property
    def time_ns(self) -> int:
        return self.end_ns - self.begin_ns


@dataclass
class Path:
    """All steps of one fragment. `waits`: its late path, in order of time; empty if no worker got a
    result."""

    steps: list[Step] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)

    @property
    def first_ns(self) -> int | None:
        return self.steps[0].time_ns if self.steps else None

    @property
    def late_ns(self) -> int | None:
        """From the first packet that a worker sent to the last worker's first result."""
        return sum(wait.time_ns for wait in self.waits) if self.waits else None


class Ports:
    """What is at the other end of each switch's port."""

    def __init__(self, topology: Topology) -> None:
        self._there = {
            (switch, port): (neighbour, link)
            for switch in topology.switches
            for port, (neighbour, link, _) in topology.ports(switch).items()
        }
        self._hosts = frozenset(topology.hosts)
        self._far: dict[tuple[str, int], tuple[str, int]] = {}
        for (switch, port), (neighbour, link) in self._there.items():
            if neighbour not in self._hosts:
                for other, (_, same, _) in topology.ports(neighbour).items():
                    if same == link:
                        self._far[switch, port] = neighbour, other

    def neighbour(self, switch: str, port: int) -> str:
        there = self._there.get((switch, port))
        return there[0] if there else "?"

    def far(self, switch: str, port: int) -> tuple[str, int] | None:
        """The switch and port at the other end of a link between switches."""
        return self._far.get((switch, port))

    def of_hosts(self, switch: str) -> dict[int, str]:
        """The ports of a switch that lead to hosts."""
        return {
            port: name
            for (node, port), (name, _) in self._there.items()
            if node == switch and name in self._hosts
        }


def path_of(
    ports: Ports,
    sent: Sequence[Seen],
    handled: Sequence[Handled],
    gone: Sequence[Gone],
    arrived: Sequence[Seen],
    workers: Sequence[str],
    queues_seen: bool = True,
    by_hosts: bool = False,
) -> Path:
    """The path of one fragment from what was seen of its packets; `handled` may have packets of
    others that found its aggregator. workers: the hosts of its job's workers. queues_seen: `gone`
    has all packets that left queues, so that one that is missing got lost. by_hosts: hosts add
    up."""
    steps = [Step(0, s.time_ns, s.host, SENT, s.switch, s.packet, port=s.port) for s in sent]
    steps += [
        Step(
            0,
            h.time_ns,
            h.switch,
            HANDLED,
            ports.neighbour(h.switch, h.port),
            h.packet,
            h.event,
            h.before,
            h.after,
            h.leaves,
            port=h.port,
            to_port=h.to_port,
            copies=h.copies,
            values=h.values,
        )
        for h in handled
    ]
    steps += [
        Step(0, g.time_ns, g.switch, GONE, ports.neighbour(g.switch, g.port), g.packet, port=g.port)
        for g in gone
    ]
    steps += [Step(0, a.time_ns, a.host, ARRIVED, a.switch, a.packet, port=a.port) for a in arrived]
    steps = [step for step in steps if not step.packet.is_acknowledgement]
    order = {SENT: 0, HANDLED: 1, GONE: 2, ARRIVED: 3}
    steps.sort(key=lambda step: (step.time_ns, order[step.kind]))
    for number, step in enumerate(steps):
        step.number = number
    _link(ports, steps, queues_seen)
    return Path(steps, _waits(steps, frozenset(workers), by_hosts))


def _link(ports: Ports, steps: list[Step], queues_seen: bool) -> None:
    """Let every step know the one that it followed from, and every packet what became of it."""
    to_switch: dict[tuple, deque[Step]] = defaultdict(deque)  # (switch, port, header)
    to_queue: dict[tuple, deque[Step]] = defaultdict(deque)
    to_host: dict[tuple, deque[Step]] = defaultdict(deque)
    copied: dict[tuple, Step] = {}
    again: dict[tuple, Step] = {}  # by place and header: what came last, for links that duplicate
    ours = {step.packet.key for step in steps if step.kind != HANDLED}
    got: dict[str, Step] = {}  # by host: the last packet of the fragment
    mine: dict[tuple[str, bool], Step] = {}  # by host: what it has sent last
    summed: dict[str, Step] = {}  # the same of gradients
    held: dict[str, Step] = {}  # by switch: the gradient that it has handled last
    followed: set[int] = set()
    for step in steps:
        key = step.packet.key
        if step.kind == SENT:
            before = mine.get((step.node, step.packet.is_gradient))
            if before is not None or not step.packet.is_gradient:
                step.cause = got.get(step.node) or before
            if step.packet.is_result:
                step.content = summed.get(step.node)
            mine[step.node, step.packet.is_gradient] = step
            switch = step.peer
            to_switch[switch, step.port, key].append(step)
            continue
        if step.kind == HANDLED:
            place = step.node, step.port, key
            step.cause = _first(to_switch, place) or again.get(place)
            if step.cause is not None:
                again[place] = step.cause
            left = step.leaves
            own = step.packet.is_gradient and key in ours
            if left is not None and left.is_gradient and left.key in ours and not own:
                step.content = held.get(step.node)
            if step.after is not None and own:
                held[step.node] = step
            if step.leaves is not None:
                if step.copies:
                    copied[step.node, step.leaves.key] = step
                else:
                    (to_queue if queues_seen else to_host)[
                        step.node, step.to_port, step.leaves.key
                    ].append(step)
        elif step.kind == GONE:
            step.cause = _first(to_queue, (step.node, step.port, key)) or copied.get(
                (step.node, key)
            )
            far = ports.far(step.node, step.port)
            if far is not None:
                to_switch[(*far, key)].append(step)
            else:
                to_host[step.node, step.port, key].append(step)
        else:
            place = step.peer, step.port, key
            step.cause = _first(to_host, place) or again.get(place) or copied.get((step.peer, key))
            if step.cause is not None:
                again[place] = step.cause
            got[step.node] = step
            if step.packet.is_gradient:
                summed[step.node] = step
        if step.cause is not None:
            followed.add(step.cause.number)
    if not queues_seen:
        return
    for step in steps:
        if step.number in followed or step.packet.key not in ours:
            continue
        if step.kind in (SENT, GONE):
            step.end = "lost on the link, or under way at the end of the trace"
        elif step.kind == HANDLED and step.leaves is not None and step.leaves.key in ours:
            step.end = "dropped by a full queue, or in it at the end of the trace"


def _first(waiting: dict[tuple, deque[Step]], place: tuple) -> Step | None:
    line = waiting.get(place)
    return line.popleft() if line else None


def _waits(steps: list[Step], workers: frozenset[str], by_hosts: bool) -> list[Wait]:
    """The late path, from the first packet of a worker on."""

    def is_whole(packet: Packet) -> bool:
        return packet.is_whole_of_hosts if by_hosts else packet.is_result

    def is_part(packet: Packet) -> bool:
        return packet.is_part_of_hosts if by_hosts else packet.is_gradient

    firsts: dict[str, Step] = {}
    for step in steps:
        if step.kind == ARRIVED and is_whole(step.packet) and step.node in workers:
            firsts.setdefault(step.node, step)
    sent = [s for s in steps if s.kind == SENT and s.node in workers and is_part(s.packet)]
    if not firsts or not sent:
        return []
    at = max(firsts.values(), key=lambda step: (step.time_ns, step.number))
    waits: list[Wait] = []
    seen = {at.number}
    while (cause := at.content or at.cause) is not None and cause.number not in seen:
        seen.add(cause.number)
        waits.append(Wait(*_named(cause, at), cause.time_ns, at.time_ns))
        at = cause
    begin = sent[0]
    if at.time_ns > begin.time_ns:
        what = f"{at.node} sent its part so much later than {begin.node}"
        waits.append(Wait(what, at.node, begin.time_ns, at.time_ns))
    waits.reverse()
    return _merged(waits)


def _named(cause: Step, step: Step) -> tuple[str, str]:
    """(what was waited for, where) between two steps."""
    if step.kind == HANDLED and cause.kind == HANDLED:
        how = "a reminder pulled it" if step.packet.kind == wire.REMINDER else "it was evicted"
        return f"in an aggregator of {step.node}, until {how}", step.node
    if step.kind == HANDLED:
        return f"on the link {cause.node} to {step.node}", f"{cause.node}-{step.node}"
    if step.kind == GONE:
        return f"in the queue of {step.node} to {step.peer}", step.node
    if step.kind == ARRIVED:
        return f"on the link {step.peer} to {step.node}", f"{step.peer}-{step.node}"
    if cause.kind == ARRIVED:
        if step.packet.kind == wire.REMINDER:
            return f"{step.node} waited for the rest, then sent a reminder", step.node
        if step.packet.kind == wire.ASK:
            return f"{step.node} waited for the rest, then asked a worker", step.node
        return f"in {step.node}", step.node
    if step.packet.flags & wire.RESEND:
        return f"{step.node} had no result, until it sent it again", step.node
    if step.packet.kind == wire.REMINDER:
        return f"{step.node} waited for an answer, then reminded again", step.node
    return f"in {step.node}", step.node


def _merged(waits: list[Wait]) -> list[Wait]:
    """Neighbours of one name as one, without those of no time."""
    found: list[Wait] = []
    for wait in waits:
        if not wait.time_ns:
            continue
        if found and found[-1].what == wait.what:
            wait = found.pop()._replace(end_ns=wait.end_ns)
        found.append(wait)
    return found
