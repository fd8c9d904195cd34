"""Flows between two ranks, packet by packet, against the record of what they did
(tests/support/recorded.py), and that all of them end once: packets that are lost, late, marked or
changed, numbers that wrap, a source that is ahead of its target."""

from __future__ import annotations

import numpy as np
import pytest
from p4fabric.simulate.machine import new_batch

from testbed.experiment import load_text
from testbed.protocols import flows, host_links, wire
from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.protocols.worker_state import UNIT
from testbed.schemes import new_machine, set_up
from testbed.setup.host_specs import host_specs
from tests.support import recorded
from tests.support.ranks import Ranks, text

MS = 1_000_000


class Ends:
    """Two ranks, of which the first one sends `packets` packets of 64 values to the second one."""

    def __init__(self, tmp_path, packets: int, iterations: int = 1, more: str = "") -> None:
        made = Ranks(all=(0, 1))
        made.add(0, "send", peer=1, bytes=256 * packets)
        made.add(1, "recv", peer=0, bytes=256 * packets)
        path = made.write(tmp_path / "pair.et")
        setup = set_up(load_text(text(path, "ring", 2, iterations=iterations) + more))
        specs = [spec for spec in host_specs(setup) if spec.is_worker]
        self.source, self.target = (new_machine(spec).protocol for spec in specs)
        self.batch = new_batch(64, 71)

    def sent(self, one: flows.Flows, now: int) -> list[tuple[np.ndarray, int]]:
        """What a rank sends at `now`: rows and their lengths."""
        one.links.state.next_send_ps = 0
        batch = self.batch
        count = flows.send(one, None, now, batch.packets, batch.lengths, batch.destinations)
        return [(batch.packets[i].copy(), int(batch.lengths[i])) for i in range(count)]

    def all_sent(self, one: flows.Flows, now: int) -> list[tuple[np.ndarray, int]]:
        found = []
        while some := self.sent(one, now):
            found += some
        return found

    def take(self, one: flows.Flows, packets: list[tuple[np.ndarray, int]], now: int) -> None:
        for row, length in packets:
            rows, lengths = row.reshape(1, -1).copy(), np.array([length])
            flows.receive(one, None, now, rows, lengths, 1)

    def ended(self, one: flows.Flows) -> list[tuple[int, int, int]]:
        found = []
        while (end := flows.ended_transfer(one, len(found)))[0] != flows.NONE:
            found.append(tuple(int(each) for each in end))
        return found


@pytest.fixture
def ends(tmp_path):
    return lambda *arguments: Ends(tmp_path, *arguments)


def test_a_transfer_ends_at_both_ends_and_numbers_wrap(ends):
    """Transmissions count on where their 32 bits have none left."""
    two = ends(10)
    for name in ("sequence", "oldest"):
        two.source.links.peers[name] = 2**32 - 4
    two.source.links.peers["furthest"] = 2**32 - 5
    flows.start_transfers(two.source, 0, 0)
    packets = two.all_sent(two.source, 0)
    numbers = [wire.index(row) for row, _ in packets]
    assert numbers == [*range(2**32 - 4, 2**32), *range(6)]
    two.take(two.target, packets, MS)
    assert two.ended(two.target) == [(0, 0, MS)]
    assert two.target.counters[0].values_checked == 640
    two.take(two.source, two.all_sent(two.target, MS), 2 * MS)
    assert two.ended(two.source) == [(0, 0, 2 * MS)]
    assert two.source.links.peers[0].in_flight == 0


def test_what_was_only_slow_is_not_sent_again(ends):
    """Two timeouts, and then the acknowledgements come."""
    two = ends(8)
    flows.start_transfers(two.source, 0, 0)
    packets = two.all_sent(two.source, 0)
    two.take(two.target, packets, MS)
    late = two.all_sent(two.target, 100 * MS)
    for _ in range(2):
        host_links.give_up(two.source.links, 0, 200 * MS)
    assert two.source.links.peers[0].again == 8 and two.source.links.peers[0].in_flight == 0
    two.take(two.source, late, 200 * MS)
    assert two.ended(two.source) == [(0, 0, 200 * MS)]
    assert two.all_sent(two.source, 200 * MS) == []
    assert two.source.links.state.again == 0 and two.source.counters[0].retransmissions == 0


