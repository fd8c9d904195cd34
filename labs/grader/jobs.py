"""Jobs drawn at random that share a switch: what checks of labs 5 and 6 send for them.

Everything that a program could have built in is drawn: how many workers a job has, which bits and
ports they have, the port of its parameter server (PS), the job's number, and its multicast group.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from scapy.layers.inet import UDP
from scapy.packet import Packet
from scapy.utils import checksum

from labs.grader.bench import Bench, draw_bits, numbers, total
from labs.grader.histories import Strangers, dress
from labs.grader.packets import (
    AT_AGG,
    DATA,
    GRADIENT,
    HEADER,
    RECEIPT,
    REMINDER,
    RESULT,
    Agg,
    agg,
)

PARTIAL, COLLISION, RESEND = 1, 2, 4
OTHER_FLAGS = 0xF8
PROTOCOL_UDP = 17
VALUES, SLOTS = 8, 8
PORTS = tuple(range(1, 13))
AT_ADDRESSES, AT_UDP, AT_UDP_SUM = 14 + 12, 14 + 20, 14 + 20 + 6


@dataclass(frozen=True)
class Job:
    """A job. Host n is at port n.

    Args:
        number: of the job, in packets.
        workers: their numbers, which are bits of the bitmap.
        ports: of the workers, in the same order.
        server: port of the PS.
        group: the workers' multicast group.
        rng: of fields that labs do not speak of.
    """

    number: int
    workers: tuple[int, ...]
    ports: tuple[int, ...]
    server: int
    group: int
    rng: random.Random = field(default_factory=random.Random, compare=False)

    @property
    def everyone(self) -> int:
        return self.bitmap(range(len(self.workers)))

    @property
    def members(self) -> list[tuple[int, int]]:
        """Members of the multicast group: (port, replica)."""
        return [(port, n + 1) for n, port in enumerate(self.ports)]

    def bitmap(self, who: Sequence[int]) -> int:
        """Bitmap of some workers, by their places in the list."""
        return sum(1 << self.workers[n] for n in who)

    def gradient(
        self,
        who: int,
        values: Sequence[int],
        number: int = 0,
        slot: int = 0,
        flags: int = 0,
        priority: int = 0,
    ) -> Packet:
        """Gradient of the worker that is `who` in the list, for the PS."""
        worker = self.workers[who]
        fields = {"flags": flags, "priority": priority, "slot": slot, "worker": worker}
        made = agg(
            self.ports[who],
            self.server,
            kind=GRADIENT,
            job=self.number,
            number=number,
            bitmap=1 << worker,
            values=values,
            **fields,
        )
        return dress(self.rng, made, OTHER_FLAGS, priority=False)

    def result(self, values: Sequence[int], number: int = 0, slot: int = 0) -> Packet:
        """Result from the PS, for all workers."""
        fields = {"job": self.number, "number": number, "slot": slot, "bitmap": self.everyone}
        made = agg(self.server, "switch", kind=RESULT, values=values, **fields)
        return dress(self.rng, made, OTHER_FLAGS, priority=False)

    def reminder(self, number: int, slot: int) -> Packet:
        fields = {"job": self.number, "number": number, "slot": slot}
        made = agg(self.server, "switch", kind=REMINDER, **fields)
        dress(self.rng, made, OTHER_FLAGS, priority=False)
        made[UDP].chksum = None  # the right one, which does not fit what the switch puts in
        return made

    def plain(self, who: int, number: int, slot: int, priority: int = 0) -> bytes:
        """The frame of a gradient whose values are all 1. Where a check sends hundreds, scapy would
        take most of its time."""
        worker = self.workers[who]
        row = (GRADIENT, 0, self.number, priority, number, slot, worker, 1 << worker)
        return _patched(_gradient(self, who), row)

    def plain_result(self, number: int, slot: int) -> bytes:
        """The frame of a result whose values are all 1."""
        row = (RESULT, 0, self.number, 0, number, slot, 0, self.everyone)
        return _patched(_result(self), row)

    def plain_reminder(self, number: int, slot: int) -> bytes:
        """The frame of a reminder, with its UDP checksum, which does not fit what the switch puts
        in."""
        made = _patched(_reminder(self), (REMINDER, 0, self.number, 0, number, slot, 0, 0))
        plain = made[:AT_UDP_SUM] + bytes(2) + made[AT_UDP_SUM + 2 :]
        return made[:AT_UDP_SUM] + udp_sum(plain).to_bytes(2, "big") + made[AT_UDP_SUM + 2 :]


def _patched(frame: bytes, row: tuple[int, ...]) -> bytes:
    return frame[:AT_AGG] + HEADER.pack(*row) + frame[AT_AGG + HEADER.size :]


def udp_sum(data: bytes) -> int:
    """The UDP checksum of a frame (RFC 768), computed with the one that is in it: 0 if that one is
    right."""
    udp = data[AT_UDP:]
    head = data[AT_ADDRESSES:AT_UDP] + bytes((0, PROTOCOL_UDP)) + len(udp).to_bytes(2, "big")
    return int(checksum(head + udp))


def udp_sum_fits(data: bytes) -> bool:
    """A host takes the frame: its UDP checksum is right, or 0, which means none."""
    return data[AT_UDP_SUM : AT_UDP_SUM + 2] == bytes(2) or udp_sum(data) == 0


@functools.cache
def _gradient(job: Job, who: int) -> bytes:
    return bytes(job.gradient(who, [1] * VALUES))


@functools.cache
def _result(job: Job) -> bytes:
    return bytes(job.result([1] * VALUES))


@functools.cache
def _reminder(job: Job) -> bytes:
    return bytes(job.reminder(0, 0))


@dataclass
class Sent:
    """The contributions of some workers to a fragment: values by their places in the job's list."""

    job: Job
    values: dict[int, list[int]] = field(default_factory=dict)

    @property
    def sums(self) -> list[int]:
        return total(self.values.values())

    @property
    def bitmap(self) -> int:
        return self.job.bitmap(list(self.values))


