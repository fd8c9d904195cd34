"""Every row of ESA's table of events, one packet at a time, against the compiled p4/esa.p4."""

from __future__ import annotations

import pytest

from testbed import dataplane
from testbed.protocols import wire
from testbed.topology import host_ip
from tests.support.switches import OneSwitch, only

SERVER = {0: 4, 1: 8}


def test_claim_add_complete():
    esa = OneSwitch()
    assert esa.gradient(0, 0) == []
    assert esa.occupancy() == [(0, 1, 0), (1, 0, 0)]
    assert esa.gradient(0, 2) == []
    sent = only(esa.gradient(0, 1))
    assert sent.port == SERVER[0]
    assert sent.kind == wire.GRADIENT and sent.flags == 0
    assert sent.bitmap == 0b111 and sent.values == [111] * 4
    assert (sent.job, sent.fragment) == (0, 0)
    assert sent.packet["IP"].dst == "10.0.0.4" and sent.packet["IP"].src == "10.255.0.1"
    assert sent.packet["Ethernet"].dst == "02:00:00:00:00:04"
    assert esa.occupancy() == [(0, 0, 0), (1, 0, 0)]
    counted = esa.counters(0)
    assert {k: counted[k] for k in ("allocations", "additions", "completions")} == {
        "allocations": 1,
        "additions": 1,
        "completions": 1,
    }
    assert counted["ended_completed"] == 1 and counted["filling_completed_ns"] == 2000


def test_job_zero_fragment_zero_is_not_an_empty_aggregator():
    """`empty` has its own flag: an aggregator of zeros must not look like job 0, fragment 0."""
    esa = OneSwitch()
    assert esa.from_server(0, wire.REMINDER, node=1)[0].kind == wire.REMINDER_EMPTY
    assert esa.gradient(0, 1) == []
    assert esa.counters(0)["allocations"] == 1


def test_known_worker_is_not_added_twice():
    esa = OneSwitch()
    esa.gradient(0, 0)
    assert esa.gradient(0, 0) == []
    esa.gradient(0, 1)
    assert only(esa.gradient(0, 2)).values == [111] * 4
    assert esa.counters(0)["duplicates"] == 1


def test_partly_known_set_goes_to_the_server_unchanged():
    esa = OneSwitch()
    esa.gradient(0, 0)
    sent = only(esa.gradient(0, 1, bitmap=0b011, values=[5] * 4))
    assert (sent.port, sent.bitmap, sent.values) == (SERVER[0], 0b011, [5] * 4)
    assert esa.counters(0)["overlaps"] == 1


def test_partial_sum_of_several_workers_is_added_when_disjoint():
    esa = OneSwitch()
    esa.gradient(0, 0)
    assert only(esa.gradient(0, 1, bitmap=0b110, values=[5] * 4)).values == [6] * 4


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


def test_priority_of_a_contested_owner_falls_to_zero():
    esa = OneSwitch()
    esa.gradient(0, 0, priority=255)
    for _ in range(8):
        assert only(esa.gradient(1, 0, priority=1)).job in (0, 1)
    assert esa.counters(1) == {"downgrades": 8} | {
        k: v for k, v in esa.counters(1).items() if k != "downgrades"
    }
    assert only(esa.gradient(1, 0, priority=1)).flags == wire.PARTIAL


def test_additions_do_not_change_the_priority():
    esa = OneSwitch()
    esa.gradient(0, 0, priority=10)
    esa.gradient(0, 1, priority=200)
    assert only(esa.gradient(1, 0, priority=11)).flags == wire.PARTIAL


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


def test_resend_takes_a_matching_sum_along():
    esa = OneSwitch()
    esa.gradient(0, 0)
    sent = only(esa.gradient(0, 1, flags=wire.RESEND))
    assert (sent.bitmap, sent.values, sent.sender) == (0b011, [11] * 4, 1)
    assert sent.flags == wire.RESEND and sent.port == SERVER[0]
    assert esa.occupancy()[0] == (0, 0, 0)
    esa.gradient(0, 0, fragment=1)
    sent = only(esa.gradient(0, 0, fragment=1, flags=wire.RESEND))
    assert (sent.bitmap, sent.values) == (0b001, [1] * 4)
    assert esa.counters(0)["ended_pulled"] == 2


def test_resend_never_claims():
    esa = OneSwitch()
    sent = only(esa.gradient(0, 0, flags=wire.RESEND))
    assert sent.bitmap == 1 and sent.flags == wire.RESEND
    assert esa.occupancy()[0] == (0, 0, 0)
    esa.gradient(1, 0, fragment=3, priority=1)
    only(esa.gradient(0, 0, flags=wire.RESEND, priority=255))
    assert esa.occupancy()[1] == (1, 1, 0)


