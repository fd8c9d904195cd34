"""The rows of the table of events that ESA and ATP have in common, one packet at a time: each test
fails if a single condition or assignment is left out of a program with a shared pool."""

from __future__ import annotations

import numpy as np
import pytest
from p4fabric.base.topology import host_ip

from testbed import dataplane
from testbed.protocols import wire
from tests.support.switches import OneSwitch, only

SERVER, OTHER_SERVER = 4, 8  # the ports of job 0's and job 1's
KEEPS = {"esa": {"downgrading": "false"}, "atp": {}}  # an owner is only lost by age
HELD = {"release": "on_result"}
pytestmark = pytest.mark.parametrize("system", ["esa", "atp"])


# ---- sums ----


@pytest.mark.parametrize("release", ["on_completion", "on_result"])
def test_claim_add_complete_release(system, release):
    switch = OneSwitch(system=system, release=release)
    assert switch.gradient(0, 0) == [] and switch.gradient(0, 2) == []
    assert switch.occupancy() == [(0, 1, 0), (1, 0, 0)]
    sent = only(switch.gradient(0, 1))
    assert (sent.port, sent.kind, sent.flags) == (SERVER, wire.GRADIENT, 0)
    assert (sent.job, sent.fragment, sent.bitmap, sent.values) == (0, 0, 0b111, [111] * 4)
    assert sent.packet["IP"].dst == "10.0.0.4" and sent.packet["IP"].src == "10.255.0.1"
    assert sent.packet["Ethernet"].dst == "02:00:00:00:00:04"
    held = release == "on_result"
    assert switch.occupancy()[0] == (0, 0, held)
    copies = switch.from_server(0, wire.RESULT, bitmap=0b111)
    assert [(copy.port, copy.values) for copy in copies] == [(port, [7] * 4) for port in (1, 2, 3)]
    assert switch.occupancy()[0] == (0, 0, 0)
    counted = switch.counters(0)
    assert counted["allocations"] == counted["additions"] == counted["completions"] == 1
    assert counted["ended_completed"] == 1 and counted["filling_completed_ns"] == 2000
    assert (counted.get("releases"), counted.get("held_ns")) == ((1, 1000) if held else (None,) * 2)


def test_job_zero_fragment_zero_is_not_an_empty_aggregator(system):
    """`empty` has its own flag: an aggregator of zeros must not look like job 0, fragment 0."""
    switch = OneSwitch(system=system)
    assert switch.from_server(0, wire.REMINDER, node=1)[0].kind == wire.REMINDER_EMPTY
    assert switch.gradient(0, 1) == []
    assert switch.counters(0)["allocations"] == 1


def test_a_known_worker_of_a_filling_sum_is_dropped_and_of_a_held_one_answered(system):
    switch = OneSwitch(system=system, **HELD)
    switch.gradient(0, 0)
    assert switch.gradient(0, 0) == []
    switch.gradient(0, 1)
    switch.gradient(0, 2)
    for _ in range(2):
        sent = only(switch.gradient(0, 1))
        assert (sent.bitmap, sent.values, sent.port) == (0b111, [111] * 4, SERVER)
    assert switch.occupancy()[0] == (0, 0, 1)
    counted = switch.counters(0)
    assert (counted["duplicates"], counted["re_emissions"]) == (1, 2)


def test_a_sum_of_several_workers_is_added_if_disjoint_and_else_left_to_the_server(system):
    switch = OneSwitch(system=system)
    switch.gradient(0, 0)
    sent = only(switch.gradient(0, 1, bitmap=0b011, values=[5] * 4))
    assert (sent.port, sent.bitmap, sent.values) == (SERVER, 0b011, [5] * 4)
    assert switch.counters(0)["overlaps"] == 1
    assert only(switch.gradient(0, 1, bitmap=0b110, values=[5] * 4)).values == [6] * 4