def test_a_source_two_iterations_ahead_is_refused_until_the_target_follows(ends):
    two = ends(5, 3)
    for iteration in range(2):
        flows.start_transfers(two.source, 0, iteration)
        two.take(two.target, two.all_sent(two.source, iteration), iteration)
        two.take(two.source, two.all_sent(two.target, 100 * MS), 100 * MS)
    assert [end[1] for end in two.ended(two.target)] == [0, 1]
    flows.start_transfers(two.source, 0, 2)
    probe = two.all_sent(two.source, 101 * MS)
    assert len(probe) == 1, "the target has said that it is in iteration 0"
    two.take(two.target, probe, 101 * MS)
    assert two.target.counters[0].results == 10
    (refusal,) = two.all_sent(two.target, 101 * MS)
    assert wire.word(refusal[0], wire.HEADER_WORDS) == 0
    two.take(two.source, [refusal], 101 * MS)
    assert two.all_sent(two.source, 101 * MS) == []
    flows.begin(two.target, None, 1)
    two.take(two.source, two.all_sent(two.target, 102 * MS), 102 * MS)
    two.take(two.target, two.all_sent(two.source, 102 * MS), 102 * MS)
    assert two.target.counters[0].results == 14  # all but the refused one
    host_links.give_up(two.source.links, 0, 300 * MS)
    two.take(two.target, two.all_sent(two.source, 300 * MS), 300 * MS)
    assert two.ended(two.target) == [(0, 2, 300 * MS)]


def test_swift_narrows_the_window_after_a_long_round_trip(tmp_path):
    two = Ends(tmp_path, 64, more="transport: {congestion_control: swift, window: 64 packets}\n")
    flows.start_transfers(two.source, 0, 0)
    window = int(two.source.links.peers[0].window)
    assert window == 64 * UNIT
    packets = two.sent(two.source, 0)
    two.take(two.target, packets, MS)
    two.take(two.source, two.all_sent(two.target, 100 * MS), 100 * MS)
    assert two.source.links.peers[0].window == window // 2


PACKETS, ITERATIONS = 40, 3
CASES = {
    "alone": "",
    "with dcqcn": "transport: {congestion_control: dcqcn, window: 64 packets}\n",
    "in a narrow window": "transport: {congestion_control: none, window: 4 packets}\n",
}


def changed(draw: recorded.Draw, row: np.ndarray) -> None:
    """A field that fits no transfer."""
    what = draw.randrange(4)
    if what == 0:
        wire.set_extra(row, draw.one((2, 3)))
    elif what == 1:
        wire.set_word(row, 2, 2 * ITERATIONS * PACKETS + draw.randrange(2))
    elif what == 2:
        wire.set_word(row, 5, 1 << 16)
    else:
        wire.set_word(row, 1, 7 << 16)


@pytest.mark.parametrize("name", CASES)
def test_flows_do_what_they_did_and_end_once(name, tmp_path):
    draw, made = recorded.Draw(name), recorded.Record()
    two = Ends(tmp_path, PACKETS, ITERATIONS, CASES[name])
    sides, ended, now = (two.source, two.target), ([], []), 0
    on_their_way: list[tuple[int, int, np.ndarray, int]] = []  # (time, side, row, length)
    flows.start_transfers(two.source, 0, 0)
    while len(ended[0]) < ITERATIONS or len(ended[1]) < ITERATIONS:
        for side, one in enumerate(sides):
            due = [each for each in on_their_way if each[:2] <= (now, side) and each[1] == side]
            on_their_way = [each for each in on_their_way if not any(each is d for d in due)]
            two.take(one, [each[2:] for each in due], now)
            for _, iteration, _ in two.ended(one):
                ended[side].append(iteration)
                if side == 0 and iteration + 1 < ITERATIONS:
                    flows.start_transfers(one, 0, iteration + 1)
            for row, length in two.sent(one, now) if draw.chance(70) else ():
                frame = bytes(FRAME_OVERHEAD) + row.tobytes()[:length]
                made.note(now, f"of {side}", frame)
                if draw.chance(6):
                    changed(draw, row)
                elif draw.chance(20):
                    wire.set_word(row, 0, wire.word(row, 0) | wire.ECN)
                for _ in range(draw.one((0, 1, 1, 1, 1, 1, 1, 2))):
                    late = draw.one((5000, 5000, 5000, 5000, 20_000, MS))
                    on_their_way.append((now + late, 1 - side, row, length))
        if ended[1] and draw.chance(10):  # a slow target
            flows.begin(two.target, None, ended[1][-1] + 1)
        if draw.chance(1):
            host_links.give_up(two.source.links, 0, now)
        calls = [int(flows.deadline(one, None)) for one in sides]
        made.note(min(calls), "next call", b"")
        now += draw.one((1000, 4000, 4000, 40_000))
        now = max(now, min(*calls, *(each[0] for each in on_their_way), now + MS))
        assert now < 10_000 * MS, ended
    assert ended == ([*range(ITERATIONS)], [*range(ITERATIONS)])
    for side, one in enumerate(sides):
        counted = {n: int(one.counters[0][n]) for n in one.counters.dtype.names}
        made.facts |= {f"{side}: {name}": count for name, count in counted.items() if count}
    assert made.facts["1: values_checked"] == ITERATIONS * PACKETS * 64
    made.hold("flows", name)
