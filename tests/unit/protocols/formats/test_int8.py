"""Two sums in a word: the arithmetic of p4/int8.p4 in whole numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols.formats import int8

MOST = int8.MOST_WORKERS
PARTS = st.lists(
    st.tuples(st.integers(-127, 127), st.integers(-127, 127)), min_size=1, max_size=MOST
)


@given(PARTS)
def test_words_add_both_sums_and_give_them_back(parts):
    first, second = np.array(parts, np.int32).T
    total = int8.packed(first, second).sum(dtype=np.uint32)
    found = int8.taken_apart(np.array([total], np.uint32))
    assert [int(each[0]) for each in found] == [first.sum(), second.sum()]


def test_as_many_workers_fit_as_are_allowed_and_no_more():
    """At the edge in all directions."""
    for workers, right in ((MOST, True), (MOST + 1, False)):
        ends = np.array([[a, b] for a in (-127, 127) for b in (-127, 127)], np.int32).T
        total = int8.packed(*ends) * np.uint32(workers)
        found = np.stack(int8.taken_apart(total))
        assert np.array_equal(found, ends * workers) == right
