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
