"""Every row of SwitchML's table of events, one packet at a time, against the compiled program."""

from __future__ import annotations

from testbed import dataplane
from testbed.protocols import wire
from tests.support.experiments import setup_of
from tests.support.switches import only, start_switches
from tests.support.switchml import SlotSwitch


def test_the_last_worker_makes_the_result_go_to_all():
    switch = SlotSwitch()
    assert switch.chunk(0, 0) == []
    assert switch.occupancy() == [(0, 1, 0), (1, 0, 0)]
    assert switch.chunk(0, 2) == []
    sent = switch.chunk(0, 1)
    assert [s.port for s in sent] == [1, 2, 3]
    for s in sent:
        assert s.kind == wire.RESULT and s.flags == 0 and s.fragment == 0
        assert s.bitmap == 0b111 and s.values == [111] * 4
    assert switch.occupancy() == [(0, 0, 1), (1, 0, 0)]
    counted = switch.counters(0)
    assert counted["allocations"] == counted["completions"] == counted["additions"] == 1
    assert counted["ended_completed"] == 1 and counted["filling_completed_ns"] == 2000


def test_known_worker_is_not_added_twice():
    switch = SlotSwitch()
    switch.chunk(0, 0)
    assert switch.chunk(0, 0, flags=wire.RESEND) == []
    switch.chunk(0, 1)
    (result, *_) = switch.chunk(0, 2)
    assert (result.values, result.flags) == ([111] * 4, 0)
    assert switch.counters(0)["duplicates"] == 1


def test_lost_result_is_served_from_the_shadow_copy_to_the_asker_alone():
    switch = SlotSwitch()
    switch.whole_chunk(0, 0, next_exponent=5)
    sent = only(switch.chunk(0, 1, flags=wire.RESEND, values=[9] * 4, next_exponent=1))
    assert sent.port == 2 and sent.kind == wire.RESULT_ONE
    assert sent.packet["IP"].dst == "10.0.0.2" and sent.packet["IP"].src == "10.255.0.1"
    assert sent.packet["Ethernet"].dst == "02:00:00:00:00:02"
    assert sent.values == [111] * 4 and sent.next_exponent == 5 and sent.bitmap == 0b111
    assert switch.counters(0)["re_emissions"] == 1


def test_sets_alternate_and_the_shadow_copy_lasts_until_all_have_moved_on():
    switch = SlotSwitch()
    switch.whole_chunk(0, 0)
    completed = switch.now
    switch.chunk(0, 0, 2)
    switch.chunk(0, 1, 2)
    assert switch.occupancy()[0] == (0, 1, 1)
    # Worker 2 has lost the result of chunk 0 and gets it, although two are one chunk ahead.
    assert only(switch.chunk(0, 2, 0, flags=wire.RESEND)).values == [111] * 4
    assert [s.values for s in switch.chunk(0, 2, 2)] == [[111] * 4] * 3
    assert switch.occupancy()[0] == (0, 0, 1)
    assert switch.counters(0)["held_ns"] == switch.now - completed
    assert [s.fragment for s in switch.whole_chunk(0, 4)] == [4] * 3


def test_a_chunk_further_ahead_than_a_worker_can_be_is_dropped():
    """Chunks of a set are four apart: two slots with two sets each."""
    switch = SlotSwitch()
    switch.whole_chunk(0, 0)
    last = switch.setup.jobs[0].last_fragment
    assert last == switch.setup.jobs[0].fragments - 1
    for number in (8, last - last % 4, last + 4 - last % 4):
        assert switch.chunk(0, 0, number) == []
    assert switch.counters(0)["outside"] == 3
    switch.whole_chunk(0, 2)
    assert len(switch.whole_chunk(0, 4)) == 3
    assert switch.counters(0)["outside"] == 3


def test_late_copy_after_its_worker_has_moved_on_changes_nothing():
    switch = SlotSwitch()
    switch.whole_chunk(0, 0)
    switch.chunk(0, 0, 2)
    assert switch.chunk(0, 0, 0) == []
    assert switch.counters(0)["stale_chunks"] == 1
    # The late copy has not taken worker 0 out of the other set: it is not added again.
    assert switch.chunk(0, 0, 2, flags=wire.RESEND) == []
    switch.chunk(0, 1, 2)
    assert switch.chunk(0, 2, 2)[0].values == [111] * 4


def test_late_copy_of_an_older_chunk_does_not_enter_a_newer_one():
    switch = SlotSwitch()
    switch.whole_chunk(0, 0)
    switch.whole_chunk(0, 2)
    assert switch.chunk(0, 0, 0, values=[5] * 4) == []  # released, but known
    switch.chunk(0, 1, 4)
    assert switch.chunk(0, 0, 0, values=[5] * 4) == []
    assert switch.counters(0)["stale_chunks"] == 2
    switch.chunk(0, 0, 4)
    assert switch.chunk(0, 2, 4)[0].values == [111] * 4


