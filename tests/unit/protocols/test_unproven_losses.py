"""How far a worker believes that a fragment without a result is lost."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.records import new_record

from testbed.protocols import unproven_losses, worker_state

RETRY = 100  # before a round trip is known, four of the shortest timeouts


class Host(NamedTuple):
    config: np.record
    state: np.record


def new(window: int = 100, **config: int) -> Host:
    shortest = {"min_timeout_ns": RETRY // 4, "max_timeout_ns": 10 * RETRY}
    return Host(
        config=new_record(worker_state.CONFIG, window=window, **shortest, **config),
        state=new_record(worker_state.STATE),
    )


def taken(host: Any, now: int, asked: int = 200) -> int:
    """How many of so many guesses are allowed at this time."""
    return sum(unproven_losses.take(host, now) for _ in range(asked))


def test_without_a_loss_there_is_one_at_a_time_and_the_time_to_the_next_doubles():
    host = new()
    now, waits = 0, []
    for _ in range(9):
        assert taken(host, now) == 1
        following = int(unproven_losses.not_before(host))
        waits.append(following - now)
        assert taken(host, following - 1) == 0
        now = following
    assert waits == [RETRY << doubts for doubts in (0, 1, 2, 3, 4, 4, 4, 4, 4)]


def test_a_loss_pays_for_some_windows():
    host = new(window=100)
    for _ in range(3):
        assert taken(host, int(unproven_losses.not_before(host))) == 1
    now = int(host.state.guess_ns) - 1
    unproven_losses.prove(host)
    unproven_losses.prove(host)
    assert unproven_losses.are_believed(host) and unproven_losses.not_before(host) == 0
    assert taken(host, now, 1000) == 400 and not unproven_losses.are_believed(host)
    # Then it is one at a time again, from the shortest time on.
    now = int(unproven_losses.not_before(host))
    assert taken(host, now) == 1 and unproven_losses.not_before(host) == now + RETRY


def test_a_fixed_timeout_is_believed():
    host = new(timeout_ns=RETRY)
    assert taken(host, 0, 200) == 200
    assert unproven_losses.are_believed(host) and unproven_losses.not_before(host) == 0


def test_results_that_come_after_a_silence_waited_for_somebodys_timer():
    host = new()
    worker_state.measure_round_trip(host.state, 1000)
    patience = int(worker_state.patience_ns(host))
    unproven_losses.prove(host)
    assert unproven_losses.explain(host, patience + 1)  # nothing before it
    assert not unproven_losses.explain(host, 2 * patience + 1)
    assert unproven_losses.explain(host, 3 * patience + 2)
    assert not unproven_losses.explain(host, 3 * patience + 2)


def test_without_a_loss_a_silence_is_a_slower_worker():
    host = new()
    worker_state.measure_round_trip(host.state, 1000)
    assert not unproven_losses.explain(host, 1000 * RETRY)
    unproven_losses.prove(host)
    assert not unproven_losses.explain(host, 1000 * RETRY + 1)  # the silence before it is over
