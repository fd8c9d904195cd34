"""A parameter server behind aggregating switches, packet by packet: three workers, one switch, nine
fragments of four values, four iterations."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import progress, server_store, wire
from tests.support.one_host import BASE, FULL, OneServer, OneWorker, Packet

US, MS = 1000, 1_000_000
TO_WORKERS, FIRST, SWITCH = 0, 1, 4  # destinations; the switch has the workers' group's address
SERVER = 0x4000
EVERYBODY = (0, 1, 2)
DELAY = 300 * US


def new(system: str = "esa", **options) -> OneServer:
    server = OneServer(system, **{"reminder_delay": "300 us", **options})
    return server


def kinds(sent: list[Packet]) -> list[int]:
    return [packet.kind for packet in sent]


def asked(sent: list[Packet]) -> list[int]:
    """The workers that are asked for something."""
    for packet in sent:
        if packet.kind == wire.ASK:
            worker = packet.destination - FIRST
            assert packet.bitmap == 1 << worker
            assert (packet.length, packet.sender) == (4 * BASE, SERVER)
            assert int(wire.node(packet.row)) == 0
    return [packet.destination - FIRST for packet in sent if packet.kind == wire.ASK]


def check_result(server: OneServer, packet: Packet, fragment: int, iteration: int = 0) -> None:
    assert packet.fragment == 9 * iteration + fragment
    assert packet.values == server.sum_of(EVERYBODY, fragment, iteration)
    assert (packet.bitmap, packet.sender, packet.length) == (0b111, SERVER, FULL)
    assert int(wire.job(packet.row)) == 0 and int(wire.node(packet.row)) == 0


# ---- sums ----


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_a_sum_of_all_is_a_result(system):
    server = new(system)
    (result,) = server.step(1, server.gradient(4, *EVERYBODY))
    check_result(server, result, 4)
    assert (result.kind, result.flags, result.destination) == (wire.RESULT, 0, TO_WORKERS)
    worker = OneWorker(system)
    index = next(p.index for p in worker.step(0) if p.fragment == 4)
    assert result.index == index
    assert server.counters == {"ps_packets": 1, "ps_aggregates": 1, "results": 1}


@pytest.mark.parametrize("parts", [[(0, 1), (2,)], [(2,), (1,), (0,)], [(1,), (2, 0)]])
def test_parts_add_up(parts):
    server = new()
    *first, last = [server.gradient(2, *part) for part in parts]
    for packet in first:
        assert server.step(1, packet) == []
    (result,) = server.step(2, last)
    check_result(server, result, 2)
    assert server.counters == {"ps_packets": len(parts), "results": 1}


def test_what_is_known_is_not_added_again():
    server = new()
    assert server.step(1, server.gradient(0, 0, 1), server.gradient(0, 0)) == []
    assert server.step(2, server.gradient(0, 1), server.gradient(0, 0, 1)) == []
    (result,) = server.step(3, server.gradient(0, 2))
    check_result(server, result, 0)
    assert server.counters["ps_known"] == 3


def test_a_sum_that_contains_what_is_here_replaces_it():
    server = new()
    wrong = server.gradient(0, 0, numbers=[9] * 4, flags=wire.COLLISION)
    assert server.step(1, wrong) == []
    assert server.step(2, server.gradient(0, 0, 1, flags=wire.ECN)) == []
    (result,) = server.step(3, server.gradient(0, 2))
    check_result(server, result, 0)
    assert result.flags == wire.ECN
    assert server.counters["ps_replaced"] == 1 and "ps_overlaps" not in server.counters


def test_a_sum_that_overlaps_is_dropped_and_who_is_missing_is_asked():
    server = new()
    assert server.step(1, server.gradient(0, 0, 1)) == []
    sent = server.step(2, server.gradient(0, 1, 2))
    assert asked(sent) == [2] and sent[0].fragment == 0
    (result,) = server.step(3, server.gradient(0, 2))
    check_result(server, result, 0)
    assert server.counters["ps_overlaps"] == 1 and server.counters["asks"] == 1


@pytest.mark.parametrize(
    "first, second, total, flag",
    [
        (2**31 - 1, 1, -(2**31), wire.OVERFLOW),
        (-(2**31), -1, 2**31 - 1, wire.OVERFLOW),
        (2**31 - 1, -1, 2**31 - 2, 0),
        (2**30, 2**30 - 1, 2**31 - 1, 0),
    ],
)
@pytest.mark.parametrize("place", [0, 3])
def test_a_sum_that_leaves_int32_is_flagged(first, second, total, flag, place):
    server = new()
    numbers = np.zeros((2, 4), np.int64)
    numbers[:, place] = first, second
    server.step(1, server.gradient(0, 0, numbers=numbers[0].tolist()))
    (result,) = server.step(2, server.gradient(0, 1, 2, numbers=numbers[1].tolist()))
    assert result.flags == flag and result.values[place] == total


def test_a_result_names_the_one_before_it():
    server = new()
    assert server.step(1, server.gradient(4, *EVERYBODY))[0].extra == 0
    assert server.step(2, server.gradient(7, *EVERYBODY))[0].extra == 1 + 4
    assert server.step(3, server.gradient(0, *EVERYBODY))[0].extra == 1 + 7
    (again,) = server.step(4, server.gradient(4, 1, flags=wire.RESEND))
    assert again.extra == 0
    assert server.step(5, server.gradient(1, *EVERYBODY))[0].extra == 1 + 0


# ---- what it takes ----


def test_what_no_member_can_have_sent_is_foreign():
    server = new()
    short = server.gradient(0, 0)
    short.length = FULL - 4
    version = server.gradient(0, 0)
    version.row[0] ^= np.uint32(0x30)
    foreign = [
        short,
        version,
        server.gradient(0, 0, job=1),
        server.gradient(0, 0, bitmap=0),
        server.gradient(0, 0, bitmap=0b1001),
        server.gradient(0, 0, bitmap=1 << 31),
        server.gradient(0, 0, iteration=1),  # nobody can be done with iteration 0
        server.result(0),
    ]
    for count, packet in enumerate(foreign, 1):
        assert server.step(count, packet) == []
        assert server.counters == {"foreign": count}


def iterations(server: OneServer, *numbers: int) -> None:
    for iteration in numbers:
        packets = [server.gradient(f, *EVERYBODY, iteration=iteration) for f in range(9)]
        sent = server.step(10 * iteration, *packets)
        assert kinds(sent) == [wire.RESULT] * 9
        for packet, fragment in zip(sent, range(9), strict=True):
            check_result(server, packet, fragment, iteration)


def test_rows_are_used_again_two_iterations_later():
    server = new()
    iterations(server, 0, 1, 2, 3)
    assert server.counters["results"] == 36
    assert server.step(100, server.gradient(0, 0, iteration=4)) == []
    assert server.counters["foreign"] == 1
    assert server.step(101, server.gradient(0, 0, iteration=1)) == []
    assert server.counters["stale"] == 1
    (again,) = server.step(102, server.gradient(5, 2, iteration=2, flags=wire.RESEND))
    check_result(server, again, 5, 2)


def test_a_result_is_served_again_to_who_asks():
    server = new()
    server.step(1, server.gradient(4, *EVERYBODY))
    assert server.step(2, server.gradient(4, 1)) == []  # a late copy
    (again,) = server.step(3, server.gradient(4, 1, flags=wire.RESEND))
    check_result(server, again, 4)
    assert (again.kind, again.destination) == (wire.RESULT_ONE, FIRST + 1)
    assert server.step(4, server.gradient(4, 1, flags=wire.RESEND, sender=3)) == []
    (last,) = server.step(5, server.gradient(4, 2, flags=wire.RESEND))
    assert last.destination == FIRST + 2
    counters = server.counters
    assert (counters["ps_known"], counters["duplicate_results"], counters["results"]) == (4, 2, 1)


# ---- reminders and requests ----


def check_reminder(packet: Packet, fragment: int) -> None:
    assert (packet.kind, packet.fragment, packet.flags) == (wire.REMINDER, fragment, 0)
    assert (int(wire.node(packet.row)), packet.bitmap) == (1, 0)
    assert packet.length == 4 * BASE and packet.sender == SERVER
    assert packet.destination in (TO_WORKERS, SWITCH)


def test_what_is_incomplete_is_pulled_and_then_asked_for():
    server = new()
    server.step(1000, server.gradient(0, 1))
    assert server.deadline == 1000 + DELAY
    assert server.step(1000 + DELAY - 1) == []
    seen, now = [], 0
    for _ in range(9):
        now = server.deadline
        sent = server.step(now)
        check_reminder(sent[0], 0)
        seen.append((now // US, asked(sent)))
    # The wait doubles, up to the sixth time. From the third time on workers are asked, but the
    # switch is to answer first, which it does not.
    times = np.cumsum([1 + 300, 600, 1200, 2400, 4800, 9600, 19200, 19200, 19200]).tolist()
    assert seen == [(at, [0, 2] if place >= 3 else []) for place, at in enumerate(times)]
    assert server.counters["reminders"] == 9 and server.counters["asks"] == 12
    assert server.step(now + 1, server.gradient(0, 0, 2))[0].kind == wire.RESULT
    assert server.step(now + 10_000 * MS) == []


@pytest.mark.parametrize("held", [False, True])
def test_who_is_missing_is_asked_when_the_switch_has_answered(held):
    """What it held is not missing."""
    server = new()
    server.step(1000, server.gradient(0, 1))
    for _ in range(3):
        now = server.deadline
        assert asked(server.step(now)) == []
    if held:
        answer = server.gradient(0, 2, flags=wire.REMINDED | wire.PARTIAL)
    else:
        answer = server.packet(wire.REMINDER_EMPTY, 0, sender=0)
    assert asked(server.step(now + 100, answer)) == ([0] if held else [0, 2])
    # It is asked once, and not because of what it sent by itself.
    assert server.step(now + 200, server.packet(wire.REMINDER_EMPTY, 0, sender=0)) == []
    server.step(server.deadline)
    requested = wire.REMINDED | wire.RESEND
    assert server.step(now + 300, server.gradient(0, 2, flags=requested)) == []


@pytest.mark.parametrize(
    ("flags", "workers", "shown"),
    [
        (wire.RESEND, (2,), wire.RESEND),
        (wire.RESEND | wire.REMINDED, (2,), 0),  # was requested before it was sent
        (wire.RESEND | wire.REMINDED, (1, 2), 0),  # and an aggregator that 2 took along
        (wire.RESEND, (1, 2), wire.RESEND),  # the aggregator lacked it
        (wire.REMINDED | wire.PARTIAL, (1, 2), 0),
    ],
)
def test_a_result_says_whether_it_waited_for_what_was_lost(flags, workers, shown):
    server = new()
    one = [worker for worker in (0, 1) if worker not in workers]
    server.step(1000, server.gradient(0, *one))
    (result,) = server.step(2000, server.gradient(0, *workers, flags=flags, sender=2))
    assert (result.kind, result.flags) == (wire.RESULT, shown)


def test_without_reminders_nothing_is_pulled():
    server = new(reminder="false")
    server.step(1000, server.gradient(0, 1))
    assert server.step(10_000 * MS) == [] and server.deadline > 10**18


@pytest.mark.parametrize("iteration", [0, 1])
def test_what_all_workers_have_passed_is_pulled_at_once(iteration):
    server = new()
    iterations(server, *range(iteration))

    def gradient(fragment: int, worker: int, **fields) -> Packet:
        return server.gradient(fragment, worker, iteration=iteration, **fields)

    server.step(1000, gradient(4, 0, flags=wire.COLLISION))
    assert server.step(2000, gradient(6, 0), gradient(6, 1)) == []
    sent = server.step(3000, gradient(7, 2))
    for packet, fragment in zip(sent, (4, 6), strict=True):  # of 5 nothing is here
        check_reminder(packet, 9 * iteration + fragment)
    assert server.step(4000, gradient(7, 1)) == []  # 0 has sent no more than 6


def test_round_trips_to_the_switch_and_the_spread_of_arrivals_are_measured():
    server = OneServer("esa")
    server.step(1000, server.gradient(0, 0))
    server.step(9000, server.gradient(0, 1, 2))
    assert server.state.spread_ns == 8000
    server.step(10_000, server.gradient(1, 0))
    server.step(18_000 + 800, server.gradient(1, 1, 2, flags=wire.RESEND))
    assert server.state.spread_ns == 8000  # it waited for a resend
    server.step(20_000, server.gradient(2, 0))
    server.step(28_800, server.gradient(2, 1, 2))
    assert server.state.spread_ns == 8100  # an eighth of the difference
    server.step(30_000, server.gradient(3, 0))
    now = server.deadline
    (reminder,) = server.step(now)
    check_reminder(reminder, 3)
    empty = server.packet(wire.REMINDER_EMPTY, 3, sender=0)
    server.step(now + 4000, empty)
    assert server.state.round_trip_ns == 4000 and server.counters["reminders_empty"] == 1
    # Of a fragment that was not reminded of, or more than once, it says nothing.
    server.step(now + 5000, server.packet(wire.REMINDER_EMPTY, 4, sender=0))
    now = server.deadline
    server.step(now)
    server.step(now + 8000, server.packet(wire.REMINDER_EMPTY, 3, sender=0))
    server.step(now + 9000, server.gradient(3, 1, flags=wire.REMINDED | wire.PARTIAL))
    assert server.state.round_trip_ns == 4000
    # What has been pulled says nothing of the spread.
    before = int(server.state.spread_ns)
    server.step(now + 10_000, server.gradient(3, 2, flags=wire.REMINDED | wire.PARTIAL))
    assert server.state.spread_ns == before and server.counters["results"] == 4


@pytest.mark.parametrize(
    "spread_ms, round_trip_ms, delay_ms", [(0, 1, 2), (3, 1, 7), (50, 20, 120), (90, 40, 200)]
)
def test_a_first_reminder_waits_for_what_is_merely_late(spread_ms, round_trip_ms, delay_ms):
    """Twice the spread and a round trip, from 2 to 200 ms."""
    server = OneServer("esa")
    server.state.spread_ns, server.state.round_trip_ns = spread_ms * MS, round_trip_ms * MS
    server.step(1000, server.gradient(3, 0))
    assert server.deadline == 1000 + delay_ms * MS


def test_requests_are_paced_on_a_slow_link():
    """At 10 Mbit/s, what a request calls for takes 69 us and more."""
    server = new(keys="links: {bandwidth: 10 Mbit/s}")
    server.step(1000, server.gradient(0, 0), server.gradient(3, 0), server.gradient(4, 0))
    now = 1000 + DELAY
    seen = server.step(now)
    step_ps = server.config.request_ps
    assert step_ps > 60 * US * 1000
    assert server.deadline == -(-(now * 1000 + step_ps) // 1000)
    assert server.step(server.deadline - 1) == []
    for _ in range(2):
        seen += server.step(server.deadline)
    assert sorted(p.fragment for p in seen) == [0, 3, 4] and set(kinds(seen)) == {wire.REMINDER}


# ---- shorter packets ----


def test_a_sum_of_rounded_values_is_rounded_once_all_are_in():
    """Three workers' sums have up to two bits more."""
    server = new(keys="value_bits: 16")
    server.step(1, server.gradient(4, 0, numbers=[2, 5, 6, -2], flags=wire.ROUND))
    (result,) = server.step(2, server.gradient(4, 1, 2, numbers=[0, 0, 0, 0], flags=wire.ROUND))
    result.expand()
    assert result.values == [0, 1, 2, 0]  # a half to the even number
    assert result.flags == 0


