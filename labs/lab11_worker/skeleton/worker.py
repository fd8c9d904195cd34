"""Lab 11: a worker that sends fragments, and gets the result of each, over a network that loses
packets. It has no sockets and no clock: the grader tells it the time and what has come."""

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
        self.sent = 0  # TODO (tasks 1 to 3)

    def poll(self, now_ns: int) -> list[int]:
        """The numbers of the fragments to send at this time, again or for the first time."""
        if self.sent:
            return []
        self.sent += 1
        return [0]

    def result(self, fragment: int, now_ns: int) -> None:
        """The result of a fragment has come; `poll` is called next."""

    def wake_ns(self) -> int | None:
        """Time at which `poll` has to be called although nothing comes; None: never. It is asked
        after each call of `poll`, and the last answer holds."""
        return None
