"""Distance by which a worker's shares may be ahead of its pace: with a bucket that is drained
packet by packet."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.protocols.sizes import fragments_of
from testbed.protocols.stripes import spread
from testbed.routing.plan import Range
from testbed.setup.plan_entries import max_lead_packets


def holds(first: np.ndarray, share: Range, burst: int) -> bool:
    """True if the share keeps to a bucket of `burst` packets that fills at the share's pace."""
    fragments = int(first[-1])
    ranks = share.fragments(fragments)
    stripes = np.broadcast_to(spread([ranks.start, ranks.stop, fragments]), fragments)
    left = Fraction(burst)
    for tensor in reversed(range(first.size - 1)):
        for fragment in range(first[tensor], first[tensor + 1]):
            left = min(left + share.share, Fraction(burst))
            if stripes[fragment] == 1:
                left -= 1
            if left < 0:
                return False
    return True


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=4),
    st.fractions(0, 1, max_denominator=30),
    st.fractions(0, 1, max_denominator=30),
)
def test_a_burst_is_enough_and_no_larger_than_by_one(sizes, one, other):
    first = fragments_of(sizes, 1)
    share = Range(min(one, other), max(one, other))
    ahead = max_lead_packets(first, share)
    assert holds(first, share, ahead + 1)
    if ahead > 1:
        assert not holds(first, share, ahead - 1)


def test_a_single_share_is_never_ahead():
    assert max_lead_packets(fragments_of([1300], 1), Range()) == 0


def test_two_ninths_of_the_worked_examples_fragments():
    assert max_lead_packets(fragments_of([1300], 1), Range(Fraction(0), Fraction(2, 9))) == 6
