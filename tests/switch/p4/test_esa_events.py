"""The rows of ESA's table of events that are not ATP's (test_pool_events.py), one packet at a time,
against the compiled p4/esa.p4."""

from __future__ import annotations

from testbed.protocols import wire
from tests.support.switches import OneSwitch, only

SERVER = {0: 4, 1: 8}


def test_swap_in_one_pass_between_jobs_with_different_servers():
    esa = OneSwitch()
    esa.gradient(0, 0, fragment=5, priority=50)
    esa.gradient(0, 1, fragment=5, priority=50)
    sent = only(esa.gradient(1, 2, fragment=9, priority=51, values=[7] * 4))
    # The evicted sum, to the evicted job's server ...
    assert sent.port == SERVER[0] and sent.packet["IP"].dst == "10.0.0.4"
    assert (sent.job, sent.fragment, sent.bitmap) == (0, 5, 0b011)
    assert sent.values == [11] * 4 and sent.flags == wire.PARTIAL
    # ... and the newcomer is in, with its own worker.
    assert esa.gradient(1, 0, fragment=9, values=[1] * 4) == []
    sent = only(esa.gradient(1, 1, fragment=9, values=[2] * 4))
    assert (sent.port, sent.bitmap, sent.values) == (SERVER[1], 0b111, [10] * 4)
    assert esa.counters(1)["preemptions"] == 1
    assert esa.counters(0)["ended_evicted"] == 1


def test_equal_priority_collides_and_downgrades():
    esa = OneSwitch()
    esa.gradient(0, 0, priority=100)
    sent = only(esa.gradient(1, 0, priority=100, values=[3] * 4))
    assert sent.port == SERVER[1] and sent.flags == wire.COLLISION
    assert sent.bitmap == 1 and sent.values == [3] * 4
    assert sent.packet["IP"].src == "10.0.0.5"
    # Halved to 50: the same priority now wins.
    sent = only(esa.gradient(1, 0, fragment=1, priority=51))
    assert (sent.job, sent.flags) == (0, wire.PARTIAL)
    assert esa.counters(1)["downgrades"] == 1


def test_without_downgrading_the_owner_keeps_its_priority():
    esa = OneSwitch(downgrading="false")
    esa.gradient(0, 0, priority=100)
    for _ in range(5):
        assert only(esa.gradient(1, 0, priority=100)).flags == wire.COLLISION
    assert esa.counters(1)["collisions"] == 5


def test_modes_always_and_coin():
    esa = OneSwitch(preempt="always")
    esa.gradient(0, 0, priority=255)
    assert only(esa.gradient(1, 0, priority=1)).flags == wire.PARTIAL
    # Of equal priorities none would win without a coin, of a smaller one neither.
    for priority in (255, 1):
        esa = OneSwitch(preempt="coin", downgrading="false")
        flags = []
        for fragment in range(60):
            contender = 255 if fragment == 0 else priority
            for sent in esa.gradient(fragment % 2, 0, fragment=fragment, priority=contender):
                flags.append(int(sent.flags))
        assert 10 < flags.count(wire.PARTIAL) < 50


def test_held_sum_is_evicted_without_a_packet():
    esa = OneSwitch(release="on_result")
    for worker in range(3):
        esa.gradient(0, worker, priority=10)
    assert esa.gradient(1, 0, priority=11) == []
    assert esa.occupancy() == [(0, 0, 0), (1, 1, 0)]
    esa.from_server(0, wire.RESULT, fragment=0)  # must not free what has another owner now
    assert esa.occupancy() == [(0, 0, 0), (1, 1, 0)]
