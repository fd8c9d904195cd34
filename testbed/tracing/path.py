"""The steps of a fragment's packets, in order of time and linked to each other, and the way along
which its result came late.

What was seen at two places belongs together by the packet's identity. Within a switch that is the
mark of its pass. On a link it is the time: the traffic manager tells when each packet comes out of
it, and which ones are dropped, lost or doubled. Only between a switch that was made again and what
the captures of the run have (replay.py), times differ: there the first packet that comes out is the
first that went in, of those that the link has not lost.

The *late path* goes backwards from the last worker's first result, along the values. A result
followed from the last gradient that its sender had got; a sum that a switch sent on from the packet
that completed it, or, where it left for a reminder or was evicted, from the last one that was
added; what else a host sent from the last packet that it had got. A worker sends its gradient for
the first time on its own schedule, so the path ends there, with the time since another worker sent
it first. So it names where the time went, wait by wait.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from p4fabric.base.topology import Topology

from testbed.protocols import wire
from testbed.tracing.fragments import Fragment
from testbed.tracing.packets import Packet
from testbed.tracing.watch import Fate, Gone, Handled, Seen, Slot, Values

SENT, HANDLED, GONE, ARRIVED = "sent", "handled", "left", "arrived"
# What ends a packet's way, or makes two of it, in words.
ENDS = {
    "lost": "lost on the link",
    "queue drop": "dropped by a full queue",
    "down": "lost, since the link was down",
    "duplicated": "doubled by the link",
    "waiting": "in the queue at the end of the trace",
    "under way": "on the link at the end of the trace",
    "egress drop": "dropped by the program's egress",
}


@dataclass
class Step:
    """One step. `kind`: SENT (by host `node`), HANDLED (by switch `node`), GONE (it left the queue
    of switch `node` for the link) or ARRIVED (at host `node`). `peer`: where it goes to, or comes
    from. `cause`: the step that it followed from. `content`: that from which its values come, if it
    is another one. `ends`: what became of it outside of the pipelines, of copies by the neighbour
    that each was for: (one of ENDS, neighbour)."""

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
    ends: list[tuple[str, str]] = field(default_factory=list)
    port: int = 0
    copies: bool = False
    values: Values | None = None
    came: int = 0
    mark: int = 0

    @property
    def end(self) -> str:
        """Fate of the packet, in words."""
        to = " to {}" if self.copies else ""
        return "; ".join((ENDS[what] + to).format(peer) for what, peer in self.ends)


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
    """Neighbour at each switch's port."""

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
    fragment: Fragment,
    ports: Ports,
    sent: Sequence[Seen],
    handled: Sequence[Handled],
    gone: Sequence[Gone],
    arrived: Sequence[Seen],
    workers: Sequence[str],
    fates: Mapping[tuple, Sequence[Fate]],
    watched: Collection[str],
    again: bool = False,
    by_hosts: bool = False,
) -> Path:
    """The path of a fragment from what was seen of its packets; `handled` may have packets of
    others that found its aggregator. workers: the hosts of its job's workers. fates: of Watch.
    watched: the switches that have one. again: they were made again, for the captures of a run.
    by_hosts: hosts add up."""
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
            copies=h.copies,
            values=h.values,
            came=h.came,
            mark=h.mark,
        )
        for h in handled
    ]
    steps += [
        Step(
            0,
            g.time_ns,
            g.switch,
            GONE,
            ports.neighbour(g.switch, g.port),
            g.packet,
            port=g.port,
            came=g.came,
            mark=g.mark,
        )
        for g in gone
    ]
    steps += [Step(0, a.time_ns, a.host, ARRIVED, a.switch, a.packet, port=a.port) for a in arrived]
    steps = [step for step in steps if not step.packet.is_acknowledgement]
    order = {SENT: 0, HANDLED: 1, GONE: 2, ARRIVED: 3}
    steps.sort(key=lambda step: (step.time_ns, order[step.kind]))
    for number, step in enumerate(steps):
        step.number = number
    _link(fragment, ports, steps, fates, watched, again)
    return Path(steps, _waits(steps, frozenset(workers), by_hosts))


def _link(
    fragment: Fragment,
    ports: Ports,
    steps: list[Step],
    fates: Mapping[tuple, Sequence[Fate]],
    watched: Collection[str],
    again: bool,
) -> None:
    """Let every step know the one that it followed from, and every packet what became of it."""
    under_way: dict[tuple, deque[Step]] = defaultdict(deque)  # by place, header and time of arrival
    passes: dict[tuple[str, int], Step] = {}  # by switch and mark

    def is_ours(packet: Packet | None) -> bool:
        return packet is not None and (packet.job, packet.fragment) == fragment

    got: dict[str, Step] = {}  # by host: the last packet of the fragment
    mine: dict[tuple[str, bool], Step] = {}  # by host: what it has sent last
    summed: dict[str, Step] = {}  # the same of gradients
    held: dict[str, Step] = {}  # by switch: the gradient that it has handled last
    for step in steps:
        key = step.packet.key
        if step.kind == SENT:
            before = mine.get((step.node, step.packet.is_gradient))
            if before is not None or not step.packet.is_gradient:
                step.cause = got.get(step.node) or before
            if step.packet.is_result:
                step.content = summed.get(step.node)
            mine[step.node, step.packet.is_gradient] = step
            here = fates.get((step.peer, step.port, step.time_ns), ())
            own = next((fate for fate in here if fate.sent is step.packet), None)
            if own is not None:
                step.ends.append((own.what, step.peer))
            copies = {None: 1, "duplicated": 2}.get(own and own.what, 0)
            under_way[step.peer, step.port, key, step.time_ns].extend([step] * copies)
        elif step.kind == HANDLED:
            passes[step.node, step.mark] = step
            step.cause = _first(under_way, (step.node, step.port, key, step.came))
            if step.cause is None and again:
                step.cause = _first(under_way, (step.node, step.port, key, None))
            leaves = step.leaves
            adds = step.packet.is_gradient and is_ours(step.packet)
            if leaves is not None and leaves.is_gradient and is_ours(leaves) and not adds:
                step.content = held.get(step.node)
            if step.after is not None and adds:
                held[step.node] = step
            for fate in fates.get((step.node, step.mark), ()) if is_ours(leaves) else ():
                step.ends.append((fate.what, ports.neighbour(step.node, fate.port)))
        elif step.kind == GONE:
            step.cause = passes.get((step.node, step.came))
            switch, port = ports.far(step.node, step.port) or (step.node, step.port)
            for fate in fates.get((step.node, step.mark), ()):
                if fate.what == "emitted":
                    time_ns = None if again else fate.time_ns
                    under_way[switch, port, key, time_ns].append(step)
                else:
                    step.ends.append((fate.what, step.peer))
        else:
            when = None if again else step.time_ns
            step.cause = _first(under_way, (step.peer, step.port, key, when))
            got[step.node] = step
            if step.packet.is_gradient:
                summed[step.node] = step
    # What neither ended nor came out was on its way when the trace ended. A host that sends again
    # says nothing about what it has sent before.
    followed = {step.cause.number for step in steps if step.cause and step.kind != SENT}
    for step in steps:
        if step.ends or step.number in followed:
            continue
        if step.kind == HANDLED and is_ours(step.leaves):
            step.ends.append(("waiting", step.peer))
        elif step.kind == SENT and step.peer in watched:
            here = fates.get((step.peer, step.port, step.time_ns), ())
            failed = any(fate.sent is None for fate in here)
            step.ends.append(("down" if failed else "under way", step.peer))
        elif step.kind == GONE and not again:
            step.ends.append(("under way", step.peer))


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
