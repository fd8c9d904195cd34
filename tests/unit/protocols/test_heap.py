"""The heap of timers gives items in the order of their times."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols import heap


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_items_come_out_by_time(times):
    due = np.array(times, np.int64)
    items = np.zeros(due.size, np.int32)
    size = 0
    for item in range(due.size):
        size = heap.push(items, size, due, item)
    out = []
    while size:
        out.append(int(items[0]))
        size = heap.pop(items, size, due)
    assert sorted(out) == list(range(due.size))
    assert [times[i] for i in out] == sorted(times)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 50)), max_size=20),
)
def test_items_whose_time_is_brought_forward_come_out_by_the_new_time(times, hastened):
    due = np.array(times, np.int64)
    items = np.zeros(due.size, np.int32)
    size = 0
    for item in range(due.size):
        size = heap.push(items, size, due, item)
    for item, when in hastened:
        if item < due.size and when < due[item]:
            heap.decrease_due(items, size, due, item, when)
            assert due[item] == when
    out = []
    while size:
        out.append(int(items[0]))
        size = heap.pop(items, size, due)
    assert sorted(out) == list(range(due.size))
    assert [due[i] for i in out] == sorted(due)
