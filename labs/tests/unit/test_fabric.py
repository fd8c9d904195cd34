"""The network in virtual time of the labs' checks, what is measured in it, and slots."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from labs.grader.fabric import Fabric, Link
from labs.grader.failure import Failure
from labs.grader.slots import ABSORBED, AGAIN, COMPLETE, COPY, LATE, SLOTS, Slots, place
from labs.grader.timing import Measured, Relay, compare, ring_s


class Note:
    """A node that sends frames at times, and notes when frames come."""

    def __init__(self, sends: Sequence[tuple[int, bytes]] = (), wake: int | None = None) -> None:
        self.sends, self.wake = list(sends), wake
        self.got: list[tuple[int, int, bytes]] = []
        self.woken: list[int] = []

    def take(self, now_ns: int, port: int, frame: bytes | None):
        if frame is None:
            self.woken.append(now_ns)
            sent = [(0, data) for at, data in self.sends if at == now_ns]
            later = [at for at, _ in self.sends if at > now_ns]
            return sent, min(later, default=self.wake if now_ns == 0 else None)
        self.got.append((now_ns, port, frame))
        return [], None


def _pair(link: Link, sends: Sequence[tuple[int, bytes]], seed: int = 1) -> tuple[Fabric, Note]:
    made, receiver = Fabric(random.Random(seed)), Note()
    made.add("a", Note(sends))
    made.add("b", receiver)
    made.join(("a", 0), ("b", 3), link)
    made.run(lambda: False, 1 << 40)
    return made, receiver


def test_a_frame_takes_its_bytes_and_the_delay_and_waits_for_those_before():
    made, receiver = _pair(Link(500, 2.0), [(0, b"x" * 100), (0, b"y" * 50), (900, b"z" * 10)])
    assert [(at, port) for at, port, _ in receiver.got] == [(700, 3), (800, 3), (1420, 3)]
    count = made.counts["a", 0]
    assert (count.frames, count.bytes, count.lost, count.dropped) == (3, 160, 0, 0)


def test_a_full_queue_drops():
    frames = [(0, bytes([n]) * 100) for n in range(5)] + [(150, b"l" * 100)]
    made, receiver = _pair(Link(0, 1.0, queue_bytes=300), frames)
    assert [frame[:1] for _, _, frame in receiver.got] == [b"\0", b"\1", b"\2", b"l"]
    assert made.counts["a", 0].dropped == 2 and made.counts["a", 0].frames == 4


def test_losses_come_in_their_share_and_take_their_time():
    made, receiver = _pair(Link(0, 1.0, loss=0.25), [(0, b"x" * 10)] * 2000)
    lost = made.counts["a", 0].lost
    assert 0.2 < lost / 2000 < 0.3 and len(receiver.got) == 2000 - lost
    assert made.counts["a", 0].bytes == 20000 and receiver.got[-1][0] > 19900


def test_nothing_is_lost_while_it_is_calm():
    made, receiver = Fabric(random.Random(1), 1000), Note()
    made.add("a", Note([(n, b"x") for n in range(2000)]))
    made.add("b", receiver)
    made.join(("a", 0), ("b", 0), Link(0, loss=0.5, copies=0.5))
    made.run(lambda: False, 3000)
    early = [at for at, _, _ in receiver.got if at < 1000]
    assert early == list(range(1000)) and 400 < made.counts["a", 0].lost < 600


def test_copies_come_in_their_share_and_later():
    link = Link(0, 1.0, loss=0.2, copies=0.5, late_ns=5000)
    made, receiver = _pair(link, [(0, n.to_bytes(10, "big")) for n in range(1000)])
    got = Counter(frame for _, _, frame in receiver.got)
    twice = sum(n == 2 for n in got.values())
    assert set(got.values()) == {1, 2} and len(got) == 1000 - made.counts["a", 0].lost
    assert 0.4 < twice / len(got) < 0.6
    first = {frame: at for at, _, frame in reversed(receiver.got)}
    last = {frame: at for at, _, frame in receiver.got}
    assert 4000 < max(last[frame] - first[frame] for frame in got) < 5000


def test_what_leaves_where_nobody_is_is_told_and_what_leaves_a_muted_port_is_lost():
    made, receiver = Fabric(random.Random(1)), Note()
    made.add("a", Note([(10, b"x")]))
    made.add("b", receiver)
    made.join(("a", 1), ("b", 0), Link(0))
    with pytest.raises(Failure, match="where nobody is"):
        made.run(lambda: False, 100)
    made, receiver = _pair(Link(0), [])
    made.mute("a", 0)
    made.add("a", Note([(0, b"x")]))
    made.run(lambda: False, 100)
    assert not receiver.got


def test_packets_without_end_are_told():
    made = Fabric(random.Random(1))
    for name in ("a", "b"):
        made.add(name, Relay())
    made.join(("a", 0), ("b", 0), Link(5))
    made.add("c", Note([(0, bytes(6))]))
    made.join(("c", 0), ("a", 1), Link(5))
    with pytest.raises(Failure, match="far too many packets: after 50 events"):
        made.run(lambda: False, 1 << 40, 50)


def test_a_node_that_fails_neither_sends_nor_receives():
    made, receiver = Fabric(random.Random(1)), Note()
    made.add("a", Note([(0, b"x"), (1000, b"y")]))
    made.add("switch", Relay())
    made.add("b", receiver)
    made.join(("a", 0), ("b", 0), Link(100))
    assert made.run(lambda: bool(receiver.got), 5000) and made.now_ns == 100
    made.cut("a")
    assert not made.run(lambda: len(receiver.got) == 2, 5000)


def test_the_last_wake_is_the_one_that_counts():
    made = Fabric(random.Random(1))
    sleeper, other = Note(wake=1000), Note([(500, b"x")])
    made.add("a", sleeper)
    made.add("b", other)
    made.join(("a", 0), ("b", 0), Link(0))
    made.run(lambda: False, 1 << 30)
    assert sleeper.woken == [0]  # the frame at 500 came before, and after it nothing was asked for


@pytest.mark.parametrize("workers", [2, 5])
def test_a_ring_takes_what_the_formula_says(workers):
    """Each step has its frames and two links' delays; the relay adds one frame's time."""
    frames, size, link = 20, 100, Link(3000, 1.5)
    step = frames * size * 1.5 + size * 1.5 + 2 * 3000
    wanted = 2 * (workers - 1) * step
    assert ring_s(workers, frames, size, link) == pytest.approx(wanted / 1e9, rel=1e-6)


class Answers:
    def __init__(self, value) -> None:
        self.value = value

    def function(self, name, *arguments):
        return self.value


@pytest.mark.parametrize("value", [1.05, 0.95, float("nan"), None, True, "1.0", [1.0]])
def test_what_is_far_from_the_measurement_or_no_number_is_told(value):
    with pytest.raises(Failure, match="some_s is more than 4% away"):
        compare(Answers(value), [Measured("some_s", (3,), 1.0)], 0.04)


@pytest.mark.parametrize("value", [1, 1.03, 0.97])
def test_what_is_near_is_right(value):
    compare(Answers(value), [Measured("some_s", (3,), 1.0)], 0.04)


def test_places_take_turns_in_the_slots_and_their_sets():
    assert [place(n) for n in (0, 7, 8, 15, 16)] == [0, 7, 0x8000, 0x8007, 0]


def test_the_fates_of_gradients():
    """Two workers, bits 1 and 4; the second is one fragment behind the first in the same slot."""
    slots = Slots(5)

    def fate(number: int, bit: int, value: int) -> tuple[str, tuple]:
        end, own = slots.take(number, bit, [value])
        return end, own.values

    assert fate(8, 1, 10) == (ABSORBED, (10,))
    assert fate(8, 1, 10) == (COPY, (10,))
    assert fate(8, 4, 2**31 - 5) == (COMPLETE, (5 - 2**31,))
    assert fate(8, 1, 10) == (AGAIN, (5 - 2**31,))
    assert fate(8 + SLOTS, 1, 7)[0] == ABSORBED
    assert fate(8, 1, 10)[0] == LATE and fate(8, 4, 0)[0] == AGAIN
    assert fate(8 + SLOTS, 4, 1) == (COMPLETE, (8,))
    assert fate(8 + 2 * SLOTS, 4, 3) == (ABSORBED, (3,))
    assert fate(8, 1, 10)[0] == LATE
    assert fate(8 + 2 * SLOTS, 1, 4) == (COMPLETE, (7,))
