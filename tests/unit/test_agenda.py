"""The agenda names the earliest source, and of equal ones the first, whatever has changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from testbed.simulate import event_queue as ag

SOURCES = 11
TIMES = some.one_of(some.integers(0, 5), some.just(ag.NEVER))


@given(some.lists(some.tuples(some.integers(0, SOURCES - 1), TIMES), max_size=60))
def test_the_earliest_wins(changes):
    agenda = ag.new_agenda(SOURCES)
    expected = [ag.NEVER] * SOURCES
    for source, time in changes:
        ag.put(agenda, source, time)
        expected[source] = time
        assert ag.first(agenda) == expected.index(min(expected))


def test_one_source():
    agenda = ag.new_agenda(1)
    ag.put(agenda, 0, 7)
    assert ag.first(agenda) == 0
    assert agenda.time[0] == 7
