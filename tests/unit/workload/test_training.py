"""Times of compute steps: their variation, within its bounds and repeatable, and slow-downs."""

from __future__ import annotations

from testbed.protocols import lag, send_scoreboard
from testbed.protocols.host_spec import Compute, Tensor
from testbed.workload import training
from testbed.workload.training import varied
from tests.support.host_specs import host_spec

MS = 1_000_000

HOUR = 3600 * 10**9
COMPUTE = Compute()


def test_no_share_no_change():
    assert varied(12345, 7, 1, 0) == 12345


def test_durations_stay_within_their_share():
    for duration in (1, 999, 10**6, HOUR // 2):
        for share in (1, 200_000, 990_000):
            found = [varied(duration, 5, number, share) for number in range(200)]
            most = duration * share // 1_000_000
            assert min(found) >= duration - most
            assert max(found) <= duration + most
            if most > 100:
                assert len(set(found)) > 100
                assert abs(sum(found) / 200 - duration) < most / 5


def test_streams_and_draws_differ():
    draws = {varied(10**9, stream, number, 10**5) for stream in range(20) for number in range(20)}
    assert len(draws) > 395


def test_compute_steps_that_begin_in_the_time_take_longer():
    """Two layers of 10 and 20 ms forward, 30 and 40 ms backward; slow by 1.5 from 10 to 70 ms."""
    tensors = Tensor("a", 4, 10 * MS, 30 * MS), Tensor("b", 4, 20 * MS, 40 * MS)
    slow = Compute(slow=((10 * MS, 70 * MS, 1500),))
    t = training.of_spec(host_spec({"tensors": tensors}, compute=slow), lag.new_lag())
    b = send_scoreboard.new_scoreboard([4, 4], 4, 1, send_scoreboard.FRONT, 8)
    assert training.advance(t, b, 200 * MS) == 0  # forward is over, the exchange begins
    send_scoreboard.begin(b, 0)
    assert training.advance(t, b, 200 * MS) == -1
    # Forward 0..10 and, slow, 10..40; backward slow 40..100, then at its own speed 100..130.
    assert b.ready_ns.tolist() == [[130 * MS, 100 * MS]]
    assert t.compute_end_ns.tolist() == [130 * MS]


def run(tensors: tuple[Tensor, ...], aggregates_ns: list[list[int]], compute: Compute = COMPUTE):
    """A training loop whose aggregate of each layer arrives at these times, in every iteration."""
    job = {"tensors": tensors, "iterations": len(aggregates_ns)}
    t = training.of_spec(host_spec(job, compute=compute), lag.new_lag())
    sizes = [tensor.values for tensor in tensors]
    b = send_scoreboard.new_scoreboard(sizes, 4, len(aggregates_ns), send_scoreboard.FRONT, 8)
    for iteration, arrivals in enumerate(aggregates_ns):
        assert training.advance(t, b, HOUR) == iteration
        send_scoreboard.begin(b, iteration)
        assert training.advance(t, b, HOUR) == -1
        b.done_ns[iteration] = arrivals
    return t


def test_weights_are_updated_before_the_next_forward_step():
    """Two layers of 10 and 20 ms forward, 30 and 40 ms backward, 5 and 7 ms of updates. Iteration 0
    takes 100 ms; its aggregates arrive at 110 and 150 ms."""
    tensors = (
        Tensor("a", 4, 10 * MS, 30 * MS, update_ns=5 * MS),
        Tensor("b", 4, 20 * MS, 40 * MS, update_ns=7 * MS),
    )
    t = run(tensors, [[110 * MS, 150 * MS], [300 * MS, 300 * MS]])
    assert t.forward_start_ns.tolist() == [[0, 10 * MS], [110 * MS, 150 * MS]]
    assert t.forward_end_ns.tolist() == [[10 * MS, 30 * MS], [125 * MS, 177 * MS]]
    assert t.compute_end_ns.tolist() == [100 * MS, 247 * MS]


def test_updates_are_as_slow_as_the_worker():
    """A step that begins from 110 ms on takes twice as long, update and forward alike."""
    tensors = (Tensor("a", 4, 10 * MS, 30 * MS, update_ns=5 * MS),)
    slow = Compute(slow=((100 * MS, 120 * MS, 2000),))
    t = run(tensors, [[110 * MS], [300 * MS]], slow)
    assert t.forward_end_ns.tolist() == [[10 * MS], [140 * MS]]
    spread = Compute(speed_spread=500_000)
    t = run(tensors, [[110 * MS], [300 * MS]], spread)
    (first,), (second,) = (t.forward_end_ns - t.forward_start_ns).tolist()
    assert first != 10 * MS
    assert abs(second - 1.5 * first) <= 1
