"""Watch of what switches do with the packets of some fragments: the P4 program's event, and the
aggregator before and after.

The event is the counter of the P4 program that a packet has raised, the aggregator what its
registers hold, so nothing of the program is repeated here. A packet of another fragment is of
interest too where it finds or leaves the aggregator that one of ours has: it may evict it.

What becomes of a packet between the pipelines (a full queue drops it, a link loses or doubles it),
the traffic manager tells at once, with the mark of the pass that it comes from
(p4engine.switch.pass_watch).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from p4engine.switch.pass_watch import FIRST_MARK, Left, PassWatch

from testbed.number_formats import FLOAT32_EXACT, FPISA, INT32
from testbed.protocols import block_float
from testbed.protocols.formats import fpisa
from testbed.setup import Setup
from testbed.systems.statistics import EVENTS_PER_JOB, Statistics
from testbed.tracing.fragments import Fragment
from testbed.tracing.packets import Packet, fragment_in, packet_in, value_in
from testbed.workload.wrong_value import int32

STATES = {0: "empty", 1: "filling", 2: "held", 3: "empty"}
_POOL = ("state", "job", "fragment", "bitmap", "priority")
EXACT_BITS = 288  # of a sum of float32_exact
SET_BIT = 1 << 31  # of an index: which set of a slot (docs/wire.md)


class Slot(NamedTuple):
    """An aggregator's record. `place`: its number in the pool. `workers`: a bitmap. `fragment` is
    None if it is empty, or the program does not keep whose it is."""

    place: int
    state: str
    fragment: Fragment | None
    workers: int
    priority: int | None


class Seen(NamedTuple):
    """A packet on the link of a host, at a switch's port: sent by the host, or arrived there."""

    time_ns: int
    host: str
    switch: str
    port: int
    packet: Packet


@dataclass
class Handled:
    """A packet's way through a switch's ingress: what came in through `port`, the event, and what
    goes on (None: nothing), perhaps as copies to all of a multicast group. came: when the
    packet was sent on the port's link. mark: of the pass."""

    time_ns: int
    switch: str
    port: int
    packet: Packet
    event: str
    before: Slot | None
    after: Slot | None
    leaves: Packet | None
    copies: bool
    came: int
    mark: int
    values: Values | None = None


class Values(NamedTuple):
    """The values at one offset: in the packet that came in, in the aggregator afterwards, and in
    the packet that goes on; None where there is none."""

    came: int | None
    kept: int | None
    left: int | None


@dataclass
class Gone:
    """A packet that has left a switch's egress pipeline for the link of a port. came: the mark of
    its ingress pass; mark: of this one."""

    time_ns: int
    switch: str
    port: int
    packet: Packet
    came: int
    mark: int


class Fate(NamedTuple):
    """Fate of a packet outside of the pipelines: `what` of p4engine's FATES, at a port, at
    its time. sent: the packet that a host sent, unless it was lost on its way as a link failed."""

    what: str
    port: int
    time_ns: int
    sent: Packet | None = None


class Watch:
    """Watches all switches of a run for packets of `wanted`, from its making to `stop`."""

    def __init__(
        self,
        setup: Callable[[], Setup],
        switches: Mapping[str, Any],
        wanted: Collection[Fragment],
        offset: int | None = None,
    ) -> None:
        """setup: with the trees of the moment. offset: of the value in packets that is to be looked
        at, too."""
        self.handled: list[Handled] = []
        self.gone: list[Gone] = []
        # By switch and mark; of what hosts have sent, by switch, port and time.
        self.fates: dict[tuple, list[Fate]] = defaultdict(list)
        self._wanted = frozenset(wanted)
        self._setup = setup
        self._indices: set[int] = set()  # that packets of the wanted fragments have had
        self._offset = offset
        self._watches = {name: self._over(name, switch) for name, switch in switches.items()}

    def handled_of(self, fragment: Fragment) -> list[Handled]:
        """Actions of switches with packets of a fragment, and with those of others that found its
        aggregator."""
        return [
            row
            for row in self.handled
            if fragment
            in (
                (row.packet.job, row.packet.fragment),
                row.before and row.before.fragment,
                row.after and row.after.fragment,
            )
        ]

    def gone_of(self, fragment: Fragment) -> list[Gone]:
        """The packets of a fragment that left queues."""
        return [row for row in self.gone if (row.packet.job, row.packet.fragment) == fragment]

    def entered(self, switch: str, port: int, time_ns: int, packet: Packet | None) -> None:
        """Note that a switch has been given this packet last at a port; None: of no wanted
        fragment."""
        here = self.fates.get((switch, port, time_ns))
        if here and here[-1].sent is None:
            found = here.pop()
            if packet is not None:
                here.append(found._replace(sent=packet))

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def _over(self, name: str, switch: Any) -> PassWatch:
        platform, wanted, offset = self._setup().platform, self._wanted, self._offset
        bits, wide = platform.bitmap_bits, platform.value_bits
        tokens = platform.tokens
        reader = _Reader(self._setup, name, switch) if platform.system.memory else None

        def before(port: int, frame: bytes, now_ns: int) -> Any:
            job, number, index = fragment_in(frame)
            if (job, number) in wanted:
                self._indices.add(index)
            elif index not in self._indices or job < 0:
                return None
            packet = packet_in(frame, bits, tokens)
            if packet is None:
                return None
            found = reader.slot(packet) if reader else None
            counted = reader.events(packet.job) if reader else []
            came = None if offset is None else value_in(frame, packet, bits, offset, wide)
            return now_ns, port, packet, found, counted, came

        def after(found: Any, left: Left) -> None:
            now_ns, port, packet, slot, counted, came = found
            event, there = "", None
            if reader:
                event = reader.event(packet.job, counted)
                there = reader.slot(packet)
            leaves = packet_in(left.frame, bits, tokens) if left.frame else None
            mine = ((packet.job, packet.fragment), slot and slot.fragment, there and there.fragment)
            if not wanted.intersection(each for each in mine if each):
                return
            watch = self._watches[name]
            seen = now_ns, name, port, packet, event, slot, there, leaves
            row = Handled(*seen, left.group > 0, watch.came, watch.mark)
            if offset is not None:
                went = None if leaves is None else value_in(left.frame, leaves, bits, offset, wide)
                kept = reader.value(there, packet, offset) if reader and there else None
                row.values = Values(came, kept, went)
            self.handled.append(row)

        def leaving(left: Left, now_ns: int) -> bool:
            chosen = fragment_in(left.frame)[:2] in wanted and left.port is not None
            packet = packet_in(left.frame, bits, tokens) if chosen else None
            if packet is None or left.port is None:
                return False
            watch = self._watches[name]
            self.gone.append(Gone(now_ns, name, left.port, packet, watch.came, watch.mark))
            return True

        def told(what: str, port: int, direction: str, mark: int, time_ns: int) -> None:
            if mark >= FIRST_MARK:
                self.fates[name, mark].append(Fate(what, port, time_ns))
            elif direction == "ingress":
                self.fates[name, port, mark].append(Fate(what, port, time_ns))

        return PassWatch(switch, before, after, leaving, told)


