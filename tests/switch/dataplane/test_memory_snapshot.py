"""One look at a switch's memory: jobs, events and places in the pool agree with what was sent."""

from __future__ import annotations

import numpy as np
import pytest

from testbed import dataplane
from testbed.dataplane import memory_snapshot as looking
from testbed.dataplane.memory_snapshot import Blocks, MemorySnapshot, SnapshotHistory
from tests.support.switches import OneSwitch
from tests.support.switchml import SlotSwitch


def test_a_filling_aggregator_is_seen_where_it_is():
    esa = OneSwitch()
    esa.gradient(0, 0, index=5)
    esa.gradient(1, 0, index=6)
    seen = dataplane.take_snapshot(esa.setup.platform, esa.switch)
    assert seen.jobs.tolist() == [[0, 1, 0], [1, 1, 0]] and (seen.filling, seen.held) == (2, 0)
    assert seen.events["allocations"] == 2 and seen.events["preemptions"] == 0
    assert seen.blocks.seen.sum() == seen.aggregators == esa.setup.platform.aggregators
    taken = seen.blocks.first[seen.blocks.filling > 0]
    assert len(taken) == 2 and taken[1] - taken[0] == 1


def test_one_taker_sees_every_change_and_each_switch_for_itself():
    esa, other = OneSwitch(), OneSwitch()
    look = dataplane.SnapshotTaker(esa.setup.platform)
    assert look(esa.switch).filling == 0
    esa.gradient(0, 0, index=5)
    assert [look(each.switch).filling for each in (esa, other, esa)] == [1, 0, 1]
    for worker in (1, 2):
        esa.gradient(0, worker, index=5)
    ended = look(esa.switch)
    assert ended.filling == 0 and ended.events["completions"] == 1
    assert len(look(esa.switch, running=[]).jobs) == 0
    esa.gradient(1, 0, index=5)
    assert look(esa.switch, running=[]).jobs.tolist() == [[1, 1, 0]]
    assert look(esa.switch, running=[0]).jobs.tolist() == [[0, 0, 0], [1, 1, 0]]


def test_it_is_the_same_over_a_control_connection():
    """Answers are lists there."""
    esa = OneSwitch()
    esa.gradient(0, 0, index=5)

    class Connection:
        def batch(self, calls):
            return [list(answer) for answer in esa.switch.batch(calls)]

    look = dataplane.SnapshotTaker(esa.setup.platform)
    direct, over = look(esa.switch), look(Connection())
    assert over.jobs.tolist() == direct.jobs.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert over.events == direct.events and over.events["allocations"] == 1


def test_sets_of_slots_are_two_aggregators_each():
    switch = SlotSwitch()
    switch.whole_chunk(0, 0)
    switch.chunk(1, 0)
    seen = dataplane.take_snapshot(switch.setup.platform, switch.switch)
    assert (seen.filling, seen.held) == (1, 1)
    assert seen.blocks.filling.sum() == seen.blocks.held.sum() == 1
    assert seen.blocks.seen.sum() == seen.aggregators


def test_of_a_large_pool_only_the_first_places_of_each_block_are_read(monkeypatch):
    looking._spans.cache_clear()
    monkeypatch.setattr(looking, "BLOCKS", 8)
    monkeypatch.setattr(looking, "PLACES", 2)
    esa = OneSwitch(aggregators=32)
    for index in (0, 1, 2, 4):  # the third is out of sight
        esa.gradient(0, 0, fragment=index, index=index)
    seen = dataplane.take_snapshot(esa.setup.platform, esa.switch)
    assert seen.blocks.first.tolist() == list(range(0, 32, 4))
    assert set(seen.blocks.seen.tolist()) == {2}
    assert seen.filling == 4
    # Each fragment lies at the job's own offset: what is seen are those at the head of a block.
    places = np.flatnonzero(esa.switch.register_read("slot_state", 0, None))
    for first, filling in zip(seen.blocks.first, seen.blocks.filling, strict=True):
        assert filling == sum(0 <= place - first < 2 for place in places)
    looking._spans.cache_clear()


