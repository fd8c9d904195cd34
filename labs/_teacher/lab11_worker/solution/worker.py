"""Lab 11: a worker that sends fragments, and gets the result of each, over a network that loses
packets."""

from __future__ import annotations

FIRST_NS = 1_000_000  # timeout before anything has been measured
LEAST_NS = 20_000  # of a timeout
MOST_NS = 64_000_000


class Worker:
    """Sends the fragments 0 to `fragments` - 1.

    Args:
        window: slots in the switch. Fragment n uses slot n % window.
    """

    def __init__(self, fragments: int, window: int) -> None:
        self.fragments, self.window = fragments, window
        self.ready = list(range(min(window, fragments)))  # to be sent for the first time
        self.done = 0  # results
        self.first: dict[int, int] = {}  # fragment in flight: time at which it was sent first
        self.wait: dict[int, int] = {}  # its timeout
        self.due: dict[int, int] = {}  # the time at which it is over
        self.again: set[int] = set()  # fragments that were sent more than once
        self.smooth = self.spread = 0.0  # of the round trip
        self.measured = False

    def poll(self, now_ns: int) -> list[int]:
        """The numbers of the fragments to send at this time, again or for the first time."""
        late = [n for n, due in self.due.items() if due <= now_ns]
        for n in late:
            self.again.add(n)
            self.wait[n] = min(2 * self.wait[n], MOST_NS)
            self.due[n] = now_ns + self.wait[n]
        new, self.ready = self.ready, []
        for n in new:
            self.first[n], self.wait[n] = now_ns, self._timeout()
            self.due[n] = now_ns + self.wait[n]
        return late + new

    def result(self, fragment: int, now_ns: int) -> None:
        """The result of a fragment has come."""
        if fragment not in self.due:
            return
        del self.due[fragment]
        self.done += 1
        if fragment + self.window < self.fragments:
            self.ready.append(fragment + self.window)
        if fragment not in self.again:
            self._measure(now_ns - self.first[fragment])

    def wake_ns(self) -> int | None:
        """Time at which `poll` has to be called although nothing comes."""
        return min(self.due.values(), default=None)

    def _timeout(self) -> int:
        if not self.measured:
            return FIRST_NS
        return int(min(max(self.smooth + 4 * self.spread, 1.5 * self.smooth, LEAST_NS), MOST_NS))

    def _measure(self, trip_ns: int) -> None:
        if not self.measured:
            self.smooth, self.spread, self.measured = float(trip_ns), trip_ns / 2, True
            return
        self.spread += (abs(trip_ns - self.smooth) - self.spread) / 4
        self.smooth += (trip_ns - self.smooth) / 8