@pytest.mark.parametrize("flag", [wire.PARTIAL, wire.COLLISION])
def test_a_flagged_packet_is_not_aggregated_again(flag):
    esa = OneSwitch()
    esa.gradient(0, 0)
    sent = only(esa.gradient(0, 1, flags=flag))
    assert sent.bitmap == 0b010 and sent.flags == flag
    assert esa.occupancy()[0] == (0, 1, 0)


def test_reminder_pulls_the_remainder_once():
    esa = OneSwitch()
    esa.gradient(0, 2, fragment=77)
    sent = only(esa.from_server(0, wire.REMINDER, fragment=77, node=1))
    assert sent.port == SERVER[0] and sent.kind == wire.GRADIENT
    assert sent.flags == wire.PARTIAL | wire.REMINDED
    assert (sent.fragment, sent.bitmap, sent.values) == (77, 0b100, [100] * 4)
    assert sent.packet["IP"].src == "10.255.0.1"
    sent = only(esa.from_server(0, wire.REMINDER, fragment=77, node=1))
    assert sent.kind == wire.REMINDER_EMPTY and sent.fragment == 77 and sent.port == SERVER[0]
    assert esa.counters(0)["ended_pulled"] == 1


def test_reminder_leaves_another_owner_alone():
    esa = OneSwitch()
    esa.gradient(1, 0, fragment=77)
    assert only(esa.from_server(0, wire.REMINDER, fragment=77, node=1)).kind == wire.REMINDER_EMPTY
    assert esa.occupancy()[1] == (1, 1, 0)


def test_result_is_multicast_and_addressed_to_each_worker():
    esa = OneSwitch()
    sent = esa.from_server(1, wire.RESULT, fragment=4, bitmap=0b111)
    assert [s.port for s in sent] == [5, 6, 7]
    assert all(s.values == [7] * 4 for s in sent)


def test_hold_until_the_result_of_the_owner_passes():
    esa = OneSwitch(release="on_result")
    for worker in range(3):
        sent = esa.gradient(0, worker)
    assert only(sent).bitmap == 0b111
    assert esa.occupancy()[0] == (0, 0, 1)
    assert only(esa.gradient(0, 1)).values == [111] * 4  # RE_EMIT
    esa.from_server(1, wire.RESULT, fragment=0)
    esa.from_server(0, wire.RESULT, fragment=1)
    assert esa.occupancy()[0] == (0, 0, 1)
    esa.from_server(0, wire.RESULT, fragment=0)
    assert esa.occupancy()[0] == (0, 0, 0)
    counted = esa.counters(0)
    assert counted["releases"] == 1 and counted["re_emissions"] == 1
    assert counted["held_ns"] == 4000 and counted["filling_completed_ns"] == 2000


def test_held_sum_is_evicted_without_a_packet():
    esa = OneSwitch(release="on_result")
    for worker in range(3):
        esa.gradient(0, worker, priority=10)
    assert esa.gradient(1, 0, priority=11) == []
    assert esa.occupancy() == [(0, 0, 0), (1, 1, 0)]
    esa.from_server(0, wire.RESULT, fragment=0)  # must not free what has another owner now
    assert esa.occupancy() == [(0, 0, 0), (1, 1, 0)]


def test_late_result_does_not_free_the_next_owner():
    esa = OneSwitch()
    esa.gradient(0, 0, fragment=8)
    esa.from_server(0, wire.RESULT, fragment=0)
    assert esa.occupancy()[0] == (0, 1, 0)
    esa.from_server(0, wire.RESULT, fragment=8)
    assert esa.occupancy()[0] == (0, 0, 0)
    assert esa.counters(0)["ended_discarded"] == 1


def test_ghost_gives_way_when_old():
    esa = OneSwitch(max_age="5 us", downgrading="false")
    esa.gradient(0, 0, priority=255)
    assert only(esa.gradient(1, 0, priority=1)).flags == wire.COLLISION
    esa.now += 6000
    assert esa.gradient(1, 0, priority=1) == []
    assert esa.counters(1)["ghosts"] == 1 and esa.counters(0)["ended_discarded"] == 1


