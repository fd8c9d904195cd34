"""Random packets that mean something to a switch that aggregates.

Uniformly random bytes would never get past the parser, and uniformly random headers would seldom
meet an aggregator twice. So jobs advance through their fragments with all workers near the same
place, which makes sums complete; and everything that can go wrong happens with some probability:
packets are repeated, late, flagged, from several workers at once or from none, of unknown jobs,
outside the job's part of the pool, of every kind and of kinds that do not exist, cut off, or noise.
All is drawn from one seed.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from testbed.protocols import wire

ETHERNET = bytes.fromhex("020000010001") + bytes.fromhex("020000000099")
EDGES = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
# Fragments of the jobs. A pool's job begins anew after CYCLE of them, as otherwise what once got
# stuck would stay, and in the end every packet would collide. SwitchML's must only grow.
# For the same reason nothing claims an aggregator that no reminder will ever be about.
FIRST = (1, 0x7FFFFFE0, 0x80000000, 1)
CYCLE = 24
OWNER = range(46, 58)  # place of job, node, fragment and index in a frame
# Weighted: what most packets are, and everything else.
KINDS = (
    *(wire.GRADIENT,) * 30,
    *(wire.GRADIENT_ZEROS,) * 6,
    *(wire.RESULT_ZEROS,) * 2,
    wire.RESULT_ONE_ZEROS,
    *(wire.RESULT,) * 6,
    *(wire.REMINDER,) * 4,
    *(wire.RESULT_ONE, wire.REMINDER_EMPTY, wire.ASK, wire.CONTROL, 0, 15),
)
FLAGS = (
    *(0,) * 30,
    *(wire.RESEND,) * 6,
    *(wire.PARTIAL, wire.COLLISION, wire.ECN, wire.OVERFLOW, wire.REMINDED),
    *(wire.OVER_RATE, wire.FLOAT, wire.FLOAT | wire.RESEND),
    *(wire.SHORT,) * 5,
    *(wire.SHORT | wire.ROUND,) * 10,
    *(wire.ROUND, wire.ROUND | wire.RESEND, wire.SHORT | wire.ROUND | wire.RESEND),
)


@dataclass(frozen=True)
class Surroundings:
    """Ranges from which the packets of a case are drawn.

    `ports`: of the switch. `addresses`: IPv4 destinations that it knows. `node`: its number.
    `jobs`: their number. `slots`: a job's aggregators or slots, 0 if the switch has none. `sets`:
    of each slot (SwitchML), else 0; of two the top bit of an index names one. `values`: in a
    packet. `short_bytes`: of them in a short packet. `tags`: of each job, by which GRID's switches
    steer; () in other systems."""

    ports: Sequence[int]
    addresses: Sequence[str]
    node: int
    jobs: int
    workers: int
    slots: int
    sets: int
    values: int
    short_bytes: int
    tags: Sequence[Sequence[int]] = ()


def sequence(around: Surroundings, count: int, seed: int) -> Iterator[tuple[int, bytes]]:
    """`count` packets as (ingress port, frame)."""
    draw = random.Random(seed)
    progress = [0] * (around.jobs + 1)
    recent: list[tuple[int, bytes]] = []
    for _ in range(count):
        chance = draw.random()
        if recent and chance < 0.08:
            made = draw.choice(recent)
        elif chance < 0.10:
            made = draw.choice(around.ports), _noise(draw)
        else:
            frame = _ip(draw, around, _ina(draw, around, progress))
            if chance < 0.13:
                frame = _damaged(draw, frame)
            made = draw.choice(around.ports), frame
        recent = [*recent[-15:], made]
        yield made


def plain(address: str, payload: bytes) -> bytes:
    """A packet that is nothing to a switch but forwarded."""
    udp = struct.pack(">4H", 9, 9, 8 + len(payload), 0)
    return ETHERNET + b"\x08\x00" + _ip_header(udp + payload, address) + udp + payload


def _noise(draw: random.Random) -> bytes:
    data = draw.randbytes(draw.choice((1, 13, 14, 33, 34, 42, 70, 200)))
    if draw.random() < 0.5:
        return data
    return ETHERNET + b"\x08\x00" + data


def _damaged(draw: random.Random, frame: bytes) -> bytes:
    """Cut off, prolonged, or with some bytes changed."""
    way = draw.randrange(3)
    if way == 0:
        return frame[: draw.randrange(1, len(frame))]
    if way == 1:
        return frame + draw.randbytes(draw.randrange(1, 40))
    data = bytearray(frame)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(data))
        if place not in OWNER:
            data[place] = draw.randrange(256)
    return bytes(data)


def _ina(draw: random.Random, around: Surroundings, progress: list[int]) -> bytes:
    """Header, bitmap and values, or no values where the kind has none."""
    job = draw.randrange(around.jobs) if draw.random() < 0.98 else draw.choice((255, 256, 65535))
    place = min(job, around.jobs)
    if draw.random() < 0.15:  # so that a fragment sees each worker about twice
        progress[place] += 1
    kind = draw.choice(KINDS)
    if kind == wire.GRADIENT:
        apart = draw.choice((0, 0, 0, 0, 1, 1, 2, -1, -3, 9))
    else:  # a server is behind the workers, and asks for what has been stuck for long
        apart = -draw.randrange(CYCLE)
    number = max(progress[place] + apart, 0)
    fragment = FIRST[place % len(FIRST)] + (number if around.sets else number % CYCLE)
    worker = draw.randrange(around.workers)
    bitmap = draw.choice(
        (*(1 << worker,) * 20, 0, 1 << worker | 1, (1 << around.workers) - 1, 0xFFFFFFFF)
    )
    flags = draw.choice(FLAGS) if draw.random() < 0.98 else draw.randrange(65536)
    header = struct.pack(
        ">BBHHHIIIHBB",
        (wire.VERSION if draw.random() < 0.99 else draw.randrange(16)) << 4 | kind,
        draw.choice((0, 1, 5, 100, 255, draw.randrange(256))),
        flags,
        job,
        draw.choice((*(around.node,) * 6, 0, 7)),
        fragment,
        _index(draw, around, kind, job, fragment),
        _extra(draw, around, job),
        draw.choice((worker, worker, worker, 0x4000, 0x8001)),
        draw.randrange(256),
        draw.randrange(256),
    )
    data = header + struct.pack(">I", bitmap)
    has_values = kind in (wire.GRADIENT, wire.RESULT, wire.RESULT_ONE)
    if has_values != (draw.random() < 0.01):
        values = [
            draw.choice((draw.getrandbits(32), draw.getrandbits(8))) for _ in range(around.values)
        ]
        if draw.random() < 0.1:
            values = [0] * around.values
        elif draw.random() < 0.2:
            values[draw.randrange(around.values)] = draw.choice(EDGES)
        if flags & wire.SHORT and draw.random() < 0.95:
            some = struct.pack(f">{around.values}H", *(value & 0xFFFF for value in values))
            data += some[: around.short_bytes]
        else:
            data += struct.pack(f">{around.values}I", *values)
    return data


def _extra(draw: random.Random, around: Surroundings, job: int) -> int:
    if job < len(around.tags) and draw.random() < 0.95:
        return draw.choice(around.tags[job])
    return draw.choice(EDGES)


def _index(draw: random.Random, around: Surroundings, kind: int, job: int, fragment: int) -> int:
    slots = max(around.slots, 1)
    chance = draw.random()
    if chance < 0.02:
        return draw.choice(EDGES[2:])
    if chance < (0.05 if kind == wire.GRADIENT else 0.3):
        return (3 * fragment + job) % (2 * slots)  # another's aggregator, or outside
    if around.sets:
        return (fragment // slots % around.sets) << 31 | fragment % slots
    return (fragment + 5 * job) % slots  # jobs are apart at first, and meet now and then


def _ip(draw: random.Random, around: Surroundings, payload: bytes) -> bytes:
    """The frame around a payload; now and then it is not what the parser looks for."""
    port = wire.PORT if draw.random() < 0.99 else draw.randrange(65536)
    udp = struct.pack(">4H", wire.PORT, port, 8 + len(payload), draw.choice((0, 0x1234)))
    address = draw.choice(around.addresses) if draw.random() < 0.97 else "192.0.2.1"
    unusual = draw.random() < 0.02
    header = _ip_header(
        udp + payload,
        address,
        first=draw.choice((0x46, 0x44, 0x65)) if unusual else 0x45,
        service=draw.choice((0, 0, 2, 3, 0xB8)),
        offset=draw.choice((0, 0x4000, 0x2000, 0x0007)) if unusual else 0,
        ttl=draw.choice((64,) * 20 + (0, 1, 2, 255)),
        protocol=draw.choice((6, 17)) if unusual else 17,
    )
    return (
        ETHERNET + (b"\x08\x06" if draw.random() < 0.003 else b"\x08\x00") + header + udp + payload
    )


def _ip_header(
    payload: bytes,
    destination: str,
    first: int = 0x45,
    service: int = 0,
    offset: int = 0,
    ttl: int = 64,
    protocol: int = 17,
) -> bytes:
    """20 bytes; the checksum is left wrong, as the programs compute it and verify nothing."""
    length = 20 + len(payload)
    head = struct.pack(">BBHHHBBH", first, service, length, 1, offset, ttl, protocol, 0xABCD)
    return head + IPv4Address("10.0.0.1").packed + IPv4Address(destination).packed