# ---- more than 32 workers ----


def test_workers_beyond_one_word_are_told_apart():
    server = new(workers=40)
    everybody = tuple(range(40))
    lacking = (7, 32, 39)
    sent = server.step(1, server.gradient(0, *[w for w in everybody if w not in lacking]))
    assert sent == []
    assert server.step(2, server.gradient(0, 0, bitmap=1 << 40)) == []
    assert server.counters["foreign"] == 1
    server.step(2, server.gradient(5, 0))
    assert server.counters["foreign"] == 1
    sent = server.step(3, server.gradient(0, 7, 8))
    assert [p.bitmap for p in sent if p.kind == wire.ASK] == [1 << w for w in lacking]
    reminder = next(p for p in server.step(server.deadline) if p.kind == wire.REMINDER)
    assert reminder.bitmap == 0 and reminder.length == 4 * (BASE + 1)
    server.step(4, server.gradient(0, 7), server.gradient(0, 32))
    (result,) = server.step(5, server.gradient(0, 39))
    assert result.bitmap == (1 << 40) - 1 and result.values == server.sum_of(everybody, 0)
    (again,) = server.step(6, server.gradient(0, 39, flags=wire.RESEND))
    assert again.destination == FIRST + 39


@pytest.mark.parametrize("results, sends", [(0, True), (1, True), (2, False)])
@pytest.mark.parametrize("pulled", [False, True])
def test_a_batch_must_have_room_for_a_reminder_and_all_requests(results, sends, pulled):
    """A switch and three workers take up to four of five rows."""
    server = new(room=5)
    server.step(1000, server.gradient(4, 0, flags=wire.RESEND))
    came = [server.gradient(fragment, *EVERYBODY) for fragment in range(results)]
    now = 1000 + DELAY
    if pulled:
        now = 2000
        progress.put(server.server.progress, 4)
    sent = server.step(now, *came)
    assert kinds(sent) == [wire.RESULT] * results + [wire.REMINDER] * sends
    assert sends or kinds(server.step(server.deadline)) == [wire.REMINDER]


