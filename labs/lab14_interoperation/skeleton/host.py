"""Lab 14: a host of any network, with the wire format of the hand-out. It has no sockets and no
clock: it is told the time and what has come."""

from __future__ import annotations

SLOTS, VALUES = 8, 8


class Host:
    """A worker of a job.

    Args:
        setting: numbers by name: job, worker (number of its bit), everyone (the bitmap of all
            workers), first (number of the first fragment), mac, ip, switch_mac, switch_ip.
        values: a list for each fragment, of VALUES int32 each.
    """

    def __init__(self, setting: dict[str, int], values: list[list[int]]) -> None:
        self.setting, self.values = setting, values
        self.made: list[list[int] | None] = [None] * len(values)

    def poll(self, now_ns: int) -> list[bytes]:
        """The packets to send at this time."""
        return []  # TODO (tasks 2 and 3)

    def receive(self, frame: bytes, now_ns: int) -> None:
        """A packet has come, for this host or not; `poll` is called next."""

    def wake_ns(self) -> int | None:
        """Time at which `poll` has to be called although nothing comes; None: never."""
        return None

    def sums(self) -> list[list[int] | None]:
        """The sum of each fragment; None: it has not come."""
        return self.made
