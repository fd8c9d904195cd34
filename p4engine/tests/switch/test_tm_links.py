"""The link model of the traffic manager: times to the nanosecond, queues, losses, independence."""

from __future__ import annotations

import ctypes
import random
from collections import Counter

import pytest
from p4engine.switch.pass_watch import FATES, TOLD
from p4engine.switch.traffic_manager import DIRECTIONS, SwitchError

LINKS = pytest.mark.parametrize("port, direction", [(1, "ingress"), (2, "egress")])


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
def FILL(to: int, seed: int, count: int) -> None:  # noqa: N802
    """The bytes of a packet that is not wholly there: the first one of what it has of them."""
    ctypes.memset(to, ctypes.string_at(seed, 1)[0], count)


def counters(manager, port: int, direction: str) -> dict:
    return next(
        row for row in manager.port_stats() if row["port"] == port and row["direction"] == direction
    )


def test_queues_are_told_while_they_hold_packets(make, packet):
    tm = make(ports=[1, 2, 3])
    tm.port_shape(2, "egress", rate_bps=512_000_000)  # 64 bytes: 1000 ns
    for _ in range(4):
        tm.receive(1, packet("U", 2), 0)
    assert tm.port_queues() == [(2, 3)]  # one is on the wire
    tm.advance(2500)
    assert tm.port_queues() == [(2, 1)]
    tm.run()
    assert tm.port_queues() == []


@LINKS
def test_jitter_spreads_and_never_reorders(make, packet, port, direction):
    tm = make(ports=[1, 2], seed=3)
    tm.port_shape(port, direction, delay_ns=10_000, jitter_ns=4_000)
    for n in range(2000):
        tm.receive(1, packet("U", 2, n & 0xFF), n * 20_000)
    out = tm.run()
    delays = [time_ns - n * 20_000 for n, (time_ns, _, _) in enumerate(out)]
    assert min(delays) < 6_050 and max(delays) > 13_950
    assert min(delays) >= 6_000 and max(delays) <= 14_000
    assert abs(sum(delays) / len(delays) - 10_000) < 200
    for n in range(500):  # closer together than the jitter
        tm.receive(1, packet("U", 2, n & 0xFF), 10**9 + n * 10)
    out = tm.run()
    assert [data[2] for _, _, data in out] == [n & 0xFF for n in range(500)]
    assert [t for t, _, _ in out] == sorted(t for t, _, _ in out)


@LINKS
def test_losses_repeat_with_the_seed_and_only_with_it(make, packet, port, direction):
    def survivors(seed: int, jitter_ns: int = 0, other: bool = False) -> list[int]:
        tm = make(ports=[1, 2, 3], seed=seed)
        tm.port_shape(
            port,
            direction,
            delay_ns=50,
            jitter_ns=jitter_ns,
            loss=0.25,
        )
        if other:
            tm.port_shape(3, "ingress", loss=0.5)
        got = []
        for n in range(4000):
            if other:
                tm.receive(3, packet("U", 3), n * 1000)
            tm.receive(1, packet("U", 2, n & 0xFF), n * 1000)
            got += [n for _, port, _ in tm.run() if port == 2]
        assert counters(tm, port, direction)["losses"] == 4000 - len(got)
        return got

    first = survivors(1)
    assert 2850 < len(first) < 3150
    assert survivors(1) == first
    assert survivors(1, jitter_ns=50) == first  # each purpose has its own stream
    assert survivors(1, other=True) == first  # and each port
    assert survivors(2) != first


@LINKS
def test_loss_one_and_duplicate_one(make, packet, port, direction):
    tm = make(ports=[1, 2])
    tm.port_shape(port, direction, loss=1.0)
    tm.receive(1, packet("U", 2), 0)
    assert tm.run() == []
    tm.port_shape(port, direction, duplicate=1.0)
    tm.receive(1, packet("U", 2), 0)
    assert len(tm.run()) == 2
    tm.port_shape(port, direction, duplicate=1.0, delay_ns=5)
    tm.receive(1, packet("U", 2), 10)
    assert [time_ns for time_ns, _, _ in tm.run()] == [15, 15]
    tm.port_shape(port, direction, reorder=1.0, reorder_ns=5)
    tm.receive(1, packet("U", 2), 20)
    assert [time_ns for time_ns, _, _ in tm.run()] == [25]


