"""Lab 16: both ends of an all-gather. A fragment is its number; a host is a bit of a bitmap.

There are no packets and no clock here: the grader passes numbers, and the time in nanoseconds.
"""

from __future__ import annotations


class Receiver:
    """Collects the other workers' shards.

    Args:
        shards: of each other worker, [number of the first fragment, how many].
    """

    def __init__(self, shards: list[list[int]]) -> None:
        self.shards = shards

    def arrived(self, number: int, now_ns: int) -> None:
        """A fragment has come; perhaps not for the first time, or one of no shard."""

    def requests(self, now_ns: int) -> list[int]:
        """The fragments to ask for now."""
        return []  # TODO (task 4)

    def wake_ns(self) -> int | None:
        """Time to call `requests` although nothing comes; None: everything is here."""
        return None  # TODO (task 4)


class Owner:
    """Sends a shard.

    Args:
        first, count: its fragments.
        receivers: bitmap of the others.
    """

    def __init__(self, first: int, count: int, receivers: int) -> None:
        self.left = list(range(first, first + count))
        self.receivers = receivers

    def asked(self, number: int, bitmap: int) -> None:
        """Those in the bitmap ask for a fragment."""
        # TODO (task 4)

    def next(self) -> tuple[int, int] | None:
        """The next packet to send: a fragment, and the bitmap of those for whom it is; None: there
        is nothing to send."""
        return (self.left.pop(0), self.receivers) if self.left else None
