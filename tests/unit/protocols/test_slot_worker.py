"""What the records of SwitchML's worker (test_recorded_hosts.py) do not reach: the ends of a stream
of recorded gradients, and tensors of programs."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import given, send_scoreboard, slot_worker, wire
from tests.support.one_host import OneWorker, Packet


def new(**options) -> OneWorker:
    return OneWorker("switchml", **{"timeout": "2 ms", **options})


def numbers(sent: list[Packet]) -> list[int]:
    return [packet.fragment for packet in sent]


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
