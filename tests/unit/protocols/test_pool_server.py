"""A parameter server behind aggregating switches: what its records (test_recorded_hosts.py) do not
reach, and when it reminds. Three workers, one switch, nine fragments of four values, four
iterations."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import server_store, wire
from tests.support.one_host import BASE, FULL, OneServer, Packet

US, MS = 1000, 1_000_000
TO_WORKERS, FIRST, SWITCH = 0, 1, 4  # destinations; the switch has the workers' group's address
SERVER = 0x4000
EVERYBODY = (0, 1, 2)
DELAY = 300 * US


def new(system: str = "esa", **options) -> OneServer:
    return OneServer(system, **{"reminder_delay": "300 us", **options})


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


def test_a_sum_of_rounded_values_is_rounded_once_all_are_in():
    """Three workers' sums have up to two bits more."""
    server = new(keys="value_bits: 16")
    server.step(1, server.gradient(4, 0, numbers=[2, 5, 6, -2], flags=wire.ROUND))
    (result,) = server.step(2, server.gradient(4, 1, 2, numbers=[0, 0, 0, 0], flags=wire.ROUND))
    result.expand()
    assert result.values == [0, 1, 2, 0]  # a half to the even number
    assert result.flags == 0


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


@pytest.mark.parametrize(
    "spread_ms, round_trip_ms, delay_ms", [(0, 1, 2), (3, 1, 7), (50, 20, 120), (90, 40, 200)]
)
def test_a_first_reminder_waits_for_what_is_merely_late(spread_ms, round_trip_ms, delay_ms):
    """Twice the spread and a round trip, from 2 to 200 ms."""
    server = OneServer("esa")
    server.state.spread_ns, server.state.round_trip_ns = spread_ms * MS, round_trip_ms * MS
    server.step(1000, server.gradient(3, 0))
    assert server.deadline == 1000 + delay_ms * MS


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


# ---- results that are no longer kept ----


@pytest.fixture
def few(monkeypatch):
    """Two results are kept."""
    monkeypatch.setattr(server_store, "KEPT_WINDOWS", 0)
    monkeypatch.setattr(server_store, "KEPT_ROWS", 2)


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
