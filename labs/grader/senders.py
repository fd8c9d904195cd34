"""Hosts of ours that send again what has no answer, for checks in a network (fabric.py)."""

from __future__ import annotations

from labs.grader.bench import Packets
from labs.grader.fabric import Answer
from labs.grader.jobs import SLOTS

WAIT_NS = 2_000_000  # until a packet is sent again; twice as long each time
MOST_NS = 16 * WAIT_NS


class Timers:
    """Times at which packets are sent again, by their keys."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[int, int]] = {}  # (when, the wait before)

    def __contains__(self, key: int) -> bool:
        return key in self._due

    def start(self, key: int, now_ns: int) -> None:
        self._due[key] = now_ns + WAIT_NS, WAIT_NS

    def stop(self, key: int) -> None:
        self._due.pop(key, None)

    def late(self, now_ns: int) -> list[int]:
        """The keys of packets that have to be sent again now."""
        made = [key for key, (due, _) in self._due.items() if due <= now_ns]
        for key in made:
            wait = min(2 * self._due[key][1], MOST_NS)
            self._due[key] = now_ns + wait, wait
        return made

    def wake_ns(self) -> int | None:
        return min((due for due, _ in self._due.values()), default=None)


class WindowSender:
    """A host that sends fragments 0, 1, 2, ... until each has its result. A fragment is sent when
    the result of that SLOTS before has come."""

    def __init__(self, fragments: int) -> None:
        self.fragments, self.next = fragments, 0
        self.got: set[int] = set()
        self.timers = Timers()

    @property
    def done(self) -> bool:
        return len(self.got) == self.fragments

    def packet(self, fragment: int, again: bool) -> bytes:
        """The frame of a fragment."""
        raise NotImplementedError

    def result(self, data: bytes) -> int | None:
        """The fragment whose result a frame is; None: it is something else. Raises Failure for a
        wrong one."""
        raise NotImplementedError

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        fragment = None if frame is None else self.result(frame)
        if fragment is not None:
            self.got.add(fragment)
            self.timers.stop(fragment)
        sent: Packets = [(0, self.packet(n, True)) for n in self.timers.late(now_ns)]
        while self.next < self.fragments and (self.next < SLOTS or self.next - SLOTS in self.got):
            self.timers.start(self.next, now_ns)
            sent.append((0, self.packet(self.next, False)))
            self.next += 1
        return sent, self.timers.wake_ns()
