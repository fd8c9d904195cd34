"""Gradient values: sums that tell which worker is missing, and no overflow below the invariant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.number_formats import INT32
from testbed.protocols import values as val
from testbed.protocols import wire
from testbed.protocols.formats import by_number

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def contribution(seed, job, iteration, worker, fragment, shift, count=64):
    row = np.zeros(count, np.uint32)
    key = val.fragment_key(seed, job, fragment)
    val.write_generated(row, 0, count, key, val.factor(seed, job, iteration, worker), shift)
    return row.byteswap().view(np.int32).astype(np.int64)


@given(
    seed=st.integers(0, 2**31),
    job=st.integers(0, 255),
    iteration=st.integers(0, 1000),
    workers=st.integers(1, 64),
    fragment=st.integers(0, 2**32 - 1),
)
def test_sum_over_workers_is_what_the_check_expects(seed, job, iteration, workers, fragment):
    shift = val.hash_shift(workers)
    total = sum(contribution(seed, job, iteration, w, fragment, shift) for w in range(workers))
    assert np.abs(total).max() < 2**31
    row = total.astype(np.int32).view(np.uint32).byteswap()
    key = val.fragment_key(seed, job, fragment)
    expected = by_number.factor_sums(INT32, seed, job, iteration, workers, 0)[0]
    assert val.wrong_generated(row, 0, 64, key, expected, shift) == -1
    row[17] ^= 0x100
    assert val.wrong_generated(row, 0, 64, key, expected, shift) == 17


def test_a_swapped_worker_shows_because_factors_differ():
    factors = {int(val.factor(1, 0, i, w)) for i in range(20) for w in range(8)}
    assert factors == {1, 3, 5, 7, 9, 11, 13, 15}


def test_shift_is_the_smallest_that_cannot_overflow():
    for workers in (1, 4, 64, 256):
        shift = val.hash_shift(workers)
        assert (2**31 >> shift) * 15 * workers < 2**31
        assert shift == 1 or (2**31 >> (shift - 1)) * 15 * workers >= 2**31
    with pytest.raises(ValueError):
        val.hash_shift(0)


def by_hand(x: int) -> int:
    """Wellons' lowbias32, in Python's integers."""
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    return x ^ x >> 16


@given(st.integers(0, 2**32 - 1))
def test_mixing_is_as_published(x):
    assert int(val.mix(np.uint32(x))) == by_hand(x)


@given(st.integers(-(2**63), 2**62), st.integers(-(2**31), 2**62))
def test_two_numbers_are_mixed_one_after_the_other(a, b):
    first = by_hand(a & 0xFFFFFFFF)
    assert int(val.mix2(a, b)) == by_hand((first + 0x9E3779B9 + b) & 0xFFFFFFFF)


def test_values_are_the_same_in_every_version():
    """The same seed gives the same gradients, aggregators and draws."""
    places = ((1, 0, 0, 0), (1, 0, 0, 1), (1, 0, 1, 0), (1, 1, 0, 0), (2, 0, 0, 0))
    assert [int(val.factor(*place)) for place in places] == [9, 7, 13, 3, 15]
    assert by_number.factor_sums(INT32, 1, 0, 0, 3, 0)[0] == 27
    keys = [int(val.fragment_key(*place)) for place in ((1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0))]
    assert keys == [3048450337, 1146065788, 2546099218, 2014273524]
    hashes = [int(val.position_hash(np.uint32(5), position, 0)) for position in (0, 1, 63)]
    assert hashes == [1548080446, 1498390088, -929251062]
    assert int(val.position_hash(np.uint32(5), 1, 8)) == 1498390088 >> 8


def test_recorded_values_are_written_and_compared_word_by_word():
    numbers = np.array([1, -2, 2**31 - 1, -(2**31)], np.int32)
    row = np.full(8, 7, np.uint32)
    val.write_recorded(row, 3, numbers)
    assert row.tolist() == [7, 7, 7, *numbers.view(np.uint32).byteswap().tolist(), 7]
    assert val.wrong_recorded(row, 3, numbers) == -1
    for place in range(4):
        other = row.copy()
        other[3 + place] ^= 1
        assert val.wrong_recorded(other, 3, numbers) == place
        other[6] ^= 1
        assert val.wrong_recorded(other, 3, numbers) in (place, -1)


def test_zeros_fill_up_and_are_looked_for_between_two_places():
    row = np.full(8, 7, np.uint32)
    val.write_zeros(row, 2, 6)
    assert row.tolist() == [7, 7, 0, 0, 0, 0, 7, 7]
    assert val.first_nonzero(row, 2, 6) == -1
    assert val.first_nonzero(row, 2, 7) == 4
    assert val.first_nonzero(row, 1, 6) == 0


def test_the_first_wrong_value_is_named():
    key = val.fragment_key(1, 2, 3)
    row = np.full(12, 7, np.uint32)
    val.write_generated(row, 2, 8, key, 5, 4)
    assert row[[0, 1, 10, 11]].tolist() == [7] * 4
    assert val.wrong_generated(row, 2, 8, key, 5, 4) == -1
    assert val.wrong_generated(row, 2, 9, key, 5, 4) == 8
    assert val.wrong_generated(np.zeros(12, np.uint32), 2, 8, key, 5, 4) == 0
    part = [int(val.position_hash(key, place, 4)) // 5 for place in range(8)]
    fraction = np.array([0, 0, *part], np.int32).view(np.uint32).byteswap()
    assert val.wrong_generated(fraction, 2, 8, key, 5, 4) == 0
    row[7] ^= 1
    row[4] ^= 1 << 31
    assert val.wrong_generated(row, 2, 8, key, 5, 4) == 2


def test_fragments_have_values_of_their_own():
    rows = {contribution(1, 0, 0, 0, f, 8).tobytes() for f in range(200)}
    assert len(rows) == 200
    assert abs(contribution(1, 0, 0, 0, 5, 8).mean()) < 2**22  # of values up to 2^23 * 15


def test_swap_and_words():
    row = np.zeros(8, np.uint32)
    wire.write_header(row, wire.GRADIENT, 7, wire.RESEND, 513, 9, 2**32 - 1, 70000, 3)
    assert row.tobytes()[:8] == bytes([0x11, 7, 0, 4, 2, 1, 0, 9])
    assert (wire.version(row), wire.kind(row), wire.flags(row)) == (1, wire.GRADIENT, wire.RESEND)
    assert (wire.job(row), wire.node(row), wire.fragment(row)) == (513, 9, 2**32 - 1)
    assert (wire.index(row), wire.sender(row)) == (70000, 3)


@pytest.mark.parametrize(("words", "worker"), [(1, 0), (1, 31), (2, 32), (8, 255)])
def test_bitmap_names_one_worker(words, worker):
    row = np.full(wire.HEADER_WORDS + words, 0xFFFFFFFF, np.uint32)
    wire.set_worker(row, words, worker)
    assert int.from_bytes(row[wire.HEADER_WORDS :].tobytes(), "big") == 1 << worker
