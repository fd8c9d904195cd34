"""A worker whose sums hosts make, packet by packet: member 1 of a ring of three, with nine
fragments of four values.

Fragments 2, 3 and 8 are the last of their tensors and have 2, 3 and 2 values.

It begins fragments 0, 3 and 6, is in the middle of 2, 5 and 8, and the last one of 1, 4 and 7."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import lag, send_scoreboard, wire
from tests.support.one_host import OneWorker, Packet

PREVIOUS, NEXT = 0, 0  # the neighbour's number; places of the neighbours' addresses
UP, DOWN = 0, 1
FIRST, MIDDLE, LAST = (0, 3, 6), (2, 5, 8), (1, 4, 7)


def new(**options) -> OneWorker:
    return OneWorker("ring", number=1, **{"window": 40, "timeout": "2 ms", **options})


def kind(chunk: int, way: int) -> int:
    """`extra` of a packet."""
    return 1 + 2 * chunk + way


def way(packet: Packet) -> int:
    return packet.extra - 1 & 1


def data(sent: list[Packet]) -> list[Packet]:
    return [packet for packet in sent if packet.extra]


def acks(sent: list[Packet]) -> list[Packet]:
    return [packet for packet in sent if not packet.extra]


def acknowledged(sent: list[Packet]) -> list[int]:
    """Sequence numbers, in the order in which acknowledgements name them."""
    return [p.index + i for p in acks(sent) for i in range(32) if p.bitmap >> i & 1]


def partial(ring: OneWorker, fragment: int, iteration: int = 0, **fields) -> Packet:
    """The sum over the members before this one."""
    before = (0 - fragment) % 3
    members = [(1 - k) % 3 for k in range(before, 0, -1)]
    fields = {"sender": PREVIOUS, "extra": kind(fragment % 3, UP), "kind": wire.CONTROL, **fields}
    numbers = fields.pop("numbers", None) or ring.sum_of(members, fragment, iteration)
    bits = sum(1 << member for member in members)
    return ring.packet(fields.pop("kind"), fragment, iteration, numbers, bitmap=bits, **fields)


def whole(ring: OneWorker, fragment: int, iteration: int = 0, **fields) -> Packet:
    """The sum over all on its second way round."""
    extra = kind(fragment % 3, DOWN)
    fields = {"sender": PREVIOUS, "extra": extra, "kind": wire.CONTROL, **fields}
    return ring.result(fragment, iteration, **fields)


def ack(ring: OneWorker, *numbers: int, flags: int = 0) -> Packet:
    first = min(numbers)
    bits = sum(1 << number - first for number in numbers)
    return ring.packet(wire.CONTROL, index=first, bitmap=bits, flags=flags, sender=2)


def finish(ring: OneWorker, iteration: int, now: int) -> list[Packet]:
    """Everything of an iteration comes, the sums of all 1 ns later; what is sent in turn."""
    parts = [partial(ring, f, iteration, index=100 + f) for f in (*MIDDLE, *LAST)]
    wholes = [whole(ring, f, iteration, index=200 + f) for f in (*FIRST, *MIDDLE)]
    return ring.step(now, *parts) + ring.step(now + 1, *wholes)


# ---- what it sends ----


def test_it_adds_its_part_and_passes_the_sum_on():
    ring = new()
    ring.step(0)
    sent = data(ring.step(100, partial(ring, 5)))
    assert [(p.fragment, p.extra, p.bitmap) for p in sent] == [(5, kind(2, UP), 0b011)]
    assert sent[0].values == ring.sum_of((0, 1), 5)
    assert "results" not in ring.counters


def test_the_last_one_has_the_sum_of_all_and_sends_it_round():
    ring = new()
    ring.step(0)
    sent = data(ring.step(100, partial(ring, 4)))
    assert [(p.fragment, p.extra, p.bitmap) for p in sent] == [(4, kind(1, DOWN), 0b111)]
    assert sent[0].values == ring.sum_of((0, 1, 2), 4)
    assert ring.counters["results"] == 1 and ring.counters["values_checked"] == 4


# ---- sums that leave int32 ----


@pytest.mark.parametrize("flags", [0, wire.OVERFLOW])
@pytest.mark.parametrize("extreme", [0, 2**31 - 1, -(2**31)])
def test_a_sum_that_leaves_int32_is_flagged(flags, extreme):
    ring = new()
    ring.step(0)
    own = ring.values_of(1, 5)
    place = int(np.argmax(own) if extreme > 0 else np.argmin(own))
    numbers = [0] * 4
    numbers[place] = extreme
    (sent,) = data(ring.step(1, partial(ring, 5, numbers=numbers, flags=flags | wire.ECN)))
    assert sent.flags == (wire.OVERFLOW if extreme or flags else 0)
    total = int(own[place]) + extreme
    assert sent.values[place] == (total + 2**31) % 2**32 - 2**31


# ---- what it takes ----


def test_a_fragment_that_is_not_used_here_ends_nothing():
    """As the ranks of a program may give arrays of several sizes; the others need the sum."""
    ring = new()
    ring.step(0)
    ring.scoreboard.status[1] |= send_scoreboard.RECEIVED
    assert [p.fragment for p in data(ring.step(1, partial(ring, 1)))] == [1]
    assert ring.status.iterations == 0 and "results" not in ring.counters


# ---- acknowledgements ----


def test_an_acknowledgement_waits_for_more_but_not_for_long():
    ring = new(keys="timers: {ack_delay: 30 us}")
    ring.step(0)
    assert acks(ring.step(1000, partial(ring, 5, index=70))) == []
    assert ring.deadline == 31_000
    assert acks(ring.step(20_000, partial(ring, 2, index=72))) == []
    assert acks(ring.step(30_999)) == [] and ring.deadline == 31_000
    (sent,) = acks(ring.step(31_000))
    assert (sent.index, sent.bitmap) == (70, 0b101)
    # The next one begins anew, with a number of its own, wherever that is.
    ring.step(40_000, partial(ring, 8, index=2**32 - 1))
    ring.step(41_000, partial(ring, 1, index=0))
    (sent,) = acks(ring.step(70_000))
    assert (sent.index, sent.bitmap) == (2**32 - 1, 0b11)


@pytest.mark.parametrize("number, together", [(70 + 31, True), (70 + 32, False), (69, False)])
def test_an_acknowledgement_spans_32_numbers(number, together):
    ring = new(keys="timers: {ack_delay: 30 us}")
    ring.step(0)
    came = [partial(ring, 5, index=70), partial(ring, 2, index=number)]
    now = ring.step(1000, *came)
    assert len(acks(now)) == (0 if together else 1)
    later = ring.step(31_000)
    assert len(acks(later)) == 1
    assert sorted(acknowledged(now) + acknowledged(later)) == sorted([70, number])


# ---- what is in flight ----


def test_packets_are_paced_at_the_links_rate():
    """One of 86 bytes takes 6.88 us at 100 Mbit/s."""
    ring = new(keys="links: {bandwidth: 100 Mbit/s}", timeout="20 ms")
    first = ring.step(0)
    assert [p.fragment for p in first] == [0]
    assert ring.deadline == 6880
    assert ring.step(6879) == []
    assert [p.fragment for p in ring.step(6880)] == [3]
    assert ring.deadline == 2 * 6880
    # What is late by less than a burst is made up for; how late it was is noted once.
    ring.step(2 * 6880, ack(ring, 0, 1), partial(ring, 5))
    lags = ring.worker.lag.copy()
    sent = data(ring.step(6 * 6880 + 500, partial(ring, 2), partial(ring, 8)))
    assert len(sent) == 3
    noted = ring.worker.lag - lags
    assert noted[: lag.BUCKETS].sum() == 1 and ring.worker.lag[lag.MAXIMUM] == 3 * 6880 + 500
    lags = ring.worker.lag.copy()
    assert len(data(ring.step(9 * 6880, whole(ring, 0)))) == 1  # the link has been free
    assert (ring.worker.lag == lags).all()


def test_a_member_is_done_when_its_neighbour_has_everything():
    ring = new(window=80)
    ring.step(0)
    numbers = [0, 1, 2]
    for iteration in range(4):
        for packet in (0, 1):
            sent = data(finish(ring, iteration, 10 * iteration + packet + 1))
            numbers += [p.index for p in sent]
    assert not ring.host.finished()
    ring.step(1000, *[ack(ring, number) for number in numbers[:-1]])
    assert not ring.host.finished()
    ring.step(1001, ack(ring, numbers[-1]))
    assert ring.host.finished()