def test_newer_chunk_overwrites_what_has_not_been_released():
    switch = SlotSwitch()
    switch.chunk(0, 0, 0, values=[7] * 4)
    switch.whole_chunk(0, 2)
    assert switch.whole_chunk(0, 4)[0].values == [111] * 4
    counted = switch.counters(0)
    assert counted["ended_discarded"] == 1 and counted["ended_completed"] == 2
    switch.whole_chunk(0, 8)
    assert switch.counters(0)["completions"] == 3
    assert switch.occupancy()[0] == (0, 0, 1)  # one overwritten, one released


def test_largest_exponent_wins_signed():
    switch = SlotSwitch()
    for worker, exponent in enumerate((-7 & 0xFF, 3, -128 & 0xFF)):
        sent = switch.chunk(0, worker, next_exponent=exponent, exponent=-4 & 0xFF)
    assert [s.next_exponent for s in sent] == [3] * 3
    assert [s.exponent for s in sent] == [-4 & 0xFF] * 3
    for worker, exponent in enumerate((-20 & 0xFF, -9 & 0xFF, -128 & 0xFF)):
        sent = switch.chunk(0, worker, 1, next_exponent=exponent)
    assert sent[0].next_exponent == -9 & 0xFF


def test_a_job_with_one_worker_gets_its_own_values_back():
    one = setup_of(
        """
name: test
topology: {kind: star, hosts: 2}
system: switchml
memory: {aggregators: 2}
values_per_packet: 4
jobs: [{model: alexnet, workers: 1, iterations: 1}]
"""
    )
    switch = SlotSwitch.__new__(SlotSwitch)
    switch.setup, switch.now, switch.sets = one, 1_000_000, 2
    switch.switch = start_switches(one)["s1"]
    assert only(switch.chunk(0, 0, 0, slots=1)).values == [1] * 4
    assert only(switch.chunk(0, 0, 0, slots=1)).kind == wire.RESULT_ONE
    assert only(switch.chunk(0, 0, 1, slots=1)).kind == wire.RESULT
    assert dataplane.occupancy(one.platform, switch.switch) == [(0, 0, 1)]


def test_the_part_of_a_killed_job_is_emptied():
    switch = SlotSwitch()
    for worker in range(3):
        switch.chunk(0, worker)
    switch.chunk(0, 0, number=1)
    switch.chunk(1, 0)
    assert switch.occupancy() == [(0, 1, 1), (1, 1, 0)]
    switch.now += 5000
    switch.send(1, kind=wire.RESULT, job=1, values=[0] * 4)  # moves the switch's clock
    switch.setup.platform.scheme.release(
        switch.setup.platform, switch.setup.jobs[0], "s1", switch.switch
    )
    assert switch.occupancy() == [(0, 0, 0), (1, 1, 0)]
    counted = switch.counters(0)
    assert counted["ended_discarded"] == 1 and "ended_open" not in counted
    assert counted["filling_discarded_ns"] >= 5000 and counted["held_ns"] >= 5000


def test_a_job_is_refused_at_ports_where_it_has_no_host():
    """Ports 4 to 6 are the other job's."""
    switch = SlotSwitch()
    gradient = {"job": 0, "fragment_number": 0, "bitmap": 1, "values": [1] * 4}
    assert switch.send(4, to="10.255.0.1", kind=wire.GRADIENT, **gradient) == []
    assert switch.send(4, to="10.0.0.1", kind=wire.CONTROL, job=0) == []
    assert switch.counters(0) == {}
    refused = dataplane.refusals(switch.setup.platform, switch.switch, range(1, 7))
    assert refused == {port: {4: 2}.get(port, 0) for port in range(1, 7)}
    switch.chunk(0, 0)
    assert switch.counters(0)["allocations"] == 1


def test_a_sum_that_is_held_to_the_end_counts_in_ns():
    """The program's clock shows microseconds on Mininet."""
    switch = SlotSwitch()
    for worker in range(3):
        switch.chunk(0, worker)
    before = switch.counters(0).get("held_open_ns", 0)
    switch.chunk(1, 0)  # 1,000 ns later
    assert switch.counters(0)["held_open_ns"] == before + 1000


def test_statistics_add_up():
    """Chunks of both sets: each takes 2 us to fill, and is held until the last worker has sent the
    next one, 7 us later; of another job in between."""
    switch = SlotSwitch()
    for number in (0, 2, 4, 6):
        switch.whole_chunk(0, number)
        switch.now += 1000
        if number < 4:
            switch.whole_chunk(1, number)
        else:
            switch.now += 3000
    for job, sums in (0, 4), (1, 2):
        counted = switch.counters(job)
        assert counted["ended_completed"] == sums
        assert counted["filling_completed_ns"] == 2000 * sums
        assert counted["held_ns"] == 7000 * (sums - 1)
