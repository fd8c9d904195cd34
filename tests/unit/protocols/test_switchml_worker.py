"""SwitchML's worker, packet by packet: worker 0 of three, eight slots of two sets, nine fragments.

They go in the order in which backward makes them: 4 to 8, then 3, then 0 to 2."""

from __future__ import annotations

import numpy as np

from testbed.protocols import wire
from tests.support.one_host import BASE, FULL, OneWorker, Packet

US, MS = 1000, 1_000_000
ORDER = [4, 5, 6, 7, 8, 3, 0, 1, 2]
SLOTS = 8
SECOND_SET = 1 << 31


def new(**options) -> OneWorker:
    return OneWorker("switchml", **{"timeout": "2 ms", **options})


def result(worker: OneWorker, number: int, **fields) -> Packet:
    """The sum of a chunk, which is named by its number in the stream."""
    iteration, place = divmod(number, 9)
    fields.setdefault("numbers", worker.sum_of(range(3), ORDER[place], iteration))
    packet = worker.result(ORDER[place], **fields)
    wire.set_word(packet.row, 2, number)
    return packet


def numbers(sent: list[Packet]) -> list[int]:
    return [packet.fragment for packet in sent]


def test_each_slot_has_one_chunk_in_flight():
    worker = new()
    sent = worker.step(0)
    assert numbers(sent) == list(range(SLOTS))
    for packet in sent:
        assert (packet.kind, packet.flags, packet.sender, packet.bitmap) == (wire.GRADIENT, 0, 0, 1)
        assert packet.index == packet.fragment  # the slot, in the first set
        assert packet.values == worker.values_of(0, ORDER[packet.fragment]).tolist()
        assert (packet.length, packet.destination) == (FULL, 0)
    assert worker.step(1) == [] and worker.deadline == 2 * MS
    assert worker.counters == {"gradient_packets": 8}


def test_a_slots_next_chunk_follows_its_result_in_the_other_set():
    worker = new()
    worker.step(0)
    (following,) = worker.step(1, result(worker, 0))
    assert (following.fragment, following.index) == (8, 0 | SECOND_SET)
    # The next iteration goes on in the stream: chunk 9 is fragment 4 again, in slot 1.
    sent = worker.step(2, *[result(worker, n) for n in range(1, 9)])
    assert worker.iteration == 1
    assert numbers(sent) == [9, 10, 11, 12, 13, 14, 15, 16]
    assert [p.index for p in sent] == [*(n - 8 | SECOND_SET for n in range(9, 16)), 0]
    for packet in sent:
        expected = worker.values_of(0, ORDER[packet.fragment - 9], 1)
        assert packet.values == expected.tolist()
    assert worker.counters["results"] == 9 and worker.counters["values_checked"] == 31


def test_a_slot_with_one_set_stays_in_it():
    worker = new(sets=1)
    worker.step(0)
    sent = worker.step(1, *[result(worker, number) for number in range(9)])
    assert [(p.fragment, p.index) for p in sent] == [(n, n % 16) for n in range(9, 18)]


def test_chunks_wait_until_their_tensor_is_ready():
    """Forward takes 9 us; backward steps end 6, 7 and 11 us later."""
    worker = new(compute=1)
    for now in (0, 3000, 4000, 9000):
        assert worker.step(now) == []
    assert numbers(worker.step(15_000)) == [0, 1, 2, 3, 4]
    assert numbers(worker.step(16_000)) == [5]
    assert numbers(worker.step(20_000)) == [6, 7]


def test_what_is_no_result_of_the_job_is_foreign():
    worker = new()
    worker.step(0)
    short = result(worker, 0)
    short.length = FULL - 4
    version = result(worker, 0)
    version.row[0] ^= np.uint32(0x30)
    foreign = [
        short,
        version,
        result(worker, 0, job=1),
        result(worker, 0, kind=wire.GRADIENT),
        result(worker, 8),  # of a slot that has another chunk in flight
    ]
    for count, packet in enumerate(foreign, 1):
        assert worker.step(count, packet) == []
        assert worker.counters["foreign"] == count
    worker.step(100, result(worker, 0, kind=wire.RESULT_ONE))
    assert worker.counters["results"] == 1


def test_a_result_counts_once():
    worker = new()
    worker.step(0)
    assert len(worker.step(1, result(worker, 0))) == 1
    assert worker.step(2, result(worker, 0)) == []
    assert worker.counters["duplicate_results"] == 1 and worker.counters["results"] == 1


def test_a_result_of_an_idle_slot_is_foreign():
    """Its tensor is not ready here, so nothing can have added this worker's part."""
    worker = new(compute=1)
    for now in (0, 3000, 4000, 9000, 15_000):
        worker.step(now)
    assert worker.step(15_001, result(worker, 6)) == []
    assert worker.counters["foreign"] == 1