def looked(filling: int, preemptions: int) -> MemorySnapshot:
    blocks = Blocks(*(np.array([number]) for number in (0, 4, filling, 0)))
    jobs, counts = np.array([[0, filling, 0]]), np.array([preemptions])
    return MemorySnapshot(jobs, counts, ("preemptions",), blocks, 4)


def test_looks_become_rows_and_events_only_where_they_happened():
    history = SnapshotHistory()
    for time_ns, filling, preemptions in ((0, 0, 0), (10, 2, 3), (20, 1, 3), (30, 0, 4)):
        history.add("s1", time_ns, looked(filling, preemptions))
    tables = history.tables()
    assert [(row["time_ns"], row["value"]) for row in tables["events"]] == [(10, 3), (30, 4)]
    whole = [row["occupied"] for row in tables["memory"] if row["job"] is None]
    assert whole == [row["occupied"] for row in tables["memory"] if row["job"] == 0] == [0, 2, 1, 0]
    assert tables["pool"]["filling"].tolist() == [0, 2, 1, 0]


def test_a_queue_has_a_row_where_its_length_has_changed():
    history = SnapshotHistory()
    for time_ns, queues in ((0, []), (10, [[1, 4], [3, 2]]), (20, [[1, 4]]), (30, [[1, 5]])):
        waiting = np.array(queues, np.int64).reshape(-1, 2)
        history.add("s1", time_ns, looked(0, 0)._replace(queues=waiting))
    rows = [(row["time_ns"], row["port"], row["packets"]) for row in history.tables()["queues"]]
    assert rows == [(10, 1, 4), (10, 3, 2), (20, 3, 0), (30, 1, 5)]


def test_an_event_of_a_look_that_is_forgotten_is_in_the_next():
    history = SnapshotHistory()
    for time_ns, preemptions in ((0, 0), (10, 3), (20, 3)):
        history.add("s1", time_ns, looked(0, preemptions))
    history.keep_every_second()
    assert [(row["time_ns"], row["value"]) for row in history.tables()["events"]] == [(20, 3)]


def test_every_second_look_is_forgotten_at_each_switch_by_itself():
    history = SnapshotHistory()
    for time_ns, switch in ((0, "s1"), (1, "s2"), (2, "s2"), (10, "s1"), (11, "s2"), (20, "s1")):
        history.add(switch, time_ns, looked(0, 0))
    history.keep_every_second()
    tables = history.tables()
    kept = [("s1", 0), ("s2", 1), ("s2", 11), ("s1", 20)]
    whole = [row for row in tables["memory"] if row["job"] is None]
    assert [(row["switch"], row["time_ns"]) for row in whole] == kept
    pool = zip(tables["pool"]["switch"], tables["pool"]["time_ns"], strict=True)
    assert sorted(pool) == sorted(kept)


@pytest.mark.parametrize("count", [400, 401, 801, 1000, 5000])
def test_the_pool_table_keeps_so_many_snapshots(count):
    history = SnapshotHistory()
    for time_ns in range(count):
        history.add("s1", time_ns, looked(0, 0))
    times = history.tables()["pool"]["time_ns"]
    steps = {after - before for before, after in zip(times, times[1:], strict=False)}
    assert len(times) <= looking.POOL_SNAPSHOTS and len(steps) == 1


@pytest.mark.parametrize("count", [100, 1024, 6000])
def test_the_pool_tables_step_is_even_where_every_second_look_was_forgotten(count):
    history = SnapshotHistory()
    for time_ns in range(count):
        history.add("s1", time_ns, looked(0, 0))
    history.keep_every_second()
    for time_ns in range(count, 2 * count, 2):
        history.add("s1", time_ns, looked(0, 0))
    times = history.tables()["pool"]["time_ns"]
    steps = {after - before for before, after in zip(times, times[1:], strict=False)}
    assert looking.POOL_SNAPSHOTS / 2 <= len(times) <= looking.POOL_SNAPSHOTS or len(times) == count
    assert len(steps) == 1
