"""A network in virtual time: nodes, links with a rate, a delay, losses and a finite queue.

Checks put hosts of a submission, hosts of ours and switches into it. Time is in nanoseconds and
goes from event to event, so what is measured is the same on every machine. Bytes are those of the
frames, from the Ethernet header on.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from labs.grader.bench import Failure, Packets, Switch

Answer = tuple[Packets, int | None]
MOST_EVENTS = 1_000_000


@dataclass(frozen=True)
class Link:
    """A link in one direction.

    Args:
        delay_ns: from the end of sending to arrival.
        byte_ns: time to send a byte.
        loss: share of frames that are lost.
        copies: share of the others that come twice, the second time up to `late_ns` later.
        queue_bytes: of frames that have not left yet, at most (needs byte_ns); None: any amount.
    """

    delay_ns: int
    byte_ns: float = 0.0
    loss: float = 0.0
    copies: float = 0.0
    late_ns: int = 1
    queue_bytes: int | None = None


class Node(Protocol):
    """A host or a switch. `take`: a frame has come at a port, or it is the time of the last wake
    (None). Returns what leaves, as (port, frame), and when it wants to be asked again (None: when a
    frame comes)."""

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer: ...


class P4Node:
    """A submission's switch."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        if frame is None:
            return [], None
        made = [(p, d) for _, p, d in self.switch.burst([(now_ns, port, frame)])]
        self.switch.nothing_astray()
        return made, None


@dataclass
class Count:
    """Count of a node's port: frames and bytes sent, frames lost on the link, and dropped
    before it because the queue was full."""

    frames: int = 0
    bytes: int = 0
    lost: int = 0
    dropped: int = 0


class Fabric:
    """Nodes and links.

    Args:
        rng: decides about losses and copies.
        calm_ns: until then there are none.
    """

    def __init__(self, rng: random.Random, calm_ns: int = 0) -> None:
        self.rng, self.calm_ns = rng, calm_ns
        self.now_ns = 0
        self.nodes: dict[str, Node] = {}
        self.counts: dict[tuple[str, int], Count] = {}
        self._ends: dict[tuple[str, int], tuple[str, int, Link]] = {}
        self._free_ns: dict[tuple[str, int], float] = {}  # when what has been sent is through
        self._events: list[tuple[int, int, str, int, bytes | None]] = []
        self._order = 0
        self._wakes: dict[str, int] = {}

    def add(self, name: str, node: Node) -> None:
        self.nodes[name] = node
        self._at(0, name, 0, None)

    def join(
        self, one: tuple[str, int], other: tuple[str, int], link: Link, back: Link | None = None
    ) -> None:
        """Join two (node, port). `back`: the link from the other one, if it is not the same."""
        for a, b, way in ((one, other, link), (other, one, back or link)):
            self._ends[a] = (*b, way)
            self.counts[a] = Count()
            self._free_ns[a] = 0.0

    def cut(self, name: str) -> None:
        """A node fails: nothing goes there or comes from there any more."""
        for end in [e for e, (b, _, _) in self._ends.items() if name in (e[0], b)]:
            del self._ends[end]
        self._events = [e for e in self._events if e[2] != name]
        heapq.heapify(self._events)

    def mute(self, name: str, port: int) -> None:
        """Lose all frames that leave a node at a port from now on."""
        del self._ends[name, port]

    def run(self, done: Callable[[], bool], limit_ns: int, most: int = MOST_EVENTS) -> bool:
        """Until `done`, or until nothing happens any more before `limit_ns`; whether it is done.
        Raises Failure after so many events: packets that make packets would never end."""
        for _ in range(most):
            if done():
                return True
            if not self._events or self._events[0][0] > limit_ns:
                return False
            self.now_ns, order, name, port, frame = heapq.heappop(self._events)
            if frame is None and order != self._wakes[name]:
                continue  # it has asked for another time since
            leaving, wake = self.nodes[name].take(self.now_ns, port, frame)
            for out, each in leaving:
                self._send(name, out, each)
            self._wakes[name] = -1
            if wake is not None:
                self._at(wake, name, 0, None)
        text = "there are far too many packets"
        raise Failure(f"{text}: after {most} events it is not done", case=text)

    def _at(self, time_ns: int, name: str, port: int, frame: bytes | None) -> None:
        self._order += 1
        if frame is None:
            self._wakes[name] = self._order
        heapq.heappush(self._events, (time_ns, self._order, name, port, frame))

    def _send(self, name: str, port: int, frame: bytes) -> None:
        end = (name, port)
        if end not in self.counts:
            text = "a packet leaves at a port where nobody is"
            raise Failure(text, got=[(port, frame)], case=text)
        if end not in self._ends:
            return  # the link has been cut
        to, at, link = self._ends[end]
        count, size = self.counts[end], len(frame)
        begin = max(self._free_ns[end], self.now_ns)
        if link.queue_bytes is not None:
            waiting = (begin - self.now_ns) / link.byte_ns
            if waiting + size > link.queue_bytes:
                count.dropped += 1
                return
        self._free_ns[end] = begin + size * link.byte_ns
        count.frames += 1
        count.bytes += size
        calm = self.now_ns < self.calm_ns
        if not calm and self.rng.random() < link.loss:
            count.lost += 1
            return
        arrives = round(self._free_ns[end]) + link.delay_ns
        self._at(arrives, to, at, frame)
        if not calm and self.rng.random() < link.copies:
            self._at(arrives + self.rng.randrange(link.late_ns), to, at, frame)
