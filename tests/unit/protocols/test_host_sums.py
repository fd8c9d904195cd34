"""A worker whose sums hosts make, packet by packet: member 1 of a ring of three, with nine
fragments of four values.

Fragments 2, 3 and 8 are the last of their tensors and have 2, 3 and 2 values.

It begins fragments 0, 3 and 6, is in the middle of 2, 5 and 8, and the last one of 1, 4 and 7."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import lag, send_scoreboard, wire
from tests.support.one_host import BASE, OneWorker, Packet

MS = 1_000_000
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


def test_it_begins_its_own_fragments():
    ring = new()
    sent = ring.step(0)
    assert [p.fragment for p in sent] == [0, 3, 6]
    assert [p.index for p in sent] == [0, 1, 2]  # a number for each transmission
    for p in sent:
        assert p.values == ring.values_of(1, p.fragment).tolist()
    assert ring.counters == {"gradient_packets": 3}


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


def test_a_sum_of_all_is_passed_on_unless_everybody_has_it():
    ring = new()
    ring.step(0)
    ring.step(10, partial(ring, 2))
    sent = data(ring.step(100, whole(ring, 3), whole(ring, 2)))
    assert [(p.fragment, p.extra, p.bitmap) for p in sent] == [(3, kind(0, DOWN), 0b111)]
    assert ring.counters["results"] == 2 and ring.counters["values_checked"] == 3 + 2


def test_what_is_not_ready_waits_for_the_own_gradient():
    """Forward takes 9 us; backward steps end 6, 7 and 11 us later."""
    ring = new(compute=1)
    for now in (0, 3000, 4000, 9000):
        assert ring.step(now) == []
    assert ring.deadline == 15000
    assert data(ring.step(14000, partial(ring, 5), partial(ring, 2))) == []
    assert [p.fragment for p in data(ring.step(15000))] == [5, 6]
    assert [p.fragment for p in data(ring.step(16000))] == [3]
    assert [p.fragment for p in data(ring.step(20000))] == [2, 0]


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


def test_a_flagged_sum_counts_as_saturated_and_stays_flagged():
    ring = new()
    ring.step(0)
    came = [whole(ring, 0, flags=wire.OVERFLOW | wire.RESEND), partial(ring, 1), whole(ring, 3)]
    sent = {p.fragment: p.flags for p in data(ring.step(1, *came))}
    assert sent == {0: wire.OVERFLOW, 1: 0, 3: 0}
    assert ring.counters["saturated"] == 1 and ring.counters["results"] == 3


# ---- what it takes ----


def test_a_fragment_that_is_not_used_here_ends_nothing():
    """As the ranks of a program may give arrays of several sizes; the others need the sum."""
    ring = new()
    ring.step(0)
    ring.scoreboard.status[1] |= send_scoreboard.RECEIVED
    assert [p.fragment for p in data(ring.step(1, partial(ring, 1)))] == [1]
    assert ring.status.iterations == 0 and "results" not in ring.counters


@pytest.mark.parametrize("number", [31, 32, 39])
def test_members_beyond_one_word_are_named(number):
    """Fragment 8 begins at member 9."""
    ring = OneWorker("ring", number=number, workers=40, window=40, timeout="2 ms")
    ring.step(0)
    numbers = ring.sum_of(range(9, number), 8)
    bits = sum(1 << member for member in range(9, number))
    fields = {"bitmap": bits, "sender": number - 1, "extra": kind(8, UP), "index": 70}
    came = ring.packet(wire.CONTROL, 8, 0, numbers, **fields)
    (sent,) = data(ring.step(1, came))
    assert sent.bitmap == bits | 1 << number
    assert sent.values == ring.sum_of(range(9, number + 1), 8)
    assert sent.extra == kind(8, UP)
    (late,) = acks(ring.step(100 * MS, came))
    assert (late.index, late.bitmap, late.length) == (70, 1, 4 * (BASE + 1))


def test_when_tensors_were_first_sent_is_noted():
    ring = new(window=2)
    table = ring.scoreboard.first_sent_ns
    ring.step(100)  # 0 and 3
    assert table[0].tolist() == [100, 100, -1]
    ring.step(200, ack(ring, 0))  # 6
    assert table[0].tolist() == [100, 100, 200]
    ring.step(300, ack(ring, 1, 2), partial(ring, 5))
    assert table[0].tolist() == [100, 100, 200] and table[1].tolist() == [-1] * 3
    ring = new()
    ring.step(0)
    ring.step(100, partial(ring, 2))
    assert ring.scoreboard.first_sent_ns[0].tolist() == [0, 0, 0]
    finish(ring, 0, 200)
    assert ring.iteration == 1
    assert ring.scoreboard.first_sent_ns[1].tolist() == [201, 201, 201]


def test_a_ring_of_one_sends_nothing():
    ring = OneWorker("ring", workers=1, window=40)
    for now in range(1, 10):
        assert ring.step(now) == []
    assert ring.host.finished() and ring.counters["results"] == 4 * 9


def test_a_tensor_that_is_done_is_not_noted_as_sent():
    """Two members, so member 1 completes fragment 3 itself, its tensor's only one."""
    ring = OneWorker("ring", number=1, workers=2, window=40, timeout="2 ms", order="fifo")
    ring.step(0)
    fields = {"bitmap": 1, "sender": 0, "extra": kind(1, UP)}
    came = ring.packet(wire.CONTROL, 3, 0, ring.sum_of((0,), 3), **fields)
    (sent,) = data(ring.step(100, came))
    assert (sent.fragment, way(sent)) == (3, DOWN)
    assert ring.scoreboard.done_ns[0][1] == 100 and ring.scoreboard.first_sent_ns[0][1] == -1


