"""Distance by which a worker's shares may be ahead of its pace: with a bucket that is drained
packet by packet."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.protocols.sizes import NO_NODE, fragments_of
from testbed.protocols.stripes import spread
from testbed.routing.plan import Range
from testbed.setup.plan_entries import max_lead_packets, server_stripes, worker_stripes


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


def test_a_share_without_a_fragment_has_no_stripe():
    """Of eight fragments; the third path gets none."""
    bounds = [0, Fraction(1, 4), Fraction(1, 2), Fraction(9, 16), 1]
    ranges = [Range(Fraction(a), Fraction(b)) for a, b in zip(bounds, bounds[1:], strict=False)]
    ranges[2] = Range(Fraction(1, 2), Fraction(1, 2))
    assignments = [
        SimpleNamespace(range=each, node=f"s{n}", group=n != 2, tag=n)
        for n, each in enumerate(ranges, 1)
    ]
    topology = SimpleNamespace(number=lambda name: int(name[1:]))
    found = worker_stripes(SimpleNamespace(assignments=assignments), topology, 8)
    assert (found.ends, found.nodes, found.tags) == ((2, 4, 8), (1, NO_NODE, 4), (1, 2, 4))


def test_a_server_knows_which_switch_may_hold_which_fragments():
    groups = [
        SimpleNamespace(number=1, node="s1", range=Range(Fraction(0), Fraction(1, 2))),
        SimpleNamespace(number=2, node="s2", range=Range(Fraction(1, 2), Fraction(1))),
        SimpleNamespace(number=3, node="s3", range=Range(Fraction(0), Fraction(1))),
    ]
    found = server_stripes(SimpleNamespace(groups=groups), 4, ["s1", "s2", "s3", "s4"])
    assert (found.ends, found.reached) == ((2, 4), ((1, 0, 1, 0), (0, 1, 1, 0)))
