"""What A2TP's switch does beyond ATP's, one packet at a time, against the compiled p4/a2tp.p4."""

from __future__ import annotations

from testbed.protocols import wire
from testbed.protocols.a2tp import BYPASS
from tests.support.switches import OneSwitch, only

SERVER = {0: 4, 1: 8}


def a2tp_switch():
    return OneSwitch(system="a2tp")


def results(switch, job, **fields):
    return {each.flags for each in switch.from_server(job, wire.RESULT, bitmap=0b111, **fields)}


def test_a_fragment_without_an_index_goes_past_the_aggregators():
    switch = a2tp_switch()
    switch.gradient(0, 0, index=0)
    sent = only(switch.gradient(0, 1, index=BYPASS, values=[3] * 4))
    assert (sent.port, sent.flags, sent.bitmap, sent.values) == (SERVER[0], 0, 0b010, [3] * 4)
    assert switch.counters(0).get("collisions", 0) == switch.counters(0).get("outside", 0) == 0
    assert switch.occupancy()[0] == (0, 1, 0)


def test_the_result_that_releases_an_aggregator_says_whether_others_met_its_owner():
    switch = a2tp_switch()
    for fragment, meets in ((0, True), (1, False)):
        for worker in range(3):
            switch.gradient(0, worker, fragment=fragment, index=0)
        if meets:
            assert only(switch.gradient(1, 0, index=0)).flags == wire.COLLISION
        assert results(switch, 0, fragment=fragment, index=0) == {wire.CONTENDED if meets else 0}


def test_a_result_of_another_owner_says_nothing():
    switch = a2tp_switch()
    switch.gradient(0, 0, index=0)
    switch.gradient(1, 0, index=0)
    assert results(switch, 1, fragment=0, index=0) == {0}


def test_a_sum_has_the_smallest_window_of_its_workers():
    switch = a2tp_switch()
    for worker, window in enumerate((40, 17, 25)):
        sent = switch.gradient(0, worker, index=0, extra=window)
    assert only(sent).extra == 17
    assert only(switch.gradient(1, 0, index=0, extra=9)).extra == 9  # unchanged