@pytest.mark.parametrize("room, asks", [(6, []), (7, [2])])
def test_requests_at_once_leave_room_for_the_results_of_what_has_come(room, asks):
    """One result is in the batch. Two packets, this one included, may make one each, and there are
    three workers."""
    server = new(reminder="false", room=room)
    server.step(1000, server.gradient(4, 0, 1, flags=wire.RESEND))
    came = [
        server.gradient(0, *EVERYBODY),
        server.gradient(4, 1, 2, flags=wire.RESEND),
        server.gradient(1, *EVERYBODY),
    ]
    sent = server.step(2000, *came)
    assert [p.fragment for p in sent if p.kind == wire.RESULT] == [0, 1]
    assert asked(sent) == asks


def test_switches_that_a_stripe_does_not_reach_are_not_reminded():
    server = new(aggregators=64)
    stripes = server.server.stripes._replace(
        of=np.array([0, 1, 0, 1, 0, 1, 0, 1, 0], np.int16), reached=np.array([[1], [0]], np.uint8)
    )
    server.replace(stripes=stripes)
    for iteration in (0, 1):
        now = 10 * MS * (iteration + 1)
        parts = [server.gradient(f, 0, iteration=iteration, flags=wire.RESEND) for f in (3, 4)]
        server.step(now, *parts)
        sent = server.step(server.deadline)
        assert [(p.kind, p.fragment) for p in sent] == [(wire.REMINDER, 9 * iteration + 4)]
        server.step(now + MS, *[server.gradient(f, *EVERYBODY) for f in range(9)])


