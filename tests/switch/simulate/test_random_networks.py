"""Random networks with links of random delays: whatever the order in which events are handled, one
after the other, in turns, in parts, or with stops, every node ends in the same state."""

from __future__ import annotations

import pytest
from p4fabric.simulate.event_queue import NEVER
from p4fabric_testing.matrix import first_of

from testbed.simulate import host_switch_turns, parts
from tests.support.event_orders import (
    assert_equal,
    ended,
    everything,
    go_on_until,
    in_order,
    started,
)
from tests.support.random_networks import drawn


@pytest.mark.parametrize("seed", first_of([20, *range(20), *range(21, 30)], 6))
def test_the_order_of_events_changes_nothing(seed, monkeypatch):
    text = drawn(seed)
    monkeypatch.setattr(parts, "WORTHWHILE", NEVER)
    one_by_one = in_order(text)
    ended(one_by_one)
    monkeypatch.setattr(host_switch_turns, "SLICE_FRAMES", 2 + seed % 40)
    runs = [started(text)]
    monkeypatch.setattr(parts, "WORTHWHILE", 0)
    runs += [started(text, threads) for threads in (2, 7, 1, 1)]
    often = ({}, {}, {}, {"step_ns": 1337}, {"events": 500})
    ends = {ended(run, **each) for run, each in zip(runs, often, strict=True)}
    assert len(ends) == 1
    go_on_until(one_by_one, ends.pop())
    expected = everything(one_by_one)
    for run in runs:
        run.close()
        assert_equal(everything(run), expected)


def test_the_networks_have_windows_of_many_lengths_and_mostly_turns():
    made = [started(drawn(seed)) for seed in (0, 1, 2, 4, 5)]
    assert len({run.window_ns for run in made}) > 2
    assert sum(int(run.nodes.world.state[0].to_switch_ns) > 0 for run in made) > 2
