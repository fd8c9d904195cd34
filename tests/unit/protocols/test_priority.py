"""ESA's priority formula, its order and its integer logarithm."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols import priority as p

MS = 1_000_000


@given(st.integers(1, 2**50))
def test_logarithm_is_within_one_step(x):
    assert abs(p.log2(x) / p.OCTAVE - math.log2(x)) <= 1.01 / p.OCTAVE


@given(
    policy=st.sampled_from(sorted(p.POLICIES.values())),
    communication=st.integers(1, 10**12),
    computation=st.integers(1, 10**12),
    left=st.integers(1, 10**5),
    layer=st.integers(0, 400),
    done=st.integers(0, 10**5),
)
def test_priorities_fit_the_wire(policy, communication, computation, left, layer, done):
    assert 1 <= p.priority_of(policy, communication, computation, left, layer, done) <= 255


def test_score_favours_communication_short_remaining_work_and_front_layers():
    base = p.priority_of(p.ESA, 20 * MS, 20 * MS, 10, 4, 3)
    assert 10 < base < 245  # in range, so that what follows can show
    assert p.priority_of(p.ESA, 35 * MS, 5 * MS, 10, 4, 3) > base
    assert p.priority_of(p.ESA, 20 * MS, 20 * MS, 2, 4, 3) > base
    assert p.priority_of(p.ESA, 20 * MS, 20 * MS, 10, 0, 3) > base


@pytest.mark.parametrize(
    ("policy", "differs"),
    [
        (p.COMMUNICATION, "ratio"),
        (p.REMAINING, "left"),
        (p.ATTAINED, "done"),
        (p.LAYER, "layer"),
        (p.CONSTANT, None),
    ],
)
def test_single_factors_see_their_factor_only(policy, differs):
    base = p.priority_of(policy, 20 * MS, 20 * MS, 10, 4, 3)
    others = {
        "ratio": p.priority_of(policy, 39 * MS, 1 * MS, 10, 4, 3),
        "left": p.priority_of(policy, 20 * MS, 20 * MS, 2, 4, 3),
        "layer": p.priority_of(policy, 20 * MS, 20 * MS, 10, 0, 3),
        "done": p.priority_of(policy, 20 * MS, 20 * MS, 10, 4, 30),
    }
    assert {name for name, value in others.items() if value != base} == ({differs} - {None})


def test_attained_service_takes_the_place_of_remaining_work():
    first = p.priority_of(p.ESA_ATTAINED, 20 * MS, 20 * MS, 1000, 4, 0)
    assert first == p.priority_of(p.ESA_ATTAINED, 20 * MS, 20 * MS, 1, 4, 0)
    assert first == p.priority_of(p.ESA, 20 * MS, 20 * MS, 1, 4, 7)
    assert first > p.priority_of(p.ESA_ATTAINED, 20 * MS, 20 * MS, 1000, 4, 100)
    assert first < p.priority_of(p.ESA_ATTAINED, 35 * MS, 5 * MS, 1000, 4, 0)
    assert first < p.priority_of(p.ESA_ATTAINED, 20 * MS, 20 * MS, 1000, 0, 0)


def test_random_priorities_use_the_range():
    drawn = [p.random_priority(1, f) for f in range(5000)]
    assert min(drawn) == 1 and max(drawn) == 255
    assert abs(sum(drawn) / len(drawn) - 128) < 5
