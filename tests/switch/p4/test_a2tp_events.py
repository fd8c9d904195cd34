"""What A2TP's switch does beyond ATP's, one packet at a time, against the compiled p4/a2tp.p4."""

from __future__ import annotations

from testbed.protocols import wire
from tests.support.switches import OneSwitch, only

SERVER = {0: 4, 1: 8}


def a2tp_switch():
    return OneSwitch(system="a2tp")


def results(switch, job, **fields):
    return {each.flags for each in switch.from_server(job, wire.RESULT, bitmap=0b111, **fields)}


def test_the_result_that_releases_an_aggregator_says_whether_others_met_its_owner():
    switch = a2tp_switch()
    for fragment, meets in ((0, True), (1, False)):
        for worker in range(3):
            switch.gradient(0, worker, fragment=fragment, index=0)
        if meets:
            assert only(switch.gradient(1, 0, index=0)).flags == wire.COLLISION
        assert results(switch, 0, fragment=fragment, index=0) == {wire.CONTENDED if meets else 0}


def test_a_sum_has_the_smallest_window_of_its_workers():
    switch = a2tp_switch()
    for worker, window in enumerate((40, 17, 25)):
        sent = switch.gradient(0, worker, index=0, extra=window)
    assert only(sent).extra == 17
    assert only(switch.gradient(1, 0, index=0, extra=9)).extra == 9  # unchanged
