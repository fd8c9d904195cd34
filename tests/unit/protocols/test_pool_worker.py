"""The worker of a system with a parameter server, packet by packet: worker 0 of three, with nine
fragments of four values: 0 to 2 of the front tensor, 3 of the middle one, 4 to 8 of the rear one.

With a window of 6 it begins with 4 to 7 and one of each other tensor."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import lag, wire, worker_state
from testbed.protocols.pool_worker import REQUEST
from tests.support.one_host import BASE, OneWorker, Packet

US, MS = 1000, 1_000_000
UNIT = worker_state.UNIT


def new(system: str = "esa", **options) -> OneWorker:
    order = "fifo" if system == "atp" else "front"
    return OneWorker(system, **{"window": 6, "timeout": "2 ms", "order": order, **options})


def fragments(sent: list[Packet]) -> list[int]:
    return [packet.fragment for packet in sent]


def ask(worker: OneWorker, fragment: int, iteration: int = 0, **fields) -> Packet:
    return worker.packet(wire.ASK, fragment, iteration, bitmap=1, **fields)


# ---- what it takes ----


def test_what_is_beyond_the_tensors_values_must_be_zero():
    """Fragment 3 has three values."""
    worker = new()
    worker.step(0)
    wrong = worker.result(3)
    wrong.row[BASE + 3] = np.uint32(1 << 24)
    worker.step(1, wrong)
    assert (worker.status.failed, worker.status.position) == (1, 3)
    assert (worker.status.expected, worker.status.found) == (0, 1)


# ---- lost results and gradients ----


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


# ---- round trips and windows ----


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


# ---- ATP's positions ----


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
