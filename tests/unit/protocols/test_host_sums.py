"""A worker whose sums hosts make: what the records of a ring (test_recorded_hosts.py) do not reach.

It is member 1 of a ring of three, with nine fragments of four values; fragments 2, 3 and 8 are the
last of their tensors and have 2, 3 and 2 values. It begins fragments 0, 3 and 6, is in the middle
of 2, 5 and 8, and the last one of 1, 4 and 7."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import send_scoreboard, wire
from tests.support.one_host import OneWorker, Packet

PREVIOUS = 0  # the neighbour's number
UP, DOWN = 0, 1
FIRST, MIDDLE, LAST = (0, 3, 6), (2, 5, 8), (1, 4, 7)


def new(**options) -> OneWorker:
    return OneWorker("ring", number=1, **{"window": 40, "timeout": "2 ms", **options})


def kind(chunk: int, way: int) -> int:
    """`extra` of a packet."""
    return 1 + 2 * chunk + way


def data(sent: list[Packet]) -> list[Packet]:
    return [packet for packet in sent if packet.extra]


def acks(sent: list[Packet]) -> list[Packet]:
    return [packet for packet in sent if not packet.extra]


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


@pytest.mark.parametrize("order, expected", [("front", [2, 0, 3, 5, 6]), ("fifo", [5, 6, 3, 2, 0])])
def test_the_front_or_what_waits_longest_goes_first(order, expected):
    ring = new(window=1, order=order)
    sent = ring.step(0, partial(ring, 5, index=50), partial(ring, 2, index=51))
    found = []
    for now in range(1, 6):
        (packet,) = data(sent)
        found.append(packet.fragment)
        sent = ring.step(now, ack(ring, packet.index))
    assert found == expected


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


def test_a_fragment_that_is_not_used_here_ends_nothing():
    """As the ranks of a program may give arrays of several sizes; the others need the sum."""
    ring = new()
    ring.step(0)
    ring.scoreboard.status[1] |= send_scoreboard.RECEIVED
    assert [p.fragment for p in data(ring.step(1, partial(ring, 1)))] == [1]
    assert ring.status.iterations == 0 and "results" not in ring.counters


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
    state = ring.protocol.state
    assert state.held > 0 and state.held == state.free  # no row holds a sum any more
