"""Fragments that travel as float32 because their sums do not fit int32, packet by packet.

ATP's worker and server have the recorded gradients of a small network."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import wire
from tests.support.one_host import BASE, OneServer, OneWorker, Packet

EVERYBODY = (0, 1, 2, 3)
FIRST = 1  # the workers' destinations begin here
TRACE = {"trace": "smallcnn", "workers": 4, "window": 9}


def worker() -> OneWorker:
    return OneWorker("atp", timeout="2 ms", **TRACE)


def server() -> OneServer:
    return OneServer("atp", reminder_delay="300 us", **TRACE)


def floats_of(packet: Packet) -> list[float]:
    return packet.row[BASE:].byteswap().view(np.float32).tolist()


def with_floats(one: OneServer | OneWorker, kind: int, fragment: int, *numbers: float, **fields):
    words = np.array(numbers, np.float32).view(np.int32).tolist()
    flags = fields.pop("flags", 0) | wire.FLOAT
    return one.packet(kind, fragment, numbers=words, flags=flags, **fields)


# ---- the worker ----


def test_a_worker_asked_before_it_has_sent_sends_floats_at_once():
    one = worker()
    sent = one.step(0)
    following = max(p.fragment for p in sent) + 1
    assert one.step(1, one.packet(wire.ASK, following, flags=wire.FLOAT, bitmap=1)) == []
    everything = one.step(2, *[right_sum(one, p.fragment) for p in sent])
    flags = {p.fragment: p.flags for p in everything}
    assert flags[following] == wire.FLOAT | wire.RESEND | wire.REMINDED
    assert {f for n, f in flags.items() if n != following} <= {0}


def right_sum(one: OneWorker, fragment: int) -> Packet:
    start = 4 * fragment
    return one.result(fragment, numbers=one.worker.sums[0, start : start + 4].tolist())


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_a_sum_in_floats_is_checked(off):
    one = worker()
    fragment = one.step(0)[0].fragment
    start = 4 * fragment
    numbers = one.worker.floats.sums[0, start : start + 4].copy()
    numbers[2] += off
    one.step(1, with_floats(one, wire.RESULT, fragment, *numbers))
    if off:
        status = one.status
        assert (status.failed, status.fragment, status.position) == (1, fragment, 2)
        expected = one.worker.floats.sums[0, start + 2].astype(np.float32)
        assert status.expected == expected.view(np.int32)
        assert status.found == np.float32(numbers[2]).view(np.int32)
    else:
        assert one.counters["float_results"] == one.counters["results"] == 1
        assert one.counters["values_checked"] == one.count_of(fragment)


# ---- the server ----


def test_a_sum_that_has_overflowed_on_its_way_is_wanted_as_floats():
    one = server()
    sent = one.step(1, one.gradient(5, 0, 1, flags=wire.OVERFLOW))
    asks = [p for p in sent if p.kind == wire.ASK]
    assert [p.destination - FIRST for p in asks] == [0, 1, 2, 3]
    assert {p.flags for p in asks} == {wire.FLOAT}
    assert one.counters["float_results"] == 1 and one.deadline < 10**9  # it is asked for again
    assert one.step(2, one.gradient(5, 3, flags=wire.RESEND, sender=4)) == []
    # Whole numbers are of no use any more; who sends some again is asked for floats.
    assert one.step(2, one.gradient(5, 2)) == []
    (ask,) = one.step(3, one.gradient(5, 3, flags=wire.RESEND))
    assert (ask.kind, ask.destination, ask.flags) == (wire.ASK, FIRST + 3, wire.FLOAT)
    for w in (3, 1, 0):
        came = with_floats(one, wire.GRADIENT, 5, 1e9, -2.0, 0.5, w, bitmap=1 << w, sender=w)
        assert one.step(4 + w, came) == []
    came = with_floats(one, wire.GRADIENT, 5, 1e9, -2.0, 0.5, 2, bitmap=1 << 2, sender=2)
    (result,) = one.step(10, came)
    assert result.flags & wire.FLOAT and floats_of(result) == [4e9, -8.0, 2.0, 6.0]
    assert (result.kind, result.bitmap, result.destination) == (wire.RESULT, 0b1111, 0)


def test_an_overflow_at_the_server_is_wanted_as_floats():
    one = server()
    one.step(1, one.gradient(5, 0, numbers=[2**31 - 1, 0, 0, 0]))
    sent = one.step(2, one.gradient(5, 1, numbers=[1, 0, 0, 0]))
    asks = [p for p in sent if p.kind == wire.ASK]
    assert [(p.destination - FIRST, p.flags) for p in asks] == [(w, wire.FLOAT) for w in EVERYBODY]
    for w in EVERYBODY:
        came = with_floats(one, wire.GRADIENT, 5, w, 0, 0, 0, bitmap=1 << w, sender=w)
        sent = one.step(10 + w, came)
    assert floats_of(sent[0]) == [6.0, 0.0, 0.0, 0.0] and sent[0].flags & wire.OVERFLOW


def test_where_nobody_sends_floats_they_are_foreign():
    one = OneServer("esa")
    one.step(1, with_floats(one, wire.GRADIENT, 5, 1, 2, 3, 4, bitmap=1, sender=0))
    assert one.counters["foreign"] == 1


def test_one_workers_floats_make_it_a_sum_of_floats():
    one = server()
    assert one.step(1, one.gradient(5, 1, 2)) == []
    came = with_floats(one, wire.GRADIENT, 5, 1e9, 0, 0, 0, bitmap=1, sender=0)
    asks = [p for p in one.step(2, came) if p.kind == wire.ASK]
    assert [(p.destination - FIRST, p.flags) for p in asks] == [(w, wire.FLOAT) for w in (1, 2, 3)]
    assert one.step(3, came) == [] and one.counters["ps_known"] == 1
    for w in (1, 2):
        came = with_floats(one, wire.GRADIENT, 5, 1, 2, 3, 4, bitmap=1 << w, sender=w)
        assert one.step(3 + w, came) == []
    came = with_floats(one, wire.GRADIENT, 5, 1, 2, 3, 4, bitmap=1 << 3, sender=3, flags=wire.ECN)
    (result,) = one.step(6, came)
    assert floats_of(result) == [1e9, 6.0, 9.0, 12.0]
    assert result.flags & (wire.FLOAT | wire.ECN) == wire.FLOAT | wire.ECN
    # It is served again as it is.
    again = with_floats(one, wire.GRADIENT, 5, 0, 0, 0, 0, bitmap=1, sender=0, flags=wire.RESEND)
    (served,) = one.step(7, again)
    assert (served.kind, floats_of(served)) == (wire.RESULT_ONE, floats_of(result))