def test_a_wrong_sum_is_found():
    for packet, fragment in ((whole, 3), (partial, 4)):
        ring = new()
        ring.step(0)
        came = packet(ring, fragment)
        came.row[BASE + 2] ^= np.uint32(1 << 24)
        ring.step(1, came)
        assert ring.status.failed == 1
        assert (ring.status.fragment, ring.status.position) == (fragment, 2)


def test_what_is_over_is_acknowledged_and_no_more():
    ring = new()
    ring.step(0)
    finish(ring, 0, 10)
    assert ring.iteration == 1
    sent = ring.step(20, partial(ring, 5, 0, index=77))
    late = [*sent, *ring.step(20 + 10 * MS)]
    assert 77 in acknowledged(late) and ring.counters["duplicate_results"] == 1


def test_a_neighbour_may_be_an_iteration_ahead():
    ring = new()
    ring.step(0)
    ahead = ring.step(5, partial(ring, 5, 1), partial(ring, 4, 1))
    assert data(ahead) == []
    sent = data(finish(ring, 0, 10))
    of_next = [(p.fragment - 9, way(p)) for p in sent if p.fragment >= 9]
    assert sorted(of_next) == [
        (0, UP),
        (3, UP),
        (4, DOWN),
        (5, UP),
        (6, UP),
    ]
    by_fragment = {p.fragment - 9: p.values for p in sent if p.fragment >= 9}
    assert by_fragment[4] == ring.sum_of((0, 1, 2), 4, 1)
    assert by_fragment[5] == ring.sum_of((0, 1), 5, 1)
    assert by_fragment[0] == ring.values_of(1, 0, 1).tolist()


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


def test_a_window_is_full_until_something_is_acknowledged():
    ring = new(window=2)
    sent = ring.step(0)
    assert [p.fragment for p in sent] == [0, 3]
    assert ring.step(1) == []
    assert [p.fragment for p in ring.step(2, ack(ring, 1))] == [6]
    assert ring.step(3, ack(ring, 1)) == []  # known
    assert ring.step(4, ack(ring, 5)) == []  # never sent
    assert [p.fragment for p in data(ring.step(5, ack(ring, 0, 2), partial(ring, 5)))] == [5]


def test_a_window_keeps_one_packet_whatever_is_marked():
    ring = new(window=1)
    sent = ring.step(0)
    for count in (1, 2):
        (packet,) = data(sent)
        sent = ring.step(1000 * count, ack(ring, packet.index, flags=wire.ECN))
        assert ring.counters["marked_results"] == count
    assert len(data(sent)) == 1


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


@pytest.mark.parametrize("flagged", [0, 1])
def test_a_row_that_is_used_again_has_no_flags(flagged):
    ring = new()
    ring.step(0)
    for iteration in range(flagged):
        finish(ring, iteration, iteration + 1)
    parts = [partial(ring, f, flagged, index=100 + f) for f in (*MIDDLE, *LAST)]
    ring.step(10, *parts)
    sums = [whole(ring, f, flagged, flags=wire.OVERFLOW) for f in (*FIRST, *MIDDLE)]
    ring.step(11, *sums)
    sent = data(finish(ring, flagged + 1, 20))
    assert ring.iteration == flagged + 2
    begun = {p.fragment % 9: (p.flags, p.bitmap) for p in sent if p.fragment >= 9 * (flagged + 2)}
    assert begun == {0: (0, 2), 3: (0, 2), 6: (0, 2)}