def test_what_is_held_waits_for_the_result_of_its_owner(system):
    switch = OneSwitch(system=system, **HELD, **KEEPS[system])
    for worker in range(3):
        switch.gradient(0, worker, fragment=5)
    assert only(switch.gradient(1, 0, fragment=5, priority=1)).flags == wire.COLLISION
    switch.from_server(1, wire.RESULT, fragment=5)
    switch.from_server(0, wire.RESULT, fragment=4)
    assert switch.occupancy() == [(0, 0, 1), (1, 0, 0)]
    switch.from_server(0, wire.RESULT, fragment=5)
    assert switch.gradient(1, 0, fragment=5) == []
    switch.from_server(0, wire.RESULT, fragment=5)  # late: the aggregator has another owner now
    assert switch.occupancy() == [(0, 0, 0), (1, 1, 0)]


def test_a_resend_takes_a_matching_sum_along_and_frees_its_aggregator(system):
    switch = OneSwitch(system=system, **HELD)
    switch.gradient(0, 0)
    sent = only(switch.gradient(0, 1, flags=wire.RESEND))
    assert (sent.bitmap, sent.values, sent.flags) == (0b011, [11] * 4, wire.RESEND)
    assert (sent.sender, sent.port) == (1, SERVER)
    assert switch.occupancy()[0] == (0, 0, 0)
    for worker in range(3):
        switch.gradient(0, worker, fragment=1)
    sent = only(switch.gradient(0, 2, fragment=1, flags=wire.RESEND))  # of a held sum
    assert (sent.bitmap, sent.values) == (0b111, [111] * 4)
    assert sent.flags == wire.RESEND  # the sum, or its result, may be lost
    assert switch.occupancy()[0] == (0, 0, 0)
    counted = switch.counters(0)
    assert (counted["flushes"], counted["flush_additions"], counted["held_ns"]) == (1, 1, 1000)


def test_a_resend_never_claims(system):
    switch = OneSwitch(system=system)
    sent = only(switch.gradient(0, 0, flags=wire.RESEND))
    assert (sent.bitmap, sent.flags) == (1, wire.RESEND)
    assert switch.occupancy()[0] == (0, 0, 0)
    switch.gradient(1, 0, fragment=3, priority=1)
    only(switch.gradient(0, 0, flags=wire.RESEND, priority=255))
    assert switch.occupancy() == [(0, 0, 0), (1, 1, 0)]


def test_a_reminder_pulls_the_remainder_of_its_owner_once(system):
    switch = OneSwitch(system=system)
    switch.gradient(0, 2, fragment=77)
    other = only(switch.from_server(1, wire.REMINDER, fragment=77, node=1))
    assert (other.kind, switch.occupancy()[0]) == (wire.REMINDER_EMPTY, (0, 1, 0))
    sent = only(switch.from_server(0, wire.REMINDER, fragment=77, node=1))
    assert (sent.port, sent.kind) == (SERVER, wire.GRADIENT)
    assert sent.flags == wire.PARTIAL | wire.REMINDED
    assert (sent.fragment, sent.bitmap, sent.values) == (77, 0b100, [100] * 4)
    assert sent.packet["IP"].src == "10.255.0.1"
    sent = only(switch.from_server(0, wire.REMINDER, fragment=77, node=1))
    assert (sent.kind, sent.fragment, sent.port) == (wire.REMINDER_EMPTY, 77, SERVER)
    assert switch.counters(0)["ended_pulled"] == 1


@pytest.mark.parametrize("workers", [1, 3])
def test_an_aggregator_of_a_killed_job_counts_as_empty(system, workers):
    """One that was filling, and one whose complete sum nobody will ever answer; even one of the
    highest priority, and without a partial for a server that is dead."""
    switch = OneSwitch(system=system, **HELD, **KEEPS[system])
    for worker in range(workers):
        switch.gradient(0, worker, priority=255)
    assert only(switch.gradient(1, 0, priority=1)).flags == wire.COLLISION
    platform, ended = switch.setup.platform, switch.setup.jobs[0]
    platform.scheme.release(platform, ended, "s1", switch.switch)
    assert switch.gradient(1, 0, priority=1) == []
    assert switch.occupancy() == [(0, 0, 0), (1, 1, 0)]
    assert switch.counters(1)["ghosts"] == 1
    switch.gradient(1, 1)
    assert only(switch.gradient(1, 2)).values == [111] * 4