@LINKS
def test_reordered_packets_are_overtaken(make, packet, port, direction):
    tm = make(ports=[1, 2], seed=5)
    tm.port_shape(port, direction, reorder=0.1, reorder_ns=250)
    for n in range(200):
        tm.receive(1, packet("U", 2, n), n * 100)
    out = tm.run()
    late = [(time_ns, data[2]) for time_ns, _, data in out if time_ns != data[2] * 100]
    assert 5 < len(late) < 40
    assert all(time_ns == n * 100 + 250 for time_ns, n in late)
    assert [t for t, _, _ in out] == sorted(t for t, _, _ in out)
    assert counters(tm, port, direction)["reordered"] == len(late)


def test_shapes_that_cannot_be(make):
    tm = make(ports=[1])
    with pytest.raises(SwitchError, match="jitter_ns"):
        tm.port_shape(1, "egress", delay_ns=5, jitter_ns=6)
    with pytest.raises(SwitchError, match="probability"):
        tm.port_shape(1, "egress", loss=1.5)
    with pytest.raises(SwitchError, match="no such port"):
        tm.port_shape(2, "egress")
    with pytest.raises(SwitchError, match="direction"):
        tm.port_shape(1, "up")
    assert tm.port_shape_get(1, "egress")["queue_packets"] is None


def test_time_never_runs_backwards(make, packet):
    tm = make(ports=[1, 2])
    tm.receive(1, packet("U", 2), 5000)
    tm.receive(1, packet("U", 2), 4000)
    assert [time_ns for time_ns, _, _ in tm.outputs()] == [5000, 5000]


def test_early_output_knows_the_time_in_advance(make, packet):
    tm = make(ports=[1, 2])
    tm.output_early(True)
    tm.port_shape(2, "egress", rate_bps=512_000_000, delay_ns=10_000)
    tm.receive(1, packet("U", 2), 0)
    assert [time_ns for time_ns, _, _ in tm.outputs()] == [11_000]
    assert tm.next_event_ns() is None


def test_packets_may_be_handed_over_before_their_time(make, packet):
    """The far ends of links are asked one after the other for what they send in a while."""
    sent = [(port, 10 * n + port) for n in range(50) for port in (1, 2)]
    shape = {"rate_bps": 30_000_000_000, "delay_ns": 900, "jitter_ns": 300, "loss": 0.1}
    shape |= {"duplicate": 0.1}

    def frame(time_ns: int) -> bytes:
        return packet("U", 3, size=40) + bytes([time_ns & 0xFF]) * (60 + time_ns)

    results = []
    for ahead in (False, True, FILL):
        tm = make(ports=[1, 2, 3], seed=5)
        for port in (1, 2):
            tm.port_shape(port, "ingress", **shape)
        tm.port_shape(3, "egress", rate_bps=40_000_000_000, delay_ns=100)
        if ahead:
            tm.advance(500)  # the last packet is sent at 492 ns, and arrives 600 ns later or more
            for port, time_ns in sorted(sent):
                data = frame(time_ns)
                if ahead is FILL:
                    more = port, data[:56], 40, len(data), time_ns, FILL
                    assert tm.lib.tm_receive_seeded(tm.address, *more) == 0
                else:
                    tm.receive_ahead(port, data, time_ns)
        else:
            for port, time_ns in sent:
                tm.receive(port, frame(time_ns), time_ns)
        results.append((tm.run(), counters(tm, 1, "ingress"), counters(tm, 3, "egress")))
    assert results[0] == results[1] == results[2]
    assert 70 < len(results[0][0]) < 110


def test_a_packet_that_should_have_arrived_is_refused(make, packet):
    tm = make(ports=[1, 2])
    tm.port_shape(1, "ingress", delay_ns=1000, jitter_ns=200)
    tm.advance(5000)
    tm.receive_ahead(1, packet("U", 2), 4201)
    with pytest.raises(SwitchError, match="sent at 4200 ns"):
        tm.receive_ahead(1, packet("U", 2), 4200)


def test_instances_do_not_see_each_other(make, packet):
    def run(tm) -> list:
        tm.port_shape(1, "ingress", rate_bps=512_000_000, delay_ns=900, jitter_ns=900, loss=0.1)
        return tm

    alone = run(make(ports=[1, 2], seed=9))
    for n in range(300):
        alone.receive(1, packet("U", 2, n & 0xFF), n * 700)
    expected = alone.run()
    many = [run(make(ports=[1, 2], seed=seed)) for seed in (9, 10, 9)]
    for n in range(300):
        for tm in many:
            tm.receive(1, packet("U", 2, n & 0xFF), n * 700)
    first, second, third = (tm.run() for tm in many)
    assert first == third == expected
    assert second != expected


