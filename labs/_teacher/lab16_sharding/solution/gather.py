"""Lab 16: both ends of an all-gather. A fragment is its number; a host is a bit of a bitmap."""

from __future__ import annotations

SILENCE_NS = 1_000_000
FIRST_NS, MOST_NS = 1_000_000, 64_000_000


class Receiver:
    """Collects the other workers' shards.

    Args:
        shards: of each other worker, [number of the first fragment, how many].
    """

    def __init__(self, shards: list[list[int]]) -> None:
        self.shard: dict[int, int] = {}  # of each fragment
        for shard, (first, count) in enumerate(shards):
            self.shard.update(dict.fromkeys(range(first, first + count), shard))
        self.missing = dict(self.shard)
        self.last = [0] * len(shards)  # when something came of each shard
        self.due: dict[int, int] = {}  # when a fragment that is lost is asked for
        self.wait: dict[int, int] = {}

    def arrived(self, number: int, now_ns: int) -> None:
        """A fragment has come; perhaps not for the first time, or one of another job."""
        if number not in self.shard:
            return
        shard = self.shard[number]
        self.last[shard] = now_ns
        self.missing.pop(number, None)
        self.due.pop(number, None)
        for each, of in self.missing.items():
            if of == shard and each < number:
                self.due.setdefault(each, now_ns)

    def requests(self, now_ns: int) -> list[int]:
        """The fragments to ask for now."""
        for number, shard in self.missing.items():
            if self.last[shard] + SILENCE_NS <= now_ns:
                self.due.setdefault(number, now_ns)
        made = sorted(number for number, due in self.due.items() if due <= now_ns)
        for number in made:
            wait = self.wait.get(number, FIRST_NS)
            self.due[number], self.wait[number] = now_ns + wait, min(2 * wait, MOST_NS)
        return made

    def wake_ns(self) -> int | None:
        """Time to call `requests` although nothing comes; None: everything is here."""
        silent = [self.last[s] + SILENCE_NS for n, s in self.missing.items() if n not in self.due]
        return min([*silent, *self.due.values()], default=None)


class Owner:
    """Sends a shard.

    Args:
        first, count: its fragments.
        receivers: bitmap of the others.
    """

    def __init__(self, first: int, count: int, receivers: int) -> None:
        self.fragments = range(first, first + count)
        self.sent = 0
        self.receivers = receivers
        self.wanted: dict[int, int] = {}  # fragment: who has asked

    def asked(self, number: int, bitmap: int) -> None:
        """Somebody asks for a fragment."""
        if number in self.fragments[: self.sent] and bitmap & self.receivers:
            self.wanted[number] = self.wanted.get(number, 0) | bitmap & self.receivers

    def next(self) -> tuple[int, int] | None:
        """The next packet to send: a fragment, and the bitmap of those for whom it is."""
        if self.wanted:
            number = next(iter(self.wanted))
            return number, self.wanted.pop(number)
        if self.sent == len(self.fragments):
            return None
        self.sent += 1
        return self.fragments[self.sent - 1], self.receivers
