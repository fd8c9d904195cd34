"""Times of compute steps: their variation, within its bounds and repeatable, and slow-downs."""

from __future__ import annotations

from testbed.protocols.host_spec import Compute, Tensor
from testbed.workload.graph_source import varied
from tests.support.graphs import training_loop

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
    loop = training_loop(tensors, compute=Compute(slow=((10 * MS, 70 * MS, 1500),)))
    loop.run(200 * MS)
    # Forward 0..10 and, slow, 10..40; backward slow 40..100, then at its own speed 100..130.
    assert loop.scoreboard.ready_ns.tolist() == [[130 * MS, 100 * MS]]
    assert loop.graph.compute_end_ns.tolist() == [130 * MS]


def test_the_exchange_opens_when_forward_is_over_and_ends_with_the_last_sum():
    tensors = Tensor("a", 4, 10 * MS, 30 * MS), Tensor("b", 4, 20 * MS, 40 * MS)
    loop = training_loop(tensors)
    loop.run(30 * MS - 1)
    assert loop.scoreboard.state.iteration == -1
    loop.run(30 * MS)
    assert loop.scoreboard.state.iteration == 0 and not loop.scoreboard.ready.any()
    loop.run(70 * MS)
    assert loop.scoreboard.ready.tolist() == [0, 1]
    loop.run(100 * MS)
    loop.arrive(0, 110 * MS)
    loop.run(110 * MS)
    assert loop.graph.state.iteration == 0
    loop.arrive(1, 120 * MS)
    loop.run(120 * MS)
    assert loop.graph.state.iteration == 1 and loop.graph.end_ns.tolist() == [120 * MS]


def run(tensors: tuple[Tensor, ...], aggregates_ns: list[list[int]], compute: Compute = COMPUTE):
    """The graph of a training loop whose aggregate of each layer arrives at these times, in every
    iteration."""
    loop = training_loop(tensors, len(aggregates_ns), compute)
    for iteration, arrivals in enumerate(aggregates_ns):
        loop.run(HOUR)
        assert loop.scoreboard.state.iteration == iteration
        for tensor, when in enumerate(arrivals):
            loop.arrive(tensor, when)
    return loop.graph


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
