"""When the worker of a system with a parameter server believes that a packet is lost; all else that
it does is recorded (test_recorded_hosts.py).

Worker 0 of three, with nine fragments of four values: 0 to 2 of the front tensor, 3 of the middle
one, 4 to 8 of the rear one. With a window of 6 it begins with 4 to 7 and one of each other
tensor."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import wire
from testbed.protocols.pool_worker import REQUEST
from tests.support.one_host import OneWorker, Packet

MS = 1_000_000


def new(system: str = "esa", **options) -> OneWorker:
    order = "fifo" if system == "atp" else "front"
    return OneWorker(system, **{"window": 6, "timeout": "2 ms", "order": order, **options})


def fragments(sent: list[Packet]) -> list[int]:
    return [packet.fragment for packet in sent]


def ask(worker: OneWorker, fragment: int, iteration: int = 0, **fields) -> Packet:
    return worker.packet(wire.ASK, fragment, iteration, bitmap=1, **fields)


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


def test_requests_beyond_what_it_can_keep_are_left_to_the_next():
    worker = new()
    worker.step(0)
    worker.replace(retransmit_requests=np.zeros(2, REQUEST))
    sent = worker.step(1000, *[ask(worker, fragment) for fragment in (4, 5, 6)])
    assert sorted(fragments(sent)) == [4, 5]
