"""Survey of a run for fragments to look at: the slowest ones, and the first that was evicted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from p4fabric.base.config.pcapng import INBOUND

from testbed.protocols import wire
from testbed.tracing.fragments import Fragment
from testbed.tracing.packets import packet_in

if TYPE_CHECKING:
    from testbed.setup import Platform


class Late(NamedTuple):
    """Lateness of a fragment's result: from the first packet that a worker sent of it to the
    result at the last worker, in ns."""

    time_ns: int
    fragment: Fragment


class Survey:
    """Watch of the ports of hosts. workers: the hosts of each communicator's workers, by number;
    of others every host counts as one. by_hosts: jobs whose hosts add up."""

    def __init__(
        self,
        platform: Platform,
        workers: Mapping[int, Collection[str]],
        by_hosts: Collection[int] = (),
    ) -> None:
        self._by_hosts = frozenset(by_hosts)
        self._bits = platform.bitmap_bits, platform.tokens
        self._workers = {number: frozenset(hosts) for number, hosts in workers.items()}
        self._first: dict[Fragment, int] = {}
        self._last: dict[Fragment, int] = {}
        self._had: set[tuple[Fragment, str]] = set()
        self._evicted: tuple[int, Fragment] | None = None

    def note(self, host: str, direction: int, time_ns: int, frame: bytes) -> None:
        """A packet at the port of a host: INBOUND from it, OUTBOUND to it."""
        packet = packet_in(frame, *self._bits)
        if packet is None:
            return
        fragment = Fragment(packet.job, packet.fragment)
        among_hosts = packet.job in self._by_hosts
        is_part = packet.is_part_of_hosts if among_hosts else packet.is_gradient
        is_whole = packet.is_whole_of_hosts if among_hosts else packet.is_result
        if direction == INBOUND:
            if is_part and time_ns < self._first.get(fragment, time_ns + 1):
                self._first[fragment] = time_ns
        elif is_whole:
            hosts = self._workers.get(packet.job)
            if (hosts is None or host in hosts) and (fragment, host) not in self._had:
                self._had.add((fragment, host))
                self._last[fragment] = max(self._last.get(fragment, 0), time_ns)
        elif packet.is_gradient and packet.flags & (wire.PARTIAL | wire.REMINDED) == wire.PARTIAL:
            found = time_ns, fragment
            self._evicted = found if self._evicted is None else min(self._evicted, found)

    @property
    def late(self) -> list[Late]:
        """All fragments of which a result came, the slowest first."""
        pairs = ((each, ns) for each, ns in self._last.items() if each in self._first)
        found = [Late(ns - self._first[each], each) for each, ns in pairs]
        return sorted(found, key=lambda late: (-late.time_ns, late.fragment))

    @property
    def evicted(self) -> Fragment | None:
        """The first fragment whose sum reached a PS as a partial that was evicted."""
        return self._evicted[1] if self._evicted else None