def test_a_link_that_is_down_keeps_its_shape_and_its_counts(make, packet):
    tm = make(ports=[1, 2])
    tm.port_up(2, False)
    tm.port_up(2, False)
    tm.port_shape(2, "egress", delay_ns=700)
    tm.receive(1, packet("U", 2), 0)
    assert tm.run() == []
    tm.port_up(2, True)
    tm.receive(1, packet("U", 2), 1000)
    assert [time_ns for time_ns, _, _ in tm.run()] == [1700]
    assert counters(tm, 2, "egress")["down_drops"] == 1
    with pytest.raises(SwitchError, match="no such port"):
        tm.port_up(3, False)


@LINKS
def test_another_rate_begins_without_fractions_of_a_nanosecond(make, packet, port, direction):
    """Those of packets at the rate before are not added to later ones."""
    tm = make(ports=[1, 2])
    tm.port_shape(port, direction, rate_bps=3_000_000_000)  # 64 bytes: 170 2/3 ns
    tm.receive(1, packet("U", 2), 0)
    assert [time_ns for time_ns, _, _ in tm.advance(170)] == [170]
    tm.port_shape(port, direction, rate_bps=2_900_000_000)
    for _ in range(4):
        tm.receive(1, packet("U", 2), 170)
    wanted = [170 + 512 * 10**9 * n // 2_900_000_000 for n in range(1, 5)]
    assert [time_ns for time_ns, _, _ in tm.run()] == wanted


@pytest.mark.parametrize("queues", [1, 3])
@pytest.mark.parametrize("seed", range(16))
def test_notes_and_fates_tell_what_becomes_of_each_packet(make, packet, queues, seed):
    """Notes, of what links have lost of the packets of interest, one for one; all others are in the
    counters alone. Who watches is told all, so that of each packet what went in comes out."""
    draw = random.Random(seed)
    tm = make(ports=[1, 2], seed=seed, priority_queues=queues)
    tm.notes_set((0, ord("U") << 8 | 2), (3, 5, 8, 12), (16, 0xFF, 14), [1], most=1000)
    for port, direction in ((1, "ingress"), (2, "egress")):
        loss, limit = draw.choice([0.0, 0.3]), draw.choice([2, 1000])
        shape = {"rate_bps": 512_000_000, "queue_packets": limit, "delay_ns": 700}
        tm.port_shape(port, direction, **shape, loss=loss, duplicate=draw.choice([0.0, 0.3]))
    told: Counter[tuple] = Counter()

    @TOLD
    def tell(fate, port, direction, mark, time_ns):
        told[DIRECTIONS[direction], FATES[fate], mark] += 1
        assert mark <= time_ns and port == 1 + direction

    tm.lib.tm_watch_set(tm._tm, tell)
    sent = [seed % 2 == 0 or draw.random() < 0.5 for _ in range(draw.randint(1, 40))]
    for time_ns, of_interest in enumerate(sent):
        size = 64 if of_interest else 12  # too short for its fields
        tm.receive(1, packet("U", 2, size=size), 300 * time_ns)
    tm.advance(2000)
    tm.port_up(2, False)
    tm.run()
    *words, missed = tm.notes()
    rows = [words[at : at + 3] for at in range(0, len(words), 3)]
    found = Counter()
    for _, about, more in rows:
        what, direction, port = about >> 58 & 3, about >> 57 & 1, about >> 48 & 511
        assert about & 0xFFFFFFFF == int.from_bytes(packet("U", 2)[8:12]) and more > 0
        found[port, ("ingress", "egress")[direction], what] += 1
    lost = Counter()
    for row in tm.port_stats():
        for what, name in enumerate(("queue_drops", "losses", "down_drops")):
            lost[row["port"], row["direction"], what] += row[name]
    assert found.pop((1, "ingress", 3), 0) == sum(sent) and missed == 0
    if all(sent):
        assert found == +lost
    assert all(found[key] <= lost[key] for key in found)
    fates: Counter[tuple] = Counter()
    for (way, fate, _), count in told.items():
        fates[way, fate] += count
    dropped = {(way, FATES[what]): count for (_, way, what), count in (+lost).items()}
    assert {key: fates[key] for key in fates if key[1] in FATES[:3]} == dropped
    assert fates["egress", "emitted"] == tm.stats()["sent"]
    for mark in (300 * number for number in range(len(sent))):
        ways = 1 + sum(told[way, "duplicated", mark] for way in DIRECTIONS)
        ends = {key: count for key, count in told.items() if key[2] == mark}
        assert ways == sum(n for (_, fate, _), n in ends.items() if fate != "duplicated")
