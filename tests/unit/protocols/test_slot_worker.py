"""SwitchML's worker, packet by packet: worker 0 of three, eight slots of two sets, nine fragments.

They go in the order in which backward makes them: 4 to 8, then 3, then 0 to 2."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import (
    block_float,
    given,
    lag,
    send_scoreboard,
    slot_worker,
    wire,
)
from tests.support.one_host import OneWorker, Packet

US, MS = 1000, 1_000_000
ORDER = [4, 5, 6, 7, 8, 3, 0, 1, 2]
SLOTS = 8
SECOND_SET = 1 << 31


def new(**options) -> OneWorker:
    return OneWorker("switchml", **{"timeout": "2 ms", **options})


def result(worker: OneWorker, number: int, **fields) -> Packet:
    """The sum of a chunk, which is named by its number in the stream."""
    iteration, place = divmod(number, 9)
    fields.setdefault("numbers", worker.sum_of(range(3), ORDER[place], iteration))
    packet = worker.result(ORDER[place], **fields)
    wire.set_word(packet.row, 2, number)
    return packet


def numbers(sent: list[Packet]) -> list[int]:
    return [packet.fragment for packet in sent]


def test_a_slots_next_chunk_follows_its_result_in_the_other_set():
    worker = new()
    worker.step(0)
    (following,) = worker.step(1, result(worker, 0))
    assert (following.fragment, following.index) == (8, 0 | SECOND_SET)
    # The next iteration goes on in the stream: chunk 9 is fragment 4 again, in slot 1.
    sent = worker.step(2, *[result(worker, n) for n in range(1, 9)])
    assert worker.iteration == 1
    assert numbers(sent) == [9, 10, 11, 12, 13, 14, 15, 16]
    assert [p.index for p in sent] == [*(n - 8 | SECOND_SET for n in range(9, 16)), 0]
    for packet in sent:
        expected = worker.values_of(0, ORDER[packet.fragment - 9], 1)
        assert packet.values == expected.tolist()
    assert worker.counters["results"] == 9 and worker.counters["values_checked"] == 31


# ---- retransmission ----


def test_waiting_doubles_from_time_to_time():
    worker = new()
    worker.step(0)
    worker.step(1, *[result(worker, n) for n in range(9) if n != 1 and n < 8])
    worker.step(2, result(worker, 8))
    times = []
    for _ in range(12):
        now = worker.deadline
        assert numbers(worker.step(now)) == [1]
        times.append(now // MS)
    assert np.diff([0, *times]).tolist() == [2, 2, 2, 4, 8, 16, 32, 64, 128, 128, 128, 128]


def test_packets_are_paced_at_the_links_rate():
    """One of 86 bytes takes 6.88 us at 100 Mbit/s."""
    worker = new(keys="links: {bandwidth: 100 Mbit/s}", timeout="20 ms")
    assert numbers(worker.step(0)) == [0] and worker.deadline == 6880
    assert worker.step(6879) == [] and numbers(worker.step(6880)) == [1]
    assert worker.deadline == 2 * 6880
    # What is late by less than a burst is made up for; how late it was is noted once.
    before = worker.worker.lag.copy()
    assert numbers(worker.step(4 * 6880 + 500)) == [2, 3, 4]
    noted = worker.worker.lag - before
    assert noted[: lag.BUCKETS].sum() == 1 and worker.worker.lag[lag.MAXIMUM] == 2 * 6880 + 500


# ---- recorded gradients: the exponents go one window ahead ----

TRACE = {"trace": "smallcnn", "workers": 4}


def recorded(iterations: int = 6, begin: int = 0, **options) -> OneWorker:
    """A worker with so many recorded iterations that is at chunk `begin` of the first one."""
    worker = new(**TRACE, **options)
    names = ("recorded", "own_exponent", "sums")
    worker.replace(**{name: getattr(worker.protocol, name)[:iterations] for name in names})
    slots = int(worker.config.window)
    chunks = np.arange(begin, begin + slots)
    worker.protocol.chunk[chunks % slots] = chunks
    worker.protocol.free[:slots] = chunks % slots
    return worker


def announcement(worker: OneWorker, number: int, exponent: int, values=(0, 0, 0, 0)) -> Packet:
    packet = worker.packet(wire.RESULT, numbers=values, bitmap=0b1111, exponents=(0, exponent))
    wire.set_word(packet.row, 2, number)
    return packet


def own(worker: OneWorker, fragment: int) -> np.ndarray:
    return worker.protocol.recorded[0, 4 * fragment : 4 * fragment + 4]


@pytest.mark.parametrize("iterations", [1, 6])
def test_values_are_scaled_by_the_exponent_that_all_have_announced(iterations):
    worker = recorded(iterations)
    worker.step(0)
    first = int(worker.protocol.stream.announced[0])
    (sent,) = worker.step(1, announcement(worker, 0, 5))
    assert (sent.fragment, sent.index) == (SLOTS, SECOND_SET)
    scale = block_float.scale_of(5, 4)
    assert sent.values == np.rint(own(worker, first).astype(np.float64) * scale).tolist()
    assert int(wire.exponent(sent.row)) == 5
    # It announces the exponent of the fragment a window ahead.
    ahead = int(worker.protocol.stream.announced[SLOTS])
    assert ahead == first + SLOTS
    exponent = int(block_float.exponents(own(worker, ahead)[np.newaxis])[0])
    assert int(wire.next_exponent(sent.row)) == exponent
    assert "results" not in worker.counters


@pytest.mark.parametrize("iterations", [1, 6])
def test_a_small_tensors_chunks_wait_for_their_exponents(iterations):
    """The front tensor has 20 fragments and there are 32 slots, so its fragments follow their
    announcements at once."""
    wide = {"aggregators": 64}
    stream = recorded(**wide).protocol.stream
    begin = int(np.flatnonzero(stream.tensor == 0)[0])
    worker = recorded(iterations, begin, **wide)
    assert worker.config.window == 32
    assert numbers(worker.step(0)) == list(range(begin, begin + 20))
    for place in range(begin, begin + 20):
        sent = numbers(worker.step(1 + place, announcement(worker, place, 3)))
        assert sent == [place + 20]


@pytest.mark.parametrize("place", [0, 2, 3])
def test_an_announcement_with_values_is_wrong(place):
    worker = recorded()
    worker.step(0)
    values = [0, 0, 0, 0]
    values[place] = 7
    worker.scoreboard.state.iteration = 3
    worker.step(1, announcement(worker, 2, 5, values=values))
    status = worker.status
    assert status.failed == 1 and status.fragment == worker.protocol.stream.announced[2]
    assert (status.position, status.found, status.expected) == (place, 7, 0)
    assert status.iteration == 3


# ---- a program's tensors join the stream as it gives them ----


@pytest.mark.parametrize("tensors", [1, 3])
def test_tensors_are_appended_to_the_stream(tensors):
    worker = new()
    stream, scoreboard = worker.protocol.stream, worker.scoreboard
    send_scoreboard.begin(scoreboard, 0)
    worker.protocol.window.chunks = 0
    for tensor in (0, 2):
        slot_worker.open_tensor(worker.protocol, scoreboard, tensor, 0)
    assert worker.protocol.window.chunks == 8
    assert stream.tensor[:8].tolist() == [0] * 3 + [2] * 5
    # The next iteration's begin anew.
    given_some = worker.protocol._replace(given=given.new_given(tensors, tensors, 3))
    slot_worker.begin(given_some, scoreboard, 1)
    assert worker.protocol.window.chunks == 0 and worker.protocol.window.first_chunk == 8
    assert stream.fragment[:8].tolist() == [0, 1, 2, 4, 5, 6, 7, 8]
