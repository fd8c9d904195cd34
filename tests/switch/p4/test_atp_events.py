"""The rows of ATP's table of events that are not ESA's (test_pool_events.py), one packet at a time,
against the compiled p4/atp.p4."""

from __future__ import annotations

from testbed.protocols import wire
from tests.support.switches import OneSwitch, only

SERVER = {0: 4, 1: 8}


def test_collision_falls_back_to_the_packets_own_server_whatever_its_priority():
    atp = OneSwitch(system="atp")
    atp.gradient(0, 0, priority=1)
    for _ in range(3):
        sent = only(atp.gradient(1, 2, priority=255, values=[3] * 4))
        assert (sent.port, sent.flags) == (SERVER[1], wire.COLLISION)
        assert (sent.job, sent.bitmap, sent.values) == (1, 0b100, [3] * 4)
        assert sent.packet["IP"].src == "10.0.0.7"
    counted = atp.counters(1)
    assert counted["collisions"] == 3 and not {"preemptions", "downgrades"} & {*counted}


def test_floats_make_the_sum_of_whole_numbers_void():
    atp = OneSwitch(system="atp")
    atp.gradient(0, 0)
    sent = only(atp.gradient(0, 1, fragment=1, flags=wire.FLOAT, values=[9] * 4))
    assert (sent.bitmap, sent.flags, sent.values) == (0b010, wire.FLOAT, [9] * 4)
    assert atp.occupancy()[0] == (0, 1, 0)
    sent = only(atp.gradient(0, 1, flags=wire.FLOAT | wire.RESEND, values=[9] * 4))
    assert (sent.bitmap, sent.values) == (0b010, [9] * 4)
    assert atp.occupancy()[0] == (0, 0, 0)
    counted = atp.counters(0)
    assert (counted["ended_discarded"], counted["passes"]) == (1, 2)