def test_a_wrong_value_is_named():
    worker = new()
    worker.step(0)
    wrong = result(worker, 2)
    wrong.row[BASE + 3] ^= np.uint32(1 << 24)
    assert worker.step(1, wrong) == []
    status = worker.status
    assert (status.failed, status.fragment, status.position) == (1, ORDER[2], 3)
    assert status.expected == worker.sum_of(range(3), ORDER[2])[3] == status.found ^ 1


def test_overflow_counts():
    worker = new()
    worker.step(0)
    worker.step(1, result(worker, 0, flags=wire.OVERFLOW), result(worker, 1))
    assert worker.counters["saturated"] == 1


# ---- retransmission ----


def test_a_chunk_without_a_result_is_sent_again_to_its_slot_and_set():
    worker = new()
    worker.step(0)
    worker.step(1000, *[result(worker, n) for n in (0, 2, 3, 4, 5, 6, 7)])
    assert worker.deadline == 2 * MS
    assert worker.step(2 * MS - 1) == []
    (again,) = worker.step(2 * MS)
    assert (again.fragment, again.index, again.flags) == (1, 1, wire.RESEND)
    assert again.values == worker.values_of(0, ORDER[1]).tolist()
    (again,) = worker.step(2 * MS + 1000)
    assert (again.fragment, again.index, again.flags) == (8, SECOND_SET, wire.RESEND)
    assert worker.counters["retransmissions"] == 2 and "gap_resends" not in worker.counters
    assert worker.deadline == 4 * MS


def test_waiting_doubles_from_time_to_time():
    worker = new()
    worker.step(0)
    worker.step(1, *[result(worker, n) for n in range(9) if n != 1 and n < 8])
    worker.step(2, result(worker, 8))
    times = []
    for _ in range(8):
        now = worker.deadline
        assert numbers(worker.step(now)) == [1]
        times.append(now // MS)
    waits = np.diff([0, *times]).tolist()
    assert waits[0] == 2 and waits == sorted(waits) and waits[-1] > waits[0]
    assert all(later in (wait, 2 * wait) for wait, later in zip(waits, waits[1:], strict=False))


def test_round_trips_are_those_of_what_was_sent_once():
    worker = new()
    worker.step(1000)
    worker.step(5000, result(worker, 0))
    assert worker.state.round_trip_ns == 4000
    worker.step(3 * MS)  # sends all but chunk 8 again
    worker.step(3 * MS + 100, result(worker, 1))
    assert worker.state.round_trip_ns == 4000


def test_what_was_sent_well_before_a_chunk_whose_result_is_here_is_lost():
    """At 100 kbit/s a packet takes 6.88 ms; a worker is patient for 10 ms."""
    link = "links: {bandwidth: 100 kbit/s}"
    worker = new(timeout="adaptive", keys=link)
    slow = 6_880_000
    sent = []
    for count in range(4):
        now = 1000 + count * slow
        assert numbers(worker.step(now)) == [count]
        if count != 1:
            sent = worker.step(now + 4000, result(worker, count))
            assert count == 3 or sent == []
    assert [(p.fragment, p.flags) for p in sent] == [(1, wire.RESEND)]
    assert worker.counters["gap_resends"] == worker.counters["retransmissions"] == 1
    assert worker.step(now + 5000) == []


def test_nothing_counts_as_lost_that_was_sent_a_little_before():
    worker = new(timeout="adaptive", keys="links: {bandwidth: 1 Mbit/s}")
    for count in range(6):
        now = 1000 + count * 688_000
        assert numbers(worker.step(now)) == [count]
        if count != 1:
            assert worker.step(now + 4000, result(worker, count)) == []
    assert "gap_resends" not in worker.counters


def test_packets_are_paced_at_the_links_rate():
    """One of 86 bytes takes 6.88 us at 100 Mbit/s."""
    worker = new(keys="links: {bandwidth: 100 Mbit/s}", timeout="20 ms")
    assert numbers(worker.step(0)) == [0] and worker.deadline == 6880
    assert worker.step(6879) == [] and numbers(worker.step(6880)) == [1]
    assert worker.deadline == 2 * 6880


def test_a_job_ends_with_its_last_iteration():
    worker = new()
    sent, now = worker.step(0), 0
    while sent:
        now += 1000
        sent = worker.step(now, *[result(worker, n) for n in numbers(sent)])
    assert worker.host.finished()
    assert worker.counters["results"] == 4 * 9 and worker.counters["gradient_packets"] == 4 * 9