def test_an_aggregator_of_a_killed_job_counts_as_empty():
    """Even one of the highest priority, and without a partial for a server that is dead."""
    esa = OneSwitch(downgrading="false")
    esa.gradient(0, 0, priority=255)
    assert only(esa.gradient(1, 0, priority=1)).flags == wire.COLLISION
    esa.setup.platform.scheme.release(esa.setup.platform, esa.setup.jobs[0], "s1", esa.switch)
    assert esa.gradient(1, 0, priority=1) == []
    assert esa.counters(1)["ghosts"] == 1 and esa.counters(0)["ended_discarded"] == 1
    esa.gradient(1, 1)
    assert only(esa.gradient(1, 2)).values == [111] * 4


def test_index_outside_the_pool_is_a_collision():
    esa = OneSwitch(aggregators=8)
    assert only(esa.gradient(0, 0, index=8)).flags == wire.COLLISION
    assert esa.gradient(0, 0, index=7) == []
    assert esa.counters(0)["outside"] == 1


def test_a_fragment_behind_the_job_s_last_one_is_a_collision():
    esa = OneSwitch(aggregators=8)
    last = esa.setup.jobs[0].last_fragment
    assert last == esa.setup.jobs[0].fragments - 1  # of one iteration
    for fragment in (last + 1, 2**32 - 1):
        assert only(esa.gradient(0, 0, fragment=fragment)).flags == wire.COLLISION
    assert esa.gradient(0, 0, fragment=last) == []
    assert esa.counters(0)["outside"] == 2


def test_a_job_is_refused_at_ports_where_it_has_no_host():
    """Ports 5 to 8 are the other job's; worker 0 of job 0 is at port 1."""
    esa = OneSwitch(aggregators=8)
    of_worker_0 = {"kind": wire.GRADIENT, "job": 0, "bitmap": 1, "values": [1] * 4}
    for port in (5, 8):
        assert esa.send(port, **of_worker_0) == []
    assert esa.send(5, to=host_ip(1), kind=wire.RESULT, job=0, values=[1] * 4) == []
    assert esa.send(5, to=host_ip(1), kind=wire.ASK, job=0) == []
    assert esa.send(5, kind=wire.GRADIENT, job=0xFFFF, bitmap=1, values=[1] * 4) == []
    refused = dataplane.refusals(esa.setup.platform, esa.switch, range(1, 9))
    assert refused == {port: {5: 4, 8: 1}.get(port, 0) for port in range(1, 9)}
    assert esa.counters(0) == {} and esa.occupancy() == [(0, 0, 0), (1, 0, 0)]
    assert esa.send(1, **of_worker_0) == [] and esa.counters(0)["allocations"] == 1


def test_overflow_is_flagged_and_sticks():
    esa = OneSwitch()
    esa.gradient(0, 0, values=[2**31 - 1, 0, 0, -(2**31)])
    esa.gradient(0, 1, values=[1, 0, 0, 0])
    sent = only(esa.gradient(0, 2, values=[-5, 0, 0, 0]))
    assert sent.flags == wire.OVERFLOW
    for worker in range(3):
        sent = esa.gradient(0, worker, fragment=1, values=[2**29, -(2**29), 0, 1])
    assert only(sent).flags == 0


def test_ecn_is_ored_over_contributors():
    esa = OneSwitch()
    esa.gradient(0, 0, flags=wire.ECN)
    esa.gradient(0, 1)
    assert only(esa.gradient(0, 2)).flags == wire.ECN


def test_single_worker_sum_does_not_claim():
    esa = OneSwitch()
    sent = only(esa.gradient(0, 0, bitmap=0b111))
    assert sent.flags == 0 and esa.occupancy()[0] == (0, 0, 0)


def test_unknown_job_and_other_traffic_are_forwarded_by_address():
    """Only with admission off."""
    esa = OneSwitch(admission="off")
    sent = only(esa.send(1, to="10.0.0.7", kind=wire.GRADIENT, job=99, bitmap=1, values=[1] * 4))
    assert sent.port == 7 and sent.packet["IP"].ttl == 63
    sent = only(esa.send(4, to="10.0.0.2", kind=wire.ASK, job=0, bitmap=2))
    assert sent.port == 2


def test_short_packet_does_not_touch_an_aggregator():
    esa = OneSwitch()
    esa.send(1, kind=wire.GRADIENT, job=0, bitmap=1, values=[1])
    assert esa.occupancy()[0] == (0, 0, 0)


def test_open_occupations_are_added_by_the_reader():
    esa = OneSwitch()
    esa.gradient(0, 0)
    esa.gradient(0, 1, fragment=1, index=1)
    counted = esa.counters(0)
    assert counted["ended_open"] == 2 and counted["filling_open_ns"] == 1000
