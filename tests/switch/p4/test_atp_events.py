"""Every row of ATP's table of events, one packet at a time, against the compiled p4/atp.p4."""

from __future__ import annotations

import pytest

from testbed.protocols import wire
from tests.support.switches import OneSwitch, only

SERVER = {0: 4, 1: 8}


def atp_switch(**options):
    return OneSwitch(system="atp", **options)


def counted(atp, job, *names):
    counters = atp.counters(job)
    return tuple(counters.get(name, 0) for name in names)


def test_claim_add_complete_hold_release():
    atp = atp_switch()
    assert atp.gradient(0, 0) == [] and atp.gradient(0, 2) == []
    assert atp.occupancy() == [(0, 1, 0), (1, 0, 0)]
    sent = only(atp.gradient(0, 1))
    assert (sent.port, sent.kind, sent.flags) == (SERVER[0], wire.GRADIENT, 0)
    assert (sent.bitmap, sent.values) == (0b111, [111] * 4)
    assert sent.packet["IP"].dst == "10.0.0.4" and sent.packet["IP"].src == "10.255.0.1"
    assert atp.occupancy()[0] == (0, 0, 1)
    results = atp.from_server(0, wire.RESULT, bitmap=0b111)
    assert [s.port for s in results] == [1, 2, 3]
    assert atp.occupancy()[0] == (0, 0, 0)
    assert counted(atp, 0, "allocations", "additions", "completions", "releases") == (1, 1, 1, 1)
    assert counted(atp, 0, "filling_completed_ns", "held_ns") == (2000, 1000)


def test_held_until_the_owners_result_passes():
    atp = atp_switch()
    for worker in range(3):
        atp.gradient(0, worker, fragment=5)
    assert only(atp.gradient(1, 0, fragment=5, priority=255)).flags == wire.COLLISION
    atp.from_server(1, wire.RESULT, fragment=5)
    atp.from_server(0, wire.RESULT, fragment=4)
    assert atp.occupancy() == [(0, 0, 1), (1, 0, 0)]
    atp.from_server(0, wire.RESULT, fragment=5)
    assert atp.gradient(1, 0, fragment=5) == []
    atp.from_server(0, wire.RESULT, fragment=5)  # late: the aggregator has another owner now
    assert atp.occupancy() == [(0, 0, 0), (1, 1, 0)]


def test_release_on_completion_is_an_option():
    atp = atp_switch(release="on_completion")
    for worker in range(3):
        sent = atp.gradient(0, worker)
    assert only(sent).bitmap == 0b111
    assert atp.occupancy()[0] == (0, 0, 0)
    assert atp.gradient(1, 0) == []


def test_known_worker_of_a_filling_sum_is_dropped_and_of_a_held_one_answered():
    atp = atp_switch()
    atp.gradient(0, 0)
    assert atp.gradient(0, 0) == []
    atp.gradient(0, 1)
    atp.gradient(0, 2)
    for _ in range(2):
        sent = only(atp.gradient(0, 1))
        assert (sent.bitmap, sent.values, sent.port) == (0b111, [111] * 4, SERVER[0])
    assert atp.occupancy()[0] == (0, 0, 1)
    assert counted(atp, 0, "duplicates", "re_emissions") == (1, 2)


def test_partly_known_set_goes_to_the_server_unchanged():
    atp = atp_switch()
    atp.gradient(0, 0)
    sent = only(atp.gradient(0, 1, bitmap=0b011, values=[5] * 4))
    assert (sent.port, sent.bitmap, sent.values) == (SERVER[0], 0b011, [5] * 4)
    assert counted(atp, 0, "overlaps") == (1,)


def test_collision_falls_back_to_the_packets_own_server_whatever_its_priority():
    atp = atp_switch()
    atp.gradient(0, 0, priority=1)
    for _ in range(3):
        sent = only(atp.gradient(1, 2, priority=255, values=[3] * 4))
        assert (sent.port, sent.flags) == (SERVER[1], wire.COLLISION)
        assert (sent.job, sent.bitmap, sent.values) == (1, 0b100, [3] * 4)
        assert sent.packet["IP"].src == "10.0.0.7"
    assert counted(atp, 1, "collisions", "preemptions", "downgrades") == (3, 0, 0)


def test_job_zero_fragment_zero_is_not_an_empty_aggregator():
    atp = atp_switch()
    assert atp.from_server(0, wire.REMINDER, node=1)[0].kind == wire.REMINDER_EMPTY
    assert atp.gradient(0, 1) == []
    assert counted(atp, 0, "allocations") == (1,)


