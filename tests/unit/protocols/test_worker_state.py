"""Timeouts, windows and pacing: what a worker does to suit the path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from p4fabric.simulate.records import new_record

from testbed.protocols import worker_state
from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.protocols.status import new_counters
from testbed.protocols.worker_state import NEVER, UNIT

US, MS = 1000, 1_000_000


class Worker(NamedTuple):
    """The part of a worker that concerns the path."""

    config: np.ndarray
    state: np.ndarray
    counters: np.ndarray


def new(state: dict | None = None, **config: int) -> Worker:
    """A worker with the usual limits."""
    limits = {"min_timeout_ns": MS, "max_timeout_ns": 100 * MS, "min_patience_ns": 20 * US}
    limits["window_step"] = UNIT
    return Worker(
        config=new_record(worker_state.CONFIG, **limits | config),
        state=new_record(worker_state.STATE, **state or {}),
        counters=new_counters(),
    )


# ---- timeouts ----


@pytest.mark.parametrize("asked_ns", [1, 3 * MS])
def test_a_fixed_timeout_is_what_was_asked_for(asked_ns):
    worker = new({"round_trip_ns": 7 * MS, "longest_ns": 50 * MS}, timeout_ns=asked_ns)
    assert worker_state.timeout_ns(worker) == worker_state.retry_ns(worker) == asked_ns
    assert worker_state.patience_ns(worker) == NEVER


def test_before_any_round_trip_a_worker_waits_long():
    assert worker_state.timeout_ns(new()) == 4 * MS
    assert worker_state.patience_ns(new()) == NEVER


@pytest.mark.parametrize(
    "state, expected",
    [
        ({"round_trip_ns": 2 * MS, "variation_ns": MS}, 6 * MS),
        ({"round_trip_ns": 2 * MS, "longest_ns": 10 * MS}, 15 * MS),
        ({"round_trip_ns": 2 * MS, "longest_before_ns": 10 * MS}, 15 * MS),
        ({"round_trip_ns": 2 * MS, "longest_ns": 4 * MS, "longest_before_ns": 10 * MS}, 15 * MS),
        ({"round_trip_ns": 2 * MS, "longest_ns": MS}, 2 * MS),
        ({"round_trip_ns": 100 * US}, MS),
        ({"round_trip_ns": 300 * MS}, 100 * MS),
    ],
)
def test_a_timeout_follows_round_trips(state, expected):
    assert worker_state.timeout_ns(new(state)) == expected


@pytest.mark.parametrize(
    "state, expected",
    [
        ({"round_trip_ns": 2 * MS, "variation_ns": MS, "longest_ns": 90 * MS}, 6 * MS),
        ({"round_trip_ns": 3 * US, "variation_ns": US}, 20 * US),
    ],
)
def test_patience_is_one_round_trip(state, expected):
    worker = new(state)
    assert worker_state.patience_ns(worker) == expected
    assert worker_state.retry_ns(worker) == expected


def test_a_retry_waits_no_longer_than_a_first_transmission():
    worker = new({"round_trip_ns": 300 * MS})
    assert (
        worker_state.patience_ns(worker) == 300 * MS and worker_state.retry_ns(worker) == 100 * MS
    )


def test_round_trips_are_smoothed():
    worker = new()
    state = worker.state
    worker_state.measure_round_trip(state, 800)
    assert (state.round_trip_ns, state.variation_ns, state.longest_ns) == (800, 400, 800)
    worker_state.measure_round_trip(
        state, 1600
    )  # an eighth of the difference, a quarter of the variation
    assert (state.round_trip_ns, state.variation_ns, state.longest_ns) == (900, 500, 1600)
    worker_state.measure_round_trip(state, 100)
    assert (state.round_trip_ns, state.variation_ns, state.longest_ns) == (800, 575, 1600)


def test_the_longest_of_two_iterations_counts():
    worker = new()
    state = worker.state
    worker_state.measure_round_trip(state, 5 * MS)
    worker_state.begin(worker, 1)
    assert (state.longest_ns, state.longest_before_ns) == (0, 5 * MS)
    worker_state.measure_round_trip(state, MS)
    worker_state.begin(worker, 2)
    assert (state.longest_ns, state.longest_before_ns) == (0, MS)


# ---- windows ----


@pytest.mark.parametrize("whole_step", [False, True])
def test_a_window_stops_at_its_limit(whole_step):
    worker = new({"credit": 10 * UNIT - 1}, window=10)
    worker_state.adapt_window(worker, False, whole_step, 0, 0)
    assert worker.state.credit == 10 * UNIT
    worker_state.adapt_window(worker, False, whole_step, 0, 0)
    assert worker.state.credit == 10 * UNIT


# ---- pacing ----


def test_packets_follow_each_other_at_the_pace():
    worker = new(pace_ps=4_000_000)
    state, config = worker.state, worker.config
    for count in (1, 2, 3):
        worker_state.take_pace(state, config, 10 * US, 300)
        assert state.next_send_ps == 10 * US * 1000 + count * 4_000_000


def test_a_short_packet_takes_its_share_of_the_time():
    worker = new(pace_ps=4_000_000, frame_bytes=200)
    state, config = worker.state, worker.config
    worker_state.take_pace(state, config, 0, 200 - FRAME_OVERHEAD)
    assert state.next_send_ps == 4_000_000
    worker_state.take_pace(state, config, 0, 100 - FRAME_OVERHEAD)
    assert state.next_send_ps == 6_000_000


def test_lateness_is_made_up_for_up_to_the_burst():
    worker = new({"next_send_ps": 1000}, pace_ps=500, burst_ps=3000)
    state, config = worker.state, worker.config
    worker_state.take_pace(state, config, 2, 300)  # 1 ns late
    assert state.next_send_ps == 1500
    worker_state.take_pace(state, config, 10, 300)  # 8.5 ns late, of which 3 count
    assert state.next_send_ps == 7500
