"""Long histories of a switch: what comes in them, and how what leaves is compared.

A history mixes the packets of jobs that share a switch with copies, late ones and strangers, which
look like the others and have to be dropped without a trace, while slots are in use. Fields that a
lab does not speak of have any values, and every field of every packet that leaves is compared: what
a switch has no reason to change stays as it came.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.packet import Packet

from labs.grader.packets import (
    AT_AGG,
    DATA,
    ETHERNET_BYTES,
    GRADIENT,
    HEADER,
    KINDS,
    PORT_AGG,
    SWITCH_IP,
    SWITCH_MAC,
    Agg,
    host_ip,
    host_mac,
)

PLACE = 24  # numbers at each of the places of `NUMBERS`
# At 0; around 2^31, where a sign, 31 bits, and the lower bits of a number begin again; before 2^32.
NUMBERS = tuple(
    range(begin, begin + PLACE) for begin in (0, (1 << 31) - PLACE // 2, (1 << 32) - PLACE)
)
TCP, IPV6, WITH_OPTIONS = 6, 0x86DD, 0x46
DIFFERENCES: tuple[str, ...] = (
    "cut off",
    "cut off in its headers",
    "for another port",
    "not UDP",
    "not IPv4",
)
DIFFERENCES += ("with options", "of no job")
OUTSIDE_BITS = range(3, 15)  # of a slot, where 8 are in the pool
AT_TYPE, AT_PROTOCOL, AT_PORT = 12, ETHERNET_BYTES + 9, AT_AGG - 6


@dataclass
class Message:
    """Fields of a packet that a switch of labs 18 and 19 reads and writes. `base`: of the units of
    its values, the field `priority`."""

    kind: int
    flags: int
    number: int
    base: int
    bitmap: int
    values: list[int]


@dataclass
class Set:
    """A set of such a switch. State 0: it is free."""

    state: int = 0
    number: int = 0
    bitmap: int = 0
    values: list[int] = field(default_factory=list)


def draw_numbers(rng: random.Random) -> list[int]:
    """Eight numbers that follow each other in a slot, from all places, with the first and the last
    that there are. Two that a set holds one after the other differ in the top bit alone."""
    first, around, last = NUMBERS
    low, repeated = sorted(rng.sample(first[1 : PLACE // 2], 2))
    below = rng.choice(around[: PLACE // 2])
    made = [0, low, repeated, below, repeated + (1 << 31)]
    return [*made, *sorted(rng.sample(last[:-1], 2)), last[-1]]


def draw_slots(rng: random.Random, slots: int, count: int) -> list[int]:
    """Different slots of so many (a power of two). Two differ in the top bit alone."""
    low = rng.randrange(slots // 2)
    high = low + slots // 2
    others = rng.sample([slot for slot in range(slots) if slot not in (low, high)], count - 2)
    return rng.sample([low, high, *others], count)


def alike(rng: random.Random, number: int) -> int:
    """A smaller number that differs in one bit, often a high one; `number` itself if it is 0."""
    bits = [1 << bit for bit in range(32) if number >> bit & 1]
    return number - rng.choice((bits if rng.random() < 0.5 else bits[-2:]) or [0])


def dress(rng: random.Random, packet: Packet, flags: int = 0xFF, priority: bool = True) -> Packet:
    """Give a packet any values in fields that its lab does not speak of: those of IP and UDP, the
    `flags` of a mask, the priority."""
    ip, udp, header = packet[IP], packet[UDP], packet[Agg]
    ip.tos, ip.id, ip.ttl = rng.randrange(256), rng.randrange(1 << 16), rng.randrange(1, 256)
    udp.sport = rng.choice((PORT_AGG, rng.randrange(1 << 16)))
    header.flags = int(header.flags) & ~flags | rng.randrange(256) & flags
    if priority:
        header.priority = rng.randrange(256)
    return packet


def leaving(came: Packet, port: int, made_here: bool, **fields: Any) -> Packet:
    """A packet as it leaves at a port for one that has come: with these fields of `Agg`, if it is
    `made_here` with the switch's source addresses, and all else as it came."""
    made = came.copy()
    made.dst, made[IP].dst = host_mac(port), host_ip(port)
    if made_here:
        made.src, made[IP].src = SWITCH_MAC, SWITCH_IP
    for name, value in fields.items():
        setattr(made[Agg], name, value)
    made[UDP].chksum = 0
    return made


