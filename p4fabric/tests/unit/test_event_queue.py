"""The queue names the earliest source, and of equal ones the first, whatever has changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some
from p4fabric.simulate import event_queue

SOURCES = 11
TIMES = some.one_of(some.integers(0, 5), some.just(event_queue.NEVER))


@given(some.lists(some.tuples(some.integers(0, SOURCES - 1), TIMES), max_size=60))
def test_the_earliest_wins(changes):
    queue = event_queue.new_event_queue(SOURCES)
    expected = [event_queue.NEVER] * SOURCES
    for source, time in changes:
        event_queue.put(queue, source, time)
        expected[source] = time
        assert event_queue.first(queue) == expected.index(min(expected))


def test_one_source():
    queue = event_queue.new_event_queue(1)
    event_queue.put(queue, 0, 7)
    assert event_queue.first(queue) == 0
    assert queue.time[0] == 7