def draw_jobs(t: Bench, fewest: int = 3, most: int = 5) -> list[Job]:
    """Two jobs with so many workers each. One of them has number 0, which is a number like any
    other."""
    counts = [t.random.randrange(fewest, most + 1) for _ in range(2)]
    ports = t.random.sample(PORTS, sum(counts) + 2)
    groups = t.random.sample(range(1, 100), 2)
    names = t.random.sample([0, t.random.randrange(1, 256)], 2)
    made = []
    for count, group, name in zip(counts, groups, names, strict=True):
        server, *own = (ports.pop() for _ in range(count + 1))
        workers = tuple(draw_bits(t, count))
        made.append(Job(name, workers, tuple(own), server, group, t.random))
    return made


def strangers(t: Bench, jobs: Sequence[Job], slot: int) -> list[tuple[str, bytes]]:
    """Packets with which a switch of these jobs has nothing to do, and what they are. They look
    like gradients and results of the first job for a slot."""
    kinds = (0, RECEIPT, DATA, t.random.randrange(DATA + 1, 256))
    strange = Strangers(t.random, kinds, [job.number for job in jobs])
    packets = (
        jobs[0].gradient(0, draw_values(t), 0, slot),
        jobs[0].result(draw_values(t), 0, slot),
    )
    return [strange.next(packet) for packet in packets for _ in range(strange.count)]


def draw_number(t: Bench) -> int:
    """Of a fragment."""
    return t.random.randrange(1, (1 << 32) - 2000)


def other_numbers(t: Bench, number: int) -> list[int]:
    """Numbers that differ from one in the lowest bit alone, and in one of the higher bits alone, so
    that registers that are too narrow hold the same for both."""
    bits = (0, t.random.randrange(1, 8), *(t.random.randrange(k, k + 8) for k in (8, 16)), 30, 31)
    return [number ^ (1 << bit) for bit in bits]


def draw_values(t: Bench) -> list[int]:
    return numbers(t, VALUES)


def carrying(packet: Packet, bitmap: int, values: Sequence[int]) -> Packet:
    """The packet with a sum in it."""
    made = packet.copy()
    made[Agg].bitmap, made[Agg].values = bitmap, list(values)
    return made


def flagged(packet: Packet, flags: int) -> Packet:
    """The packet with these flags besides those that it has."""
    made = packet.copy()
    made[Agg].flags = int(made[Agg].flags) | flags
    return made


def header(data: bytes) -> tuple[int, int, int, int, int]:
    """(kind, flags, job, number, bitmap) of a frame; all 0 of one that is too short."""
    if len(data) < AT_AGG + HEADER.size:
        return 0, 0, 0, 0, 0
    kind, flags, job, _, number, _, _, bitmap = HEADER.unpack_from(data, AT_AGG)
    return kind, flags, job, number, bitmap
