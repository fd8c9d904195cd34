"""Flows between two ranks, packet by packet: numbers that wrap, late and lost acknowledgements, a
source that is ahead of its target."""

from __future__ import annotations

import numpy as np
import pytest
from p4fabric.simulate.congestion import CUTS
from p4fabric.simulate.machine import new_batch

from testbed.experiment import load_text
from testbed.protocols import flows, host_links, wire
from testbed.protocols.worker_state import UNIT
from testbed.schemes import new_machine, set_up
from testbed.setup.host_specs import host_specs
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


def test_what_is_lost_is_sent_again_and_copies_count_once(ends):
    two = ends(10)
    flows.start_transfers(two.source, 0, 0)
    packets = two.all_sent(two.source, 0)
    two.take(two.target, [packets[0], *packets[2:], packets[5]], MS)
    assert two.target.counters[0].duplicate_results == 1
    two.take(two.source, two.all_sent(two.target, 100 * MS), 100 * MS)
    again = two.all_sent(two.source, 100 * MS)
    assert [wire.flags(row) & wire.RESEND for row, _ in again] == [wire.RESEND]
    assert wire.fragment(again[0][0]) == wire.fragment(packets[1][0])
    two.take(two.target, again, 101 * MS)
    assert two.ended(two.target) == [(0, 0, 101 * MS)]


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


def test_an_acknowledgement_names_32_numbers_at_most(ends):
    two = ends(40)
    two.source.links.peers["window"] = 100 * UNIT
    flows.start_transfers(two.source, 0, 0)
    packets = two.all_sent(two.source, 0)
    assert len(packets) == 40
    two.take(two.target, [packets[0], packets[35]], 0)
    acks = two.all_sent(two.target, 100 * MS)
    told = [(wire.index(row), wire.word(row, wire.HEADER_WORDS)) for row, _ in acks]
    assert told == [(0, 1), (35, 1)]


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


@pytest.mark.parametrize(
    "change",
    [
        lambda row: wire.set_extra(row, 2),  # a transfer that there is not
        lambda row: wire.set_word(row, 2, 5),  # a packet behind its last one
        lambda row: wire.set_word(row, 5, 1 << 16),  # from a rank that sends nothing
        lambda row: wire.set_word(row, 1, 7 << 16),  # of another job
    ],
)
def test_packets_that_fit_no_transfer_are_foreign(ends, change):
    two = ends(5)
    flows.start_transfers(two.source, 0, 0)
    row, length = two.all_sent(two.source, 0)[0]
    change(row)
    two.take(two.target, [(row, length)], 0)
    counted = two.target.counters[0]
    assert counted.foreign == 1 and counted.results == 0


def carry(two, packets, now, marked):
    """Send so many packets, each when its rate lets it go and with a mark if they are `marked`,
    and take the acknowledgement; returns (time of the last one, mean distance in ns)."""
    times = []
    while len(times) < packets:
        for row, length in two.sent(two.source, now):
            if marked:
                wire.set_word(row, 0, wire.word(row, 0) | wire.ECN)
            two.take(two.target, [(row, length)], now)
            times.append(now)
        now = max(now + 1, min(flows.deadline(two.source, None), now + MS))
    host_links.close_ack(two.target.links, 0)
    two.take(two.source, two.all_sent(two.target, now), now)
    return now, (times[-1] - times[0]) / (len(times) - 1)


@pytest.mark.parametrize("control, slower", [("none", 1), ("dcqcn", 2), ("swift", 1)])
def test_marks_cut_the_rate_that_follows_them(tmp_path, control, slower):
    two = Ends(
        tmp_path, 60, more=f"transport: {{congestion_control: {control}, window: 64 packets}}\n"
    )
    flows.start_transfers(two.source, 0, 0)
    now, at_first = carry(two, 10, 0, False)
    assert at_first == pytest.approx(two.source.links.config.pace_ps / 1000, rel=0.01)
    now, _ = carry(two, 10, now, True)
    assert two.source.counters[0].marked_results >= 1
    now, then = carry(two, 4, now, False)
    assert then == pytest.approx(slower * at_first, rel=0.02)
    carry(two, 2, now, True)  # within 50 us of the first notification
    assert two.source.links.controls[0, CUTS] == slower - 1


def test_swift_narrows_the_window_after_a_long_round_trip(tmp_path):
    two = Ends(tmp_path, 64, more="transport: {congestion_control: swift, window: 64 packets}\n")
    flows.start_transfers(two.source, 0, 0)
    window = int(two.source.links.peers[0].window)
    assert window == 64 * UNIT
    packets = two.sent(two.source, 0)
    two.take(two.target, packets, MS)
    two.take(two.source, two.all_sent(two.target, 100 * MS), 100 * MS)
    assert two.source.links.peers[0].window == window // 2