def test_resend_takes_a_matching_sum_along_and_frees_its_aggregator():
    atp = atp_switch()
    atp.gradient(0, 0)
    sent = only(atp.gradient(0, 1, flags=wire.RESEND))
    assert (sent.bitmap, sent.values, sent.flags) == (0b011, [11] * 4, wire.RESEND)
    assert atp.occupancy()[0] == (0, 0, 0)
    for worker in range(3):
        atp.gradient(0, worker, fragment=1)
    sent = only(atp.gradient(0, 2, fragment=1, flags=wire.RESEND))  # of a held sum
    assert (sent.bitmap, sent.values) == (0b111, [111] * 4)
    assert sent.flags == wire.RESEND  # the sum, or its result, may be lost
    assert atp.occupancy()[0] == (0, 0, 0)
    assert counted(atp, 0, "flushes", "flush_additions", "held_ns") == (1, 1, 1000)


def test_resend_never_claims():
    atp = atp_switch()
    sent = only(atp.gradient(0, 0, flags=wire.RESEND))
    assert (sent.bitmap, sent.flags) == (1, wire.RESEND)
    assert atp.occupancy()[0] == (0, 0, 0)


@pytest.mark.parametrize("flag", [wire.PARTIAL, wire.COLLISION, wire.FLOAT])
def test_flagged_packets_pass(flag):
    atp = atp_switch()
    atp.gradient(0, 0, fragment=1)
    sent = only(atp.gradient(0, 1, flags=flag, values=[9] * 4))
    assert (sent.bitmap, sent.flags, sent.values) == (0b010, flag, [9] * 4)
    assert atp.occupancy()[0] == (0, 1, 0)


def test_floats_make_the_sum_of_whole_numbers_void():
    atp = atp_switch()
    atp.gradient(0, 0)
    sent = only(atp.gradient(0, 1, flags=wire.FLOAT | wire.RESEND, values=[9] * 4))
    assert (sent.bitmap, sent.values) == (0b010, [9] * 4)
    assert atp.occupancy()[0] == (0, 0, 0)
    assert counted(atp, 0, "ended_discarded", "passes") == (1, 1)


def test_reminder_pulls_the_remainder_once():
    atp = atp_switch()
    atp.gradient(0, 2, fragment=77)
    sent = only(atp.from_server(0, wire.REMINDER, fragment=77, node=1))
    assert sent.port == SERVER[0] and sent.flags == wire.PARTIAL | wire.REMINDED
    assert (sent.fragment, sent.bitmap, sent.values) == (77, 0b100, [100] * 4)
    sent = only(atp.from_server(0, wire.REMINDER, fragment=77, node=1))
    assert sent.kind == wire.REMINDER_EMPTY and sent.port == SERVER[0]
    assert atp.counters(0)["ended_pulled"] == 1


def test_reminder_leaves_another_owner_alone():
    atp = atp_switch()
    atp.gradient(1, 0, fragment=77)
    assert only(atp.from_server(0, wire.REMINDER, fragment=77, node=1)).kind == wire.REMINDER_EMPTY
    assert atp.occupancy()[1] == (1, 1, 0)


def test_ghost_gives_way_when_old():
    atp = atp_switch(max_age="5 us")
    atp.gradient(0, 0)
    assert only(atp.gradient(1, 0)).flags == wire.COLLISION
    atp.now += 6000
    assert atp.gradient(1, 0) == []
    assert counted(atp, 1, "ghosts") == (1,) and counted(atp, 0, "ended_discarded") == (1,)


@pytest.mark.parametrize("workers", [1, 3])
def test_an_aggregator_of_a_killed_job_counts_as_empty(workers):
    """One that was filling, and one whose complete sum nobody will ever answer."""
    atp = atp_switch()
    for worker in range(workers):
        atp.gradient(0, worker)
    assert only(atp.gradient(1, 0)).flags == wire.COLLISION
    atp.setup.platform.scheme.release(atp.setup.platform, atp.setup.jobs[0], "s1", atp.switch)
    assert atp.gradient(1, 0) == []
    assert atp.occupancy() == [(0, 0, 0), (1, 1, 0)]


def test_index_outside_the_pool_is_a_collision():
    atp = atp_switch(aggregators=8)
    assert only(atp.gradient(0, 0, index=8)).flags == wire.COLLISION
    assert counted(atp, 0, "outside") == (1,)


def test_overflow_and_ecn_stick_to_the_sum():
    atp = atp_switch()
    atp.gradient(0, 0, values=[2**31 - 1, 0, 0, 0], flags=wire.ECN)
    atp.gradient(0, 1, values=[1, 0, 0, 0])
    sent = only(atp.gradient(0, 2, values=[-5, 0, 0, 0]))
    assert sent.flags == wire.OVERFLOW | wire.ECN


def test_unknown_job_is_forwarded_by_address():
    """Only with admission off."""
    atp = atp_switch(admission="off")
    sent = only(atp.send(1, to="10.0.0.7", kind=wire.GRADIENT, job=99, bitmap=1, values=[1] * 4))
    assert sent.port == 7 and sent.packet["IP"].ttl == 63
