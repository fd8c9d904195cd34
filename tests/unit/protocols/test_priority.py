"""ESA's priority formula, its order and its integer logarithm."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols import priority as p


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


def test_random_priorities_use_the_range():
    drawn = [p.random_priority(1, 1, f) for f in range(5000)]
    assert min(drawn) == 1 and max(drawn) == 255
    assert abs(sum(drawn) / len(drawn) - 128) < 5


def by_formula(policy, communication, computation, left, layer, done):
    """The same in floating-point numbers."""
    intensity = math.log2(communication / computation)
    if policy in (p.ATTAINED, p.ESA_ATTAINED):
        left = done + 1
    work = math.log2((communication + computation) * left)
    depth = math.log2(1 + layer)
    found = {
        p.COMMUNICATION: 128 + 12 * intensity,
        p.REMAINING: 255 + 6 * (16 - work),
        p.ATTAINED: 255 + 6 * (16 - work),
        p.LAYER: 255 - 24 * depth,
        p.CONSTANT: 128,
        p.ESA: 255 + 5 * (16 + intensity - work - depth),
        p.ESA_ATTAINED: 255 + 5 * (16 + intensity - work - depth),
    }[policy]
    return min(255, max(1, found))


@given(
    policy=st.sampled_from(
        [p.COMMUNICATION, p.REMAINING, p.ATTAINED, p.LAYER, p.CONSTANT, p.ESA, p.ESA_ATTAINED]
    ),
    communication=st.integers(2**14, 2**24),
    computation=st.integers(2**14, 2**24),
    left=st.integers(1, 2**12),
    layer=st.integers(0, 300),
    done=st.integers(0, 2**12),
)
def test_priorities_follow_the_formula(policy, communication, computation, left, layer, done):
    found = p.priority_of(policy, communication, computation, left, layer, done)
    exact = by_formula(policy, communication, computation, left, layer, done)
    assert abs(found - exact) <= 1.2


@pytest.mark.parametrize(
    "policy, expected",
    [
        (p.ESA, 198),
        (p.COMMUNICATION, 152),
        (p.REMAINING, 187),
        (p.ATTAINED, 199),
        (p.LAYER, 207),
        (p.CONSTANT, 128),
        (p.ESA_ATTAINED, 208),
    ],
)
def test_powers_of_two_have_exact_priorities(policy, expected):
    """Times of 2^19 and 2^17 ns, 2^19.32 together; 2^8 iterations left, the 2^6th one; layer 3."""
    assert p.priority_of(policy, 2**19, 2**17, 2**8, 3, 2**6 - 1) == expected


def test_a_logarithm_may_be_half_an_octave():
    """The square of 2^30.5, rounded up, is 2^61 and a little more."""
    assert p.log2(1518500250) == 30 * p.OCTAVE + p.OCTAVE // 2
    assert [p.log2(2**n) for n in (0, 1, 30, 31, 50)] == [n * p.OCTAVE for n in (0, 1, 30, 31, 50)]


def test_random_priorities_are_the_same_in_every_version():
    assert [p.random_priority(1, job, f) for job, f in ((0, 0), (0, 1), (3, 0))] == [89, 181, 63]
