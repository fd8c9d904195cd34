"""Lossless links: pause frames and credits, the buffer behind them, and hosts that obey."""

from __future__ import annotations

import struct
from itertools import pairwise
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4engine.switch.lossless_links import BufferSettings, flow, lacks, pauses, set_buffer
from p4engine.switch.traffic_manager import SwitchError

RATE = 512_000_000  # 64 bytes: 1000 ns
SLOW = RATE // 4


def pfc_frame(classes: int, quanta: int) -> bytes:
    head = bytes.fromhex("0180c2000001") + bytes(6) + struct.pack("!HHH", 0x8808, 0x0101, classes)
    return (head + struct.pack("!H", quanta) * 8).ljust(60, b"\0")


def lossless(tm, size=100_000, headroom=1024, hosts=None, rates=None, **more) -> None:
    hosts = tm.ports if hosts is None else hosts
    for port in tm.ports:
        rate = (rates or {}).get(port, RATE)
        tm.port_shape(port, "egress", rate_bps=rate, queue_packets=2, delay_ns=500)
        if port in hosts:
            tm.port_shape(port, "ingress", rate_bps=rate, queue_packets=2, delay_ns=500)
    settings = {"kind": "pfc", "longest": 64, "reserve": 0, "threshold": 640, "resume": 320}
    buffer = BufferSettings(size=size, **(settings | more))
    set_buffer(tm, buffer, dict.fromkeys(tm.ports, headroom), hosts)


@pytest.mark.parametrize("kind", ["pfc", "cbfc"])
def test_hosts_that_send_too_much_wait_and_nothing_is_lost(make, packet, kind):
    tm = make(ports=[1, 2, 3])
    lossless(tm, kind=kind, rates={2: SLOW})
    for port in (1, 3):
        for _ in range(100):
            tm.receive(port, packet("U", 2), 0)
    out = tm.run()
    data = [frame for _, port, frame in out if frame[12:14] != b"\x88\x08"]
    assert len(data) == 200 and not any(row["queue_drops"] for row in tm.port_stats())
    told = [(port, frame) for _, port, frame in out if frame[12:14] == b"\x88\x08"]
    assert {port for port, _ in told} >= {1, 3}
    for port in (1, 3):
        seen = flow(tm, port, 0)
        assert seen["host_paused_ns"] > 500_000 and seen["frames_sent"] > 4
        assert seen["peak"] <= 640 + 64 + 1024 and seen["bytes"] == 0
        assert not seen["pausing"] and not seen["host_waiting"]
    # The slow link is busy from the first packet to the last.
    times = [time for time, port, frame in out if port == 2 and frame in data]
    assert times[-1] - times[0] == 199 * 4000
    if kind == "pfc":
        rows, missed = pauses(tm)
        assert {(row.port, row.cause) for row in rows} == {(1, 2), (3, 2)} and not missed
        assert all(row.until_ns and row.until_ns > row.from_ns for row in rows)
        mine = sum(row.until_ns - row.from_ns for row in rows if row.port == 1)
        assert mine == flow(tm, 1, 0)["pausing_ns"]


def test_a_paused_port_keeps_its_packets_until_the_pause_ends(make, packet):
    tm = make(ports=[1, 2])
    lossless(tm, hosts=(1,))
    quanta = 20  # 20 x 512 bits: 20 us
    tm.receive(2, pfc_frame(1, quanta), 0)
    tm.receive(1, packet("U", 2), 0)
    assert [time for time, port, _ in tm.run() if port == 2] == [20_000 + 1000 + 500]
    tm.receive(2, pfc_frame(1, 65535), 100_000)
    tm.receive(1, packet("U", 2), 100_000)
    tm.receive(2, pfc_frame(1, 0), 150_000)
    assert [time for time, port, _ in tm.run() if port == 2] == [150_000 + 1500]
    seen = flow(tm, 2, 0)
    assert (seen["paused_ns"], seen["longest_ns"], seen["paused"]) == (70_000, 50_000, 0)
    assert seen["frames_received"] == 3


def test_a_pause_is_told_again_before_it_ends(make, packet):
    tm = make(ports=[1, 2])
    lossless(tm, hosts=(1,), threshold=64)
    tm.receive(2, pfc_frame(1, 65535), 0)
    for _ in range(20):
        tm.receive(1, packet("U", 2), 0)
    for n in range(1, 9):  # the far end of port 2 goes on pausing for 4 x the longest pause
        tm.receive(2, pfc_frame(1, 65535), n * 32_000_000)
    out = tm.advance(8 * 32_000_000)
    assert sum(port == 2 for _, port, _ in out) == 0
    assert flow(tm, 1, 0)["frames_sent"] in (8, 9)  # every 32.8 ms
    assert flow(tm, 1, 0)["host_paused"] and flow(tm, 1, 0)["host_waiting"] > 0
    assert sum(port == 2 for _, port, _ in tm.run()) == 20