class Strangers:
    """Deals packets that differ from one of a job's in what makes it one, for each kind of packet
    each difference in turn, so that none is left to luck. Their values, and the bitmap of DATA, are
    others, too: so a trace of one shows although the packet that it looks like comes next.

    Args:
        kinds: that nobody sends to the switch.
        jobs: that the switch knows.
        pooled: kinds of packets that have a slot of the pool.
        more: differences of a lab: what the packet is then, and a function that makes it that.
    """

    def __init__(
        self,
        rng: random.Random,
        kinds: Sequence[int],
        jobs: Sequence[int],
        pooled: Collection[int] = (),
        more: Mapping[str, Callable[[Packet], None]] = MappingProxyType({}),
    ) -> None:
        self.rng, self.kinds, self.jobs = rng, kinds, jobs
        self.pooled, self.more = pooled, more
        self._all = [(what, n) for what in (*DIFFERENCES, *more) for n in range(2)]
        # With bit 7, a kind in fewer bits is one that there is.
        known = [kind ^ 1 << 7 for kind in KINDS if kind not in kinds]
        self._all += [("of another kind", kind) for kind in (*kinds, *known)]
        self._decks: dict[tuple[int, bool], list[tuple[str, int]]] = {}

    @property
    def count(self) -> int:
        """So many show each difference."""
        return len(self._all) + 1

    def before(self, packet: Packet, matters: bool) -> Iterator[tuple[str, bytes]]:
        """Some that look like this packet, or none: what they are, and the frames. There are more
        of them where the packet itself `matters`, because it changes something."""
        for _ in range(self.rng.randrange(5) if matters else self.rng.random() < 0.3):
            yield self.next(packet, matters)

    def next(self, packet: Packet, matters: bool = True) -> tuple[str, bytes]:
        """One that looks like this packet: what it is, and the frame."""
        deck = self._decks.setdefault((int(packet[Agg].kind), matters), [])
        if not deck:
            deck += self._all
            deck.append(("of another kind", int(packet[Agg].kind) ^ 1 << self.rng.randrange(3, 7)))
            if packet[Agg].kind in self.pooled:
                bits = [OUTSIDE_BITS[0], OUTSIDE_BITS[-1], *self.rng.sample(OUTSIDE_BITS[1:-1], 3)]
                deck += [("outside of the pool", 1 << bit) for bit in bits]
            self.rng.shuffle(deck)
        what, value = deck.pop()
        return f"a packet that is {what}", self._made(packet.copy(), what, value)

    def _made(self, packet: Packet, what: str, value: int) -> bytes:
        rng, header = self.rng, packet[Agg]
        header.values = [~value for value in header.values]
        header.bitmap = rng.getrandbits(32) if header.kind == DATA else header.bitmap
        if header.kind == GRADIENT and self.pooled:
            header.slot ^= (rng.random() < 0.25) << 15  # any of a slot's two sets
        if what in self.more:
            self.more[what](packet)
        elif what == "of another kind":
            header.kind = value
        elif what == "outside of the pool":
            header.slot |= value
        elif what == "of no job":
            header.job = rng.choice([n for n in range(256) if n not in self.jobs])
        data = bytearray(bytes(packet))
        if what == "cut off":  # a packet without values is cut off in its header
            least = AT_AGG + HEADER.size if header.values else AT_AGG
            data = data[: len(data) - 1 if value else rng.randrange(least, len(data))]
        elif what == "cut off in its headers":
            data = data[: rng.randrange(AT_AGG if value else ETHERNET_BYTES, AT_AGG + HEADER.size)]
        elif what == "for another port":
            other = PORT_AGG ^ 1 << rng.randrange(16) if value else rng.randrange(PORT_AGG)
            data[AT_PORT : AT_PORT + 2] = other.to_bytes(2, "big")
        elif what == "not UDP":
            data[AT_PROTOCOL] = TCP
        elif what == "not IPv4":
            data[AT_TYPE : AT_TYPE + 2] = IPV6.to_bytes(2, "big")
        elif what == "with options":
            data[ETHERNET_BYTES] = WITH_OPTIONS
        return bytes(data)
