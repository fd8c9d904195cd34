"""A worker's network in virtual time: packets that are lost, late, twice and out of order.

At its far end is a switch as in lab 4, which adds up what all workers send. Only one worker is the
student's. The others' gradients come by themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from labs.grader.bench import Bench, Failure, Python

US, MS = 1_000, 1_000_000
FIRST_NS, LEAST_NS, MOST_NS = 1 * MS, 20 * US, 64 * MS  # of timeouts
MOST_PACKETS = 20  # per fragment, on average; more is a storm


@dataclass(frozen=True)
class Line:
    """The fate of packets.

    Args:
        one_way_ns: how long a packet that is sent at a time is on its way, in either direction.
        loss: share of packets that are lost, in either direction.
        copies: share of results that come twice, the second time later.
        others_ns: how much later than the worker the others are, at most.
        dead_ns: (begin, end) of a time in which everything is lost.
    """

    one_way_ns: Callable[[int], int]
    loss: float = 0.0
    copies: float = 0.0
    others_ns: int = 0
    dead_ns: tuple[int, int] = (0, 0)


@dataclass
class Timer:
    """The hand-out's estimator of the round trip, over what a worker has measured."""

    smooth: float = 0.0
    spread: float = 0.0
    measured: bool = False

    def measure(self, trip_ns: int) -> None:
        if not self.measured:
            self.smooth, self.spread, self.measured = float(trip_ns), trip_ns / 2, True
            return
        self.spread = 3 / 4 * self.spread + abs(trip_ns - self.smooth) / 4
        self.smooth = 7 / 8 * self.smooth + trip_ns / 8

    @property
    def timeout_ns(self) -> float:
        """Of a fragment that is sent for the first time."""
        if not self.measured:
            return FIRST_NS
        wanted = max(self.smooth + 4 * self.spread, 1.5 * self.smooth, LEAST_NS)
        return min(wanted, MOST_NS)


@dataclass
class Record:
    """The record of a worker: (time, fragment) of each packet, when each fragment's result came
    first, and the timeouts that the fragments should have when they are sent first."""

    sent: list[tuple[int, int]] = field(default_factory=list)
    results: dict[int, int] = field(default_factory=dict)
    timeouts: dict[int, float] = field(default_factory=dict)

    @property
    def end_ns(self) -> int:
        return max(self.results.values(), default=0)

    def times(self, fragment: int) -> list[int]:
        """Times at which packets of a fragment were sent."""
        return [at for at, n in self.sent if n == fragment]

    @property
    def again(self) -> int:
        """Packets beyond the first of each fragment."""
        return len(self.sent) - len({n for _, n in self.sent})


def run(
    t: Bench, p: Python, fragments: int, window: int, line: Line, limit_ns: int = 1000 * MS
) -> Record:
    """Let a new worker send its fragments until all results are there. Raises Failure if they are
    not after `limit_ns`, and for what a worker may not do."""
    return _Run(t, p, fragments, window, line).until(limit_ns)


class _Run:
    def __init__(self, t: Bench, p: Python, fragments: int, window: int, line: Line) -> None:
        self.random, self.p, self.line = t.random, p, line
        self.fragments, self.window = fragments, window
        self.worker = p.make("Worker", fragments, window)
        self.record, self.timer = Record(), Timer()
        self.now = 0
        self.events: list[tuple[int, int, str, int]] = []  # (time, order, what, fragment)
        self.order = self.wake = 0  # wake: the order of the event that wakes the worker
        self.complete: dict[int, int] = {}  # fragment: when the switch has the sum

    def until(self, limit_ns: int) -> Record:
        self.tell([])
        while self.events and self.events[0][0] <= limit_ns:
            self.now, order, what, fragment = heapq.heappop(self.events)
            if what == "result":
                self.answered(fragment)
                self.tell([(self.worker, "result", [fragment, self.now])])
            elif what == "switch":
                self.in_switch(fragment)
            elif order == self.wake:
                self.tell([])
        missing = self.fragments - len(self.record.results)
        if missing:
            text = f"{missing} of {self.fragments} results have not come after"
            raise Failure(f"{text} {limit_ns / MS:g} ms", case="results are missing")
        return self.record

    def answered(self, fragment: int) -> None:
        """A result comes, perhaps not for the first time."""
        if fragment not in self.record.results:
            times = self.record.times(fragment)
            if len(times) == 1:  # Karn's rule
                self.timer.measure(self.now - times[0])
            self.record.results[fragment] = self.now

    def at(self, time_ns: int, what: str, fragment: int) -> None:
        self.order += 1
        heapq.heappush(self.events, (time_ns, self.order, what, fragment))

    def tell(self, calls: list[tuple[int, str, list]]) -> None:
        """Tell the worker what has happened; take what it sends, and when it wants to be asked."""
        calls = [*calls, (self.worker, "poll", [self.now]), (self.worker, "wake_ns", [])]
        *_, packets, wake = self.p.methods(calls)
        if not isinstance(packets, list) or not all(type(n) is int for n in packets):
            text = "poll() returns no list of fragment numbers"
            raise Failure(f"{text}, but {packets!r}"[:200], case=text)
        for fragment in packets:
            self.send(fragment)
        done = len(self.record.results) == self.fragments
        if done and (wake is not None or packets):
            text = "all results are here, and the worker goes on"
            told = f"wake_ns() returns {wake!r}, poll() {packets!r}"
            raise Failure(f"{text}: {told}"[:200], case=text)
        if wake is None:
            return
        if type(wake) is not int or wake <= self.now:
            text = "wake_ns() returns no later time"
            raise Failure(f"{text} than {self.now}, but {wake!r}"[:200], case=text)
        self.at(wake, "wake", 0)
        self.wake = self.order

    def send(self, fragment: int) -> None:
        record, before = self.record, fragment - self.window
        if not 0 <= fragment < self.fragments:
            raise Failure(f"there is no fragment {fragment}", case="there is no such fragment")
        if before >= 0 and before not in record.results:
            text = "a fragment is sent while its slot is in use"
            told = f"fragment {fragment} is sent, and the result of fragment {before} is not here"
            raise Failure(f"{text}: {told}", case=text)
        if fragment in record.results:
            text = "a fragment is sent whose result is here"
            raise Failure(f"{text}: {fragment}", case=text)
        record.timeouts.setdefault(fragment, self.timer.timeout_ns)
        record.sent.append((self.now, fragment))
        if len(record.sent) > MOST_PACKETS * self.fragments:
            text = "the worker sends too much"
            raise Failure(f"{text}: {len(record.sent)} packets", case=text)
        if not self.lost():
            self.at(self.now + self.line.one_way_ns(self.now), "switch", fragment)

    def lost(self) -> bool:
        begin, end = self.line.dead_ns
        return begin <= self.now < end or self.random.random() < self.line.loss

    def in_switch(self, fragment: int) -> None:
        """A gradient of the worker is at the switch, which answers when the sum is complete."""
        first = fragment not in self.complete
        if first:
            late = self.random.randrange(self.line.others_ns + 1)
            self.complete[fragment] = self.now + late
        ready = self.complete[fragment]
        if self.lost() or not first and self.now < ready:
            return  # the answer is lost, or this is a copy and the sum is not complete
        begin = max(self.now, ready)
        back = begin + self.line.one_way_ns(begin)
        self.at(back, "result", fragment)
        if self.random.random() < self.line.copies:
            self.at(back + self.line.one_way_ns(begin), "result", fragment)
