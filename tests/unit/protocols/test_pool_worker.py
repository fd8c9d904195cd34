"""The worker of a system with a parameter server, packet by packet: worker 0 of three, with nine
fragments of four values: 0 to 2 of the front tensor, 3 of the middle one, 4 to 8 of the rear one.

With a window of 6 it begins with 4 to 7 and one of each other tensor."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import lag, wire, worker_state
from testbed.protocols.pool_worker import MISSED, REQUEST
from tests.support.one_host import BASE, FULL, TINY, OneWorker, Packet

US, MS = 1000, 1_000_000
SYSTEMS = ["esa", "atp", "ps"]
UNIT = worker_state.UNIT


def new(system: str = "esa", **options) -> OneWorker:
    order = "fifo" if system == "atp" else "front"
    return OneWorker(system, **{"window": 6, "timeout": "2 ms", "order": order, **options})


def fragments(sent: list[Packet]) -> list[int]:
    return [packet.fragment for packet in sent]


def ask(worker: OneWorker, fragment: int, iteration: int = 0, **fields) -> Packet:
    return worker.packet(wire.ASK, fragment, iteration, bitmap=1, **fields)


# ---- what it sends ----


def test_fragments_of_an_iteration_follow_those_of_the_one_before():
    worker = new()
    sent = worker.step(0)
    for now in range(1, 6):
        sent = worker.step(now, *[worker.result(p.fragment) for p in sent if p.fragment < 9])
        if worker.iteration == 1:
            break
    assert worker.iteration == 1 and min(fragments(sent)) >= 9
    for packet in sent:
        assert packet.values == worker.values_of(0, packet.fragment - 9, 1).tolist()


def test_it_sends_what_its_window_and_results_leave_room_for():
    worker = new()
    assert sorted(fragments(worker.step(0))) == [0, 3, 4, 5, 6, 7]
    assert worker.step(1) == []
    assert len(worker.step(2, worker.result(4), worker.result(3))) == 2
    assert worker.step(3, worker.result(4)) == []
    assert worker.counters["duplicate_results"] == 1 and worker.counters["results"] == 2


def test_a_batch_that_is_full_goes_on_at_once(tmp_path):
    """A batch has room for 1,024 packets."""
    trace = tmp_path / "big.csv"
    lines = TINY.read_text().splitlines()
    head = [line for line in lines if line.startswith("#") and "values:" not in line]
    rows = ["name,shape,values,forward_ns,backward_ns", "one,6000,6000,1000,1000"]
    trace.write_text("\n".join([*head[:2], "# values: 6000", *head[2:], *rows, ""]))
    worker = new(trace=trace, window=1200)
    assert len(worker.step(0)) == 1024
    assert worker.deadline == 0
    assert len(worker.step(0)) == 176
    assert worker.deadline == 2 * MS
    again = worker.step(2 * MS)
    assert len(again) == 1024 and worker.deadline == 0
    assert {p.flags for p in again} == {wire.RESEND}
    assert len(worker.step(2 * MS)) == 176 and worker.deadline > 2 * MS


# ---- what it takes ----


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_not_for_it_is_foreign(system):
    worker = new(system)
    worker.step(0)
    version = worker.result(4)
    version.row[0] ^= np.uint32(0x30)  # the first byte's upper half, in network order
    short = worker.result(4)
    short.length = FULL - 4
    stub = worker.result(4)
    stub.length = 4 * BASE - 4
    foreign = [
        version,
        short,
        stub,
        worker.result(4, job=1),
        worker.result(4, kind=wire.GRADIENT),
        worker.result(4, kind=wire.REMINDER),
        worker.result(4, 1),  # of the next iteration
    ]
    for count, packet in enumerate(foreign, 1):
        assert worker.step(count, packet) == []
        assert worker.counters["foreign"] == count
    assert "results" not in worker.counters
    cut = ask(worker, 5)
    cut.length -= 4
    assert worker.step(99, cut) == [] and worker.counters["foreign"] == len(foreign) + 1
    one = worker.result(4, kind=wire.RESULT_ONE)  # served again, to it alone
    worker.step(100, one)
    assert worker.counters["results"] == 1


def test_a_wrong_value_is_named():
    for place in range(4):
        worker = new()
        worker.step(0)
        wrong = worker.result(5)
        wrong.row[BASE + place] ^= np.uint32(1)
        assert worker.step(1, worker.result(4), wrong) == []
        status = worker.status
        assert (status.failed, status.iteration, status.fragment) == (1, 0, 5)
        assert status.position == place and worker.counters["results"] == 1
        assert status.expected == worker.sum_of(range(3), 5)[place] != status.found


def test_what_is_beyond_the_tensors_values_must_be_zero():
    """Fragment 3 has three values."""
    worker = new()
    worker.step(0)
    wrong = worker.result(3)
    wrong.row[BASE + 3] = np.uint32(1 << 24)
    worker.step(1, wrong)
    assert (worker.status.failed, worker.status.position) == (1, 3)
    assert (worker.status.expected, worker.status.found) == (0, 1)


def test_a_result_of_the_iteration_before_is_a_copy():
    worker = new(window=40)
    worker.step(0)
    worker.step(1, *[worker.result(f) for f in range(9)])
    assert worker.iteration == 1
    worker.step(2, worker.result(4, 0))
    assert worker.counters["duplicate_results"] == 1 and worker.counters["results"] == 9


# ---- what the server asks for ----


@pytest.mark.parametrize("fragment", [0, 5])
def test_what_the_server_asks_for_goes_past_the_aggregators(fragment):
    worker = new()
    worker.step(0)
    (again,) = worker.step(1000, ask(worker, fragment))
    assert (again.fragment, again.flags) == (fragment, wire.RESEND)
    assert again.values == worker.values_of(0, fragment).tolist()
    counters = worker.counters
    assert counters["answered_asks"] == counters["retransmissions"] == 1
    assert "gap_resends" not in counters and counters["gradient_packets"] == 7


# ---- lost results and gradients ----


def test_a_result_names_the_one_before_it():
    worker = new()
    worker.step(0)
    sent = worker.step(1000, worker.result(5, extra=1 + 4))
    again = [p for p in sent if p.flags & wire.RESEND]
    assert fragments(again) == [4] and worker.counters["gap_resends"] == 1
    assert fragments([p for p in sent if not p.flags]) != []


def test_the_first_fragment_can_be_missed():
    worker = new()
    worker.step(0)
    sent = worker.step(1000, worker.result(5, extra=1 + 0))
    assert fragments([p for p in sent if p.flags & wire.RESEND]) == [0]


@pytest.mark.parametrize("resent", [False, True])
def test_what_was_sent_well_before_one_whose_result_is_here_is_lost(resent):
    """At 100 kbit/s a packet takes 6.88 ms; a worker is patient for 10 ms."""
    slow = 6_880_000
    link = "links: {bandwidth: 100 kbit/s}"
    worker = new(window=40, timeout="adaptive", order="fifo", keys=link)
    worker.state.guesses = 99  # a loss has been proven
    assert worker.config.min_patience_ns == 10 * MS
    for count, fragment in enumerate([4, 5, 6, 7]):
        now = 1000 + count * slow
        assert fragments(worker.step(now)) == [fragment]
        if fragment == 5:
            continue  # it is lost
        if resent and fragment == 7:
            worker.step(now + 1, ask(worker, 7))  # an answer says nothing of the others
        lost = worker.step(now + 4000, worker.result(fragment))
        if fragment == 7 and not resent:
            assert [(p.fragment, p.flags) for p in lost] == [(5, wire.RESEND)]
        else:
            assert lost == []
    assert worker.counters.get("gap_resends", 0) == int(not resent)


def test_what_is_here_is_not_lost():
    worker = new(window=40, timeout="adaptive", order="fifo", keys="links: {bandwidth: 100 kbit/s}")
    for count, fragment in enumerate([4, 5, 6, 7, 8]):
        now = 1000 + count * 6_880_000
        assert fragments(worker.step(now)) == [fragment]
        if fragment in (4, 6):
            assert worker.step(now + 4000, worker.result(fragment)) == []
    assert fragments(worker.step(now + 4000, worker.result(8))) == [5]
    requests = worker.protocol.retransmit_requests
    assert requests[0].fragment == 5 and requests[0].why == MISSED and not requests[1].why


def test_priorities_follow_what_is_left_of_the_job():
    worker = new(window=40, priority="remaining")
    worker.config.communication_ns = worker.config.computation_ns = 2**20
    seen = []
    sent = worker.step(0)
    for iteration in range(3):
        seen.append({int(wire.word(p.row, 0) >> 16 & 0xFF) for p in sent})
        sent = worker.step(iteration + 1, *[worker.result(f, iteration) for f in range(9)])
    work = [(2**21) * (4 - iteration) for iteration in range(1, 3)]
    assert [len(each) for each in seen] == [1, 1, 1]
    for found, ns in zip(seen[1:], work, strict=True):
        assert abs(min(found) - (255 + 6 * (16 - np.log2(ns)))) <= 1


def test_a_fixed_timeout_leaves_gaps_alone():
    worker = new(window=2)
    worker.step(0)
    worker.step(100 * US, worker.result(5))
    for now in range(2, 5):
        worker.step(now * 100 * US, worker.result(4 + now))
    assert "gap_resends" not in worker.counters


def test_a_fragment_without_a_result_is_sent_again_after_the_timeout():
    worker = new()
    worker.step(0)
    assert worker.deadline == 2 * MS
    assert worker.step(2 * MS - 1, worker.result(4), worker.result(3)) != []
    again = worker.step(2 * MS)
    assert {p.flags for p in again} == {wire.RESEND}
    assert sorted(fragments(again)) == [0, 5, 6, 7]
    assert worker.counters["retransmissions"] == 4


# ---- guesses ----


def timed_out(worker: OneWorker) -> list[int]:
    """What it sends again when its next timer runs out."""
    sent = worker.step(worker.deadline)
    return [p.fragment for p in sent if p.flags & wire.RESEND]


def test_timers_send_one_fragment_again_at_a_time():
    """Before any round trip has been measured, they run for 400 ms; then the time doubles, up to
    the longest backoff."""
    worker = new(timeout="adaptive", order="fifo")
    assert fragments(worker.step(1000)) == [4, 5, 6, 7, 8, 3]
    assert worker.deadline == 1000 + 400 * MS and timed_out(worker) == [4]
    assert worker.deadline == 1000 + 800 * MS and timed_out(worker) == [5]
    assert worker.deadline == 1000 + 1300 * MS and len(timed_out(worker)) == 1


def test_what_waits_for_a_slower_worker_says_how_long():
    """4 has been sent again, and 5 and 6 have not."""
    worker = new(timeout="adaptive", order="fifo", window=3)
    worker.step(1000)
    assert timed_out(worker) == [4]
    now = 1000 + 430 * MS
    sent = worker.step(now, worker.result(4), worker.result(5), worker.result(6))
    assert fragments(sent) == [7, 8, 3] and worker.counters["retransmissions"] == 1
    assert worker.state.longest_ns == 430 * MS and worker.state.guesses == 0


@pytest.mark.parametrize(
    ("kind", "flags", "proof"),
    [
        (wire.RESULT, 0, False),
        (wire.RESULT, wire.RESEND, True),
        (wire.RESULT, wire.RESEND | wire.REMINDED, False),
        (wire.RESULT_ONE, 0, True),
    ],
)
def test_a_loss_lets_all_timers_be_believed(kind, flags, proof):
    """A sum that waited for a packet that was lost, and a result that was lost."""
    worker = new(timeout="adaptive", order="fifo")
    worker.step(1000)
    assert timed_out(worker) == [4]
    sent = worker.step(1000 + 401 * MS, worker.result(4, kind=kind, flags=flags))
    assert sorted(fragments(sent)) == ([0, 3, 5, 6, 7, 8] if proof else [0])


def test_a_request_for_what_was_sent_just_now_is_not_answered():
    """It crosses it: five times the least delay of a reminder, 2 ms."""
    worker = new(timeout="adaptive", order="fifo")
    worker.step(1000)
    assert worker.step(1000 + 10 * MS - 1, ask(worker, 4)) == []
    assert fragments(worker.step(1000 + 10 * MS, ask(worker, 4))) == [4]
    assert fragments(worker.step(1000 + 11 * MS, ask(worker, 5, flags=wire.FLOAT))) == [5]


@pytest.mark.parametrize("losses", [False, True])
def test_missing_results_are_guesses_until_packets_get_lost(losses):
    """A slower worker may have sent 5, 6 and 7 just now."""
    worker = new(timeout="adaptive", order="fifo", window=3)
    assert fragments(worker.step(1000)) == [4, 5, 6]
    assert fragments(worker.step(2000, worker.result(4))) == [7]
    worker.state.guesses = 9 if losses else 0
    waited = worker.result(7, flags=wire.RESEND | wire.REMINDED)  # not a round trip
    assert fragments(worker.step(2000 + 20 * MS, waited)) == [8]
    sent = worker.step(2000 + 40 * MS, worker.result(8))
    assert sorted(p.fragment for p in sent if p.flags) == ([5, 6] if losses else [5])


# ---- round trips and windows ----


def test_round_trips_are_those_of_what_was_sent_once():
    worker = new()
    worker.step(1000)
    worker.step(5000, worker.result(4))
    assert worker.state.round_trip_ns == 4000
    worker.step(6000, ask(worker, 5))
    worker.step(9000, worker.result(5))
    assert worker.state.round_trip_ns == 4000
    # One whose sum waited for another worker's resend, and what was sent before that.
    worker.step(10_000, worker.result(6, flags=wire.RESEND))
    worker.step(20_000, worker.result(7))
    assert worker.state.round_trip_ns == 4000


def test_a_mark_halves_the_window_once_per_window():
    worker = new(window=8)
    worker.step(0)
    worker.step(1000, worker.result(4, flags=wire.ECN))
    assert worker.state.credit == 4 * UNIT
    worker.step(2000, worker.result(5, flags=wire.ECN), worker.result(6))
    assert 4 * UNIT < worker.state.credit < 5 * UNIT
    assert worker.counters["marked_results"] == 2


def test_packets_are_paced_at_the_links_rate():
    """One of 86 bytes takes 6.88 us at 100 Mbit/s."""
    worker = new(keys="links: {bandwidth: 100 Mbit/s}", timeout="20 ms")
    assert len(worker.step(0)) == 1 and worker.deadline == 6880
    assert worker.step(6879) == [] and len(worker.step(6880)) == 1
    assert len(worker.step(2 * 6880 + 1, ask(worker, 4))) == 1  # it takes its time, too
    assert worker.deadline == 3 * 6880
    # What is late by less than a burst is made up for; how late it was is noted once.
    before = worker.worker.lag.copy()
    assert len(worker.step(5 * 6880 + 500)) == 3
    noted = worker.worker.lag - before
    assert noted[: lag.BUCKETS].sum() == 1 and worker.worker.lag[lag.MAXIMUM] == 2 * 6880 + 500


def test_requests_beyond_what_it_can_keep_are_left_to_the_next():
    worker = new()
    worker.step(0)
    worker.replace(retransmit_requests=np.zeros(2, REQUEST))
    sent = worker.step(1000, *[ask(worker, fragment) for fragment in (4, 5, 6)])
    assert sorted(fragments(sent)) == [4, 5]


# ---- shorter packets ----


# ---- GRID's windows ----


def test_a_window_grows_with_what_a_switch_has_aggregated():
    """It begins with one fragment; one that was sent again says nothing of the switch."""
    link = "links: {bandwidth: 1 Gbit/s}"
    worker = new("grid", window_growth="packet", keys=link, window=40, order="fifo")
    assert worker.state.credit == UNIT and fragments(worker.step(0)) == [4]
    sent = worker.step(100_000, worker.result(4)) + worker.step(200_000)
    assert worker.state.credit == 2 * UNIT and fragments(sent) == [5, 6]
    (again, *_) = worker.step(worker.deadline)
    assert (again.fragment, again.flags) == (5, wire.RESEND)
    worker.step(3 * MS, worker.result(5))
    assert 2 * UNIT < worker.state.credit < 3 * UNIT


# ---- GRID's collisions ----


def dropping(**options) -> OneWorker:
    link = "links: {bandwidth: 1 Gbit/s}"
    return new("grid", collision="drop", keys=link, window=40, order="fifo", **options)


def everything(worker: OneWorker, now: int) -> list[Packet]:
    """Packets that the worker sends until it has sent its fragments."""
    sent = worker.step(now)
    while worker.deadline < now + MS:
        sent += worker.step(worker.deadline)
    return sent


@pytest.mark.parametrize("fragment", [0, 5])
def test_what_a_switch_has_dropped_is_tried_again_with_a_smaller_window(fragment):
    worker = dropping()
    sent = everything(worker, 0)
    assert sorted(fragments(sent)) == list(range(9))
    credit = worker.state.credit
    (again,) = worker.step(MS, worker.packet(wire.COLLIDED, fragment))
    assert (again.fragment, again.flags) == (fragment, 0)  # a switch may add it this time
    assert worker.state.credit == credit // 2
    counters = worker.counters
    assert counters["collisions_signalled"] == counters["retransmissions"] == 1
    for name in ("answered_asks", "gap_resends", "foreign"):
        assert name not in counters
    assert int(wire.node(again.row)) == int(wire.node(sent[0].row)) == 1
    assert again.extra == sent[0].extra != 0


# ---- ATP's positions ----


def test_positions_follow_the_order_of_sending():
    worker = new("atp", index="consecutive")
    sent = worker.step(0)
    assert fragments(sent) == [4, 5, 6, 7, 8, 3]
    pool = worker.spec.options.aggregators
    assert (np.diff([p.index for p in sent]) % pool).tolist() == [1] * 5
    (following,) = worker.step(1, worker.result(4, extra=sent[0].index))
    assert (following.fragment, following.index) == (0, sent[0].index)


def test_a_window_of_positions_moves_with_its_first_fragment():
    worker = new("atp", gap=0)
    worker.step(0)
    assert worker.step(1, worker.result(5), worker.result(6)) == []
    assert fragments(worker.step(2, worker.result(4))) == [0, 1, 2]


def test_a_gap_is_filled_once_until_later_results_show_it_again():
    worker = new("atp", gap=2)
    assert fragments(worker.step(0)) == [4, 5, 6, 7, 8, 3]
    assert worker.step(1, worker.result(5)) == []  # 4 is one place behind
    (again,) = worker.step(2, worker.result(6))
    assert (again.fragment, again.flags) == (4, wire.RESEND)
    assert worker.counters["gap_resends"] == worker.counters["retransmissions"] == 1
    # Sent again after all six: only what is sent later shows that it is lost once more.
    assert worker.step(3, worker.result(7), worker.result(8), worker.result(3)) == []
    sent = worker.step(4, worker.result(4))
    assert fragments(sent) == [0, 1, 2] and {p.flags for p in sent} == {0}
    assert fragments(worker.step(5, worker.result(2))) == [0]
    assert worker.step(6, worker.result(2)) == []


# ---- what another worker lacks ----


@pytest.mark.parametrize("iteration", [0, 1])
def test_a_gradient_is_made_again_for_another_worker(iteration):
    """Of the iteration whose results are all here, and of the one that it is in."""
    worker = new(window=64)
    worker.step(0)
    results = [worker.result(fragment) for fragment in range(9)]
    worker.step(1, *results)
    assert worker.iteration == 1
    worker.step(2, worker.result(4, 1))
    again = worker.packet(wire.ASK, 4, iteration, flags=wire.AGAIN, bitmap=1)
    (made,) = worker.step(3, again)
    assert (made.kind, made.flags) == (wire.GRADIENT, wire.RESEND)
    assert made.fragment == 9 * iteration + 4 and made.values == worker.sum_of([0], 4, iteration)
    assert worker.counters["answered_asks"] == 1
    (plain,) = [worker.step(4, ask(worker, 4))] if iteration == 0 else [[]]
    assert plain == []
    assert worker.iteration == 1 and not worker.step(5)