# ---- ATP's indices ----


def test_a_position_that_collided_gets_another_index():
    server = new("atp", window=6)
    server.step(1, server.gradient(4, 0, flags=wire.COLLISION))
    (result,) = server.step(2, server.gradient(4, 1, 2))
    worker = OneWorker("atp", window=6)
    first = {p.fragment: p.index for p in worker.step(0)}
    assert result.index == first[4] and result.extra not in first.values()
    assert result.extra == 0  # the same in every version
    assert server.counters["rehashes"] == 1
    (following,) = server.step(3, server.gradient(0, *EVERYBODY))  # of the same position
    assert following.index == following.extra == result.extra
    other = server.step(3, server.gradient(5, *EVERYBODY))[0]
    assert other.extra == other.index == first[5]


# ---- results that are no longer kept ----


@pytest.fixture
def few(monkeypatch):
    """Two results are kept."""
    monkeypatch.setattr(server_store, "KEPT_WINDOWS", 0)
    monkeypatch.setattr(server_store, "KEPT_ROWS", 2)


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_a_result_that_is_no_longer_kept_begins_anew(few, system):
    server = new(system, window=1)
    for fragment in (0, 1, 2):
        server.step(1, server.gradient(fragment, *EVERYBODY))
    assert [p.kind for p in server.step(2, server.gradient(1, 2, flags=wire.RESEND))] == [
        wire.RESULT_ONE
    ]
    sent = server.step(3, server.gradient(0, 2, flags=wire.RESEND))
    assert asked(sent) == [0, 1] and {p.flags for p in sent} == {wire.AGAIN}
    assert {p.fragment for p in sent} == {0}
    sent = server.step(100_000, server.gradient(0, 2, flags=wire.RESEND))
    assert asked(sent) == [0, 1], "requests may be lost"
    assert server.step(200_000, server.gradient(0, 1, flags=wire.RESEND)) == []
    (result,) = server.step(200_001, server.gradient(0, 0, flags=wire.RESEND))
    check_result(server, result, 0)
    assert (result.kind, result.flags) == (wire.RESULT, wire.RESEND)