def test_a_pause_of_an_unknown_class_is_counted_and_stops_nobody(make, packet):
    tm = make(ports=[1, 2])
    lossless(tm, hosts=(1,))
    tm.receive(2, pfc_frame(0b100000, 65535), 0)
    tm.receive(1, packet("U", 2), 0)
    assert [time for time, port, _ in tm.run() if port == 2] == [3000]
    seen = flow(tm, 2, 0)
    assert (seen["unknown"], seen["unknown_classes"], seen["paused_ns"]) == (1, 32, 0)


def test_too_little_headroom_drops_and_says_so(make, packet):
    tm = make(ports=[1, 2])
    lossless(tm, hosts=(1,), rates={2: SLOW}, headroom=64)
    for _ in range(100):
        tm.receive(1, packet("U", 2), 0)
    tm.run()
    drops = flow(tm, 1, 0)["drops"]
    assert drops > 0
    assert sum(row["queue_drops"] for row in tm.port_stats()) == drops


def test_an_input_pauses_until_its_headroom_is_empty(make, packet):
    """Also if its threshold grows meanwhile, since others use less of the shared memory."""
    tm = make(ports=[1, 2, 3, 4])
    lossless(tm, size=4 * 1024 + 1280, hosts=(), threshold=None, shift=0, resume=64)
    for port in (2, 4):
        tm.receive(port, pfc_frame(1, 65535), 0)
    for port, count in ((1, 9), (3, 18)):  # of 20 packets; the threshold is what is left
        for _ in range(count):
            tm.receive(port, packet("U", 2 if port == 1 else 4), 0)
    for _ in range(4):
        tm.receive(1, packet("U", 2), 0)
    seen = flow(tm, 1, 0)
    assert (seen["bytes"], seen["peak_headroom"], seen["pausing"]) == (13 * 64, 4 * 64, 1)
    tm.receive(4, pfc_frame(1, 0), 0)  # all that input 3 uses becomes free
    tm.advance(100_000)
    tm.receive(2, pfc_frame(1, 0), 100_000)
    left = []
    for packets in range(1, 13):
        tm.advance(100_000 + 1000 * packets)
        left.append((flow(tm, 1, 0)["bytes"] // 64, flow(tm, 1, 0)["pausing"]))
    assert left == [(n, n > 9) for n in range(11, -1, -1)]


def test_an_output_pauses_all_inputs(make, packet):
    tm = make(ports=[1, 2, 3, 4])
    lossless(tm, rates={2: SLOW}, by_output=True)
    for _ in range(60):
        tm.receive(1, packet("U", 2), 0)
        tm.receive(3, packet("U", 4), 0)
    tm.run()
    assert flow(tm, 3, 0)["host_paused_ns"] > 0  # although its packets go elsewhere
    rows, _ = pauses(tm)
    assert {row.port for row in rows} == {1, 2, 3, 4} and {row.cause for row in rows} == {2}


HELD = 5, 0xFFFF_0000_0000_00FF  # in a packet with an operation of the fake program


def part(packet, op: str, key: int, output: int = 3) -> bytes:
    """A packet that belongs together with all others of this key."""
    made = packet(op, output)
    return made[:5] + bytes([7, 7, key, key, key, key, key, key]) + made[13:]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    arrivals=st.lists(
        st.tuples(st.sampled_from("DU"), st.integers(0, 3), st.sampled_from([1, 2])), max_size=20
    )
)
@pytest.mark.parametrize("kind", ["pfc", "cbfc"])
def test_what_the_program_keeps_stays_until_a_packet_of_it_leaves(make, packet, kind, arrivals):
    """Operation D keeps a packet, U lets one leave."""
    tm = make(ports=[1, 2, 3])
    lossless(tm, headroom=10_000, threshold=1 << 20, kind=kind, held=HELD)
    kept: list[tuple[int, int]] = []
    for number, (op, key, port) in enumerate(arrivals):
        tm.receive(port, part(packet, op, key), number * 10_000)
        tm.advance(number * 10_000 + 5_000)
        kept = [each for each in kept if each[0] != key] if op == "U" else [*kept, (key, port)]
        for each in (1, 2):
            seen, bytes_kept = flow(tm, each, 0), 64 * sum(at == each for _, at in kept)
            assert seen["held"] == seen["bytes"] == bytes_kept


def test_what_is_kept_pauses_a_host_and_lacks_packets_that_wait(make, packet):
    tm = make(ports=[1, 2, 3])
    lossless(tm, held=HELD)
    tm.receive(3, pfc_frame(1, 65535), 0)
    for _ in range(30):
        tm.receive(2, part(packet, "U", 200), 0)
    for key in range(11):
        tm.receive(1, part(packet, "D", key), 0)
    tm.advance(100_000)
    assert flow(tm, 1, 0)["held"] == 11 * 64 and flow(tm, 1, 0)["host_paused"]
    for key in range(11):  # their host is paused: they stay there
        tm.receive(2, part(packet, "U", key), 100_000)
    tm.advance(200_000)
    assert lacks(tm, 1, 0, tm, 2, host=True) and not lacks(tm, 2, 0, tm, 1, host=True)
    tm.run()
    assert not lacks(tm, 1, 0, tm, 2, host=True)
    assert flow(tm, 1, 0)["held"] == flow(tm, 1, 0)["bytes"] == flow(tm, 1, 0)["pausing"] == 0


def test_lossless_links_need_rates(make):
    tm = make(ports=[1, 2])
    with pytest.raises(SwitchError, match="need a rate at every port"):
        set_buffer(tm, BufferSettings("pfc", 1000, 64), {1: 64, 2: 64}, ())


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(["pfc", "cbfc"]), data=st.data())
def test_nothing_is_lost_and_buffers_are_empty_in_the_end(make, packet, seed, kind, data):
    """With any traffic, copies, recirculation and pauses: what the buffer holds is 0 again, the
    peaks are within what was given, and hosts that are asked ahead of time or late see the same."""
    dynamic = data.draw(st.booleans())
    more = {"threshold": None, "shift": data.draw(st.integers(0, 4))} if dynamic else {}

    def run(ahead: bool) -> list:
        rng = Random(seed)
        tm = make(ports=[1, 2, 3, 4])
        lossless(tm, kind=kind, rates={2: SLOW}, headroom=2048, size=40_000, **more)
        tm.multicast_group(1, [(2, 0), (4, 0)])
        sent, now = [], 0
        for _ in range(150):
            now += rng.choice((0, 10, 1000, 8000))
            op = rng.choice((("U", 2), ("U", 4), ("M", 1), ("X", 2), ("D", 0)))
            sent.append((now, rng.choice((1, 3)), packet(*op, rng.randrange(3))))
        for time, port, frame in sent:
            if ahead:
                tm.advance(max(time - 499, tm.stats()["now_ns"]) if rng.random() < 0.5 else 0)
                tm.receive_ahead(port, frame, time)
            else:
                tm.receive(port, frame, time)
        tm.run()
        rows = [flow(tm, port, 0) for port in tm.ports]
        for row in rows:
            assert row["bytes"] == row["drops"] == row["waiting"] == row["host_waiting"] == 0
            assert row["peak_headroom"] <= 2048
        return rows

    assert run(False) == run(True)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kind=st.sampled_from(["pfc", "cbfc"]),
    up=st.lists(st.integers(1, 60), max_size=12),
    repeat_us=st.sampled_from([0, 20]),
)
def test_a_link_that_works_again_carries_all_and_drops_nothing(make, packet, kind, up, repeat_us):
    """A host of switch a sends to a slow one of switch b. The link between them works for `up`
    times 2 us, and fails for 6 us after each: what it has lost is not counted as still there, and
    the sender knows again that it is paused."""
    a, b = make(ports=[1, 2]), make(ports=[1, 2])
    more = {"kind": kind, "repeat_ns": repeat_us * 1000, "headroom": 1024}
    lossless(a, hosts=(1,), **more)
    lossless(b, hosts=(1,), rates={1: SLOW}, **more)
    sent = now = 0
    arrived: list[int] = []
    steps = [working for each in up for working in [True] * each + [False] * 3] + [True] * 1000
    for before, working in pairwise([True, *steps]):
        for tm in (a, b) if before != working else ():
            tm.port_up(2, working)
        if sent < 300:
            a.receive(1, packet("U", 2), now)
            sent += 1
        for _ in range(8):
            now += 250
            for tm, other in ((a, b), (b, a)):
                for _, port, frame in tm.advance(now):
                    if port == 2:
                        other.receive(2, packet("U", 1) if len(frame) == 64 else frame, now)
                    elif tm is b and len(frame) == 64:
                        arrived.append(now)
    rows = [row for tm in (a, b) for row in tm.port_stats()]
    # Pause frames and credits are lost, too.
    assert sent >= len(arrived) >= sent - sum(row["down_drops"] for row in rows)
    for seen in [flow(tm, port, 0) for tm in (a, b) for port in (1, 2)]:
        assert seen["bytes"] == seen["drops"] == seen["waiting"] == seen["host_waiting"] == 0