def test_a_job_is_refused_at_ports_where_it_has_no_host(system):
    """Ports 5 to 8 are the other job's; worker 0 of job 0 is at port 1."""
    switch = OneSwitch(system=system)
    of_worker_0 = {"kind": wire.GRADIENT, "job": 0, "bitmap": 1, "values": [1] * 4}
    for port in (5, 8):
        assert switch.send(port, **of_worker_0) == []
    for kind in (wire.RESULT, wire.REMINDER, wire.ASK):
        assert switch.send(5, to=host_ip(1), kind=kind, job=0, values=[1] * 4) == []
    assert switch.send(5, kind=wire.GRADIENT, job=0xFFFF, bitmap=1, values=[1] * 4) == []
    refused = dataplane.refusals(switch.setup.platform, switch.switch, range(1, 9))
    assert refused == {port: {5: 5, 8: 1}.get(port, 0) for port in range(1, 9)}
    assert switch.counters(0) == {} and switch.occupancy() == [(0, 0, 0), (1, 0, 0)]
    assert switch.send(1, **of_worker_0) == [] and switch.counters(0)["allocations"] == 1


def test_unknown_job_and_other_traffic_are_forwarded_by_address(system):
    """Only with admission off."""
    switch = OneSwitch(system=system, admission="off")
    unknown = {"kind": wire.GRADIENT, "job": 99, "bitmap": 1, "values": [1] * 4}
    sent = only(switch.send(1, to="10.0.0.7", **unknown))
    assert sent.port == 7 and sent.packet["IP"].ttl == 63
    assert only(switch.send(4, to="10.0.0.2", kind=wire.ASK, job=0, bitmap=2)).port == 2


# ---- small print ----


def test_an_overflow_of_the_last_addition_alone_is_flagged(system):
    switch = OneSwitch(system=system)
    for worker, value in ((0, 2**30), (1, 2**29)):
        assert switch.gradient(0, worker, values=[value, 0, 0, 0]) == []
    assert only(switch.gradient(0, 2, values=[2**30, 0, 0, 0])).flags == wire.OVERFLOW
    switch.from_server(0, wire.RESULT)
    for worker in range(3):
        sent = switch.gradient(0, worker, fragment=1, values=[2**29, -(2**29), 0, 1])
    assert only(sent).flags == 0


def test_an_aggregator_ages_after_its_time_and_not_before(system):
    switch = OneSwitch(system=system, max_age="10 us", **KEEPS[system])
    switch.gradient(0, 0, priority=100)
    switch.now += 9_000  # and 1 us per packet: 10 us later
    assert only(switch.gradient(1, 0, priority=1)).flags == wire.COLLISION
    assert switch.gradient(1, 0, priority=1) == []  # 11 us later
    assert switch.counters(1)["ghosts"] == switch.counters(0)["ended_discarded"] == 1


def test_statistics_add_up(system):
    """Sums take 2 us each to fill, and are held for 5 us until their result comes: three of one
    job, and two of the other in between."""
    switch = OneSwitch(system=system, release="on_result")
    for job, fragment in ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2)):
        for worker in range(3):
            switch.gradient(job, worker, fragment=fragment)
        switch.now += 4000
        switch.from_server(job, wire.RESULT, fragment=fragment)
        assert switch.occupancy() == [(0, 0, 0), (1, 0, 0)]
    for job, sums in ((0, 3), (1, 2)):
        counted = switch.counters(job)
        assert counted["filling_completed_ns"] == 2000 * sums
        assert counted["held_ns"] == 5000 * sums
        assert counted["releases"] == counted["ended_completed"] == sums


def test_a_table_entry_maps_indices_into_a_part_of_the_pool(system):
    """Indices 1 and 9 are both at place 4 + 1. What leaves has its own fragment's index."""
    switch = OneSwitch(aggregators=8, system=system)
    switch.switch.table_clear("job")
    complete, base, mask, slots, last = 0b111, 4, 3, 4, 100
    entry = [complete, base, mask, slots, last]
    switch.switch.table_add("job", "aggregate", [0], entry)
    switch.gradient(0, 0, fragment=3, index=1)
    assert list(np.flatnonzero(switch.switch.register_read("slot_state"))) == [5]
    sent = only(switch.from_server(0, wire.REMINDER, fragment=3, index=9, node=1))
    assert (sent.bitmap, sent.index) == (1, 1)