class _Reader:
    """Reads what a P4 program has counted and holds."""

    def __init__(self, setup: Callable[[], Setup], name: str, switch: Any) -> None:
        platform = setup().platform
        self._kept: Statistics = platform.scheme.statistics(platform)
        self._switch = switch
        self._name = name
        self._setup = setup
        self._places = platform.aggregators
        self._values, self._packs = platform.values, platform.packs_sums
        self._adder = platform.sum.adder
        self._jobs = platform.numbers
        self._events: Callable[..., Any] = switch.register_words

    def events(self, job: int) -> list[int]:
        if job >= self._jobs:
            return []
        return list(self._events("events", job * EVENTS_PER_JOB, EVENTS_PER_JOB))

    def event(self, job: int, before: list[int]) -> str:
        """The event that has been counted since `before`; "" for none."""
        for name, old, new in zip(("", *self._kept.events), before, self.events(job), strict=False):
            if new != old:
                return name
        return ""

    def slot(self, packet: Packet) -> Slot | None:
        """The aggregator that a packet's index names; None if there is none."""
        if self._kept.sets:
            return self._of_set(packet)
        place = packet.index
        if place >= self._places:
            return None
        state, job, fragment, workers, priority = (
            self._switch.register_read(f"slot_{name}", place, 1)[0] for name in _POOL
        )
        owner = Fragment(job, fragment) if STATES.get(state) != "empty" else None
        return Slot(place, STATES.get(state, str(state)), owner, workers, priority)

    def value(self, slot: Slot, packet: Packet, offset: int) -> int | None:
        """The value at an offset in an aggregator (p4/value_memory.p4, exact_memory.p4,
        fpisa_memory.p4), of float32 the bits; None in an empty one, or a set of integers."""
        sets = len(self._kept.sets)
        if slot.state == "empty" or sets and self._adder == INT32:
            return None
        digits = 2 if self._values <= 256 else 3
        place = offset & ~1 if self._packs else offset
        at = slot.place * sets + packet.index // SET_BIT if sets else slot.place
        raw: int = self._switch.register_read(f"value_{place:0{digits}x}", at, 1)[0]
        if self._adder == FLOAT32_EXACT:
            units = raw - (raw >> EXACT_BITS - 1 << EXACT_BITS)
            return int(np.float32(units / 2**149).view(np.int32))
        if self._adder == FPISA:
            exponent = self._switch.register_read(f"exponent_{place:0{digits}x}", at, 1)[0]
            return int32(int(fpisa.read(np.int64(exponent), np.int64(int32(raw)))))
        if self._packs:
            return int(block_float.taken_apart(np.array([raw], np.uint32))[offset & 1][0])
        return int32(raw)

    def _of_set(self, packet: Packet) -> Slot | None:
        setup = self._setup()
        job = setup.jobs.get(packet.job) or setup.groups.get(packet.job)
        part = job.group.part(self._name, packet.node) if job is not None else None
        if part is None:
            return None
        chosen = self._kept.sets[min(packet.index // SET_BIT, len(self._kept.sets) - 1)]
        offset = packet.index % SET_BIT
        if offset >= part.slots:
            return None
        place = part.base + offset
        state, workers = (
            self._switch.register_read(f"{chosen}_{name}", place, 1)[0]
            for name in ("state", "bitmap")
        )
        kind = STATES.get(state, str(state))
        owner = Fragment(packet.job, packet.fragment) if kind != "empty" else None
        return Slot(place, kind, owner, workers, None)