def test_what_is_complete_and_not_kept_needs_no_more_contributions(few):
    server = new(window=1)
    for fragment in (0, 1, 2):
        server.step(1, server.gradient(fragment, *EVERYBODY))
    assert server.step(2, server.gradient(0, 1)) == []
    assert server.counters["ps_known"] == 1 and server.counters["results"] == 3


def test_a_slot_is_used_again(few):
    server = new(window=1)
    for iteration in range(4):
        for fragment in range(9):
            (result,) = server.step(
                10 * iteration + fragment,
                server.gradient(fragment, *EVERYBODY, iteration=iteration),
            )
            check_result(server, result, fragment, iteration)
    assert server.state.slots == 3


def test_without_a_free_slot_a_packet_is_lost(few):
    server = new(window=1, reminder="false")
    for fragment in range(8):
        server.step(1, server.gradient(fragment, 0))
    assert server.state.slots == server.server.row.size == 8
    assert server.step(2, server.gradient(8, *EVERYBODY)) == []
    server.step(3, server.gradient(0, 1, 2))
    for _ in range(3):  # complete rows are held on
        assert server.step(4, server.gradient(8, *EVERYBODY)) == []
    server.step(5, server.gradient(1, 1, 2), server.gradient(2, 1, 2))
    (result,) = server.step(6, server.gradient(8, *EVERYBODY))
    check_result(server, result, 8)
