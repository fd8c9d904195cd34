"""Fields that are written into a packet's row, and read from one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocols import wire

BASE, VALUES = 7, 4  # words


def row_of(kind: int, *numbers: int) -> np.ndarray:
    row = np.full(BASE + VALUES, 0xDEADBEEF, np.uint32)
    wire.write_header(row, kind, 255, wire.RESEND, 3, 5, 77, 9, 2)
    row[BASE:] = np.array(numbers, np.int32).view(np.uint32).byteswap()
    return row


@pytest.mark.parametrize("kind", [wire.GRADIENT, wire.RESULT, wire.RESULT_ONE])
def test_zeros_go_without_and_come_back(kind):
    row = row_of(kind, 0, 0, 0, 0)
    before = row.copy()
    assert wire.compact(row, BASE, VALUES, 1, 0) == 4 * BASE
    assert wire.kind(row) == kind + wire.WITHOUT_VALUES
    assert (wire.flags(row), wire.job(row), wire.fragment(row)) == (wire.RESEND, 3, 77)
    row[BASE:] = 0x12345678  # of the packet that was in this row before
    assert wire.expand(row, 4 * BASE, BASE, VALUES, wire.SHORT_INTEGERS) == 4 * (BASE + VALUES)
    np.testing.assert_array_equal(row, before)


@pytest.mark.parametrize("place", range(VALUES))
def test_a_packet_with_any_value_stays_as_it_is(place):
    numbers = [0] * VALUES
    numbers[place] = 1 << place
    row = row_of(wire.GRADIENT, *numbers)
    before = row.copy()
    assert wire.compact(row, BASE, VALUES, 1, 0) == 4 * (BASE + VALUES)
    assert wire.expand(row, 4 * (BASE + VALUES), BASE, VALUES, wire.SHORT_INTEGERS) == 4 * (
        BASE + VALUES
    )
    np.testing.assert_array_equal(row, before)


FITTING = [(0, 1, -1, 2), (32767, -32768, 0, 5), (-32768, -1, 32767, 1)]
WIDE = [(32768, 0, 0, 0), (0, -32769, 0, 0), (1, 2, 3, -(2**31)), (1, 2, 2**31 - 1, 4)]


@given(st.lists(st.integers(-130, 130), min_size=VALUES, max_size=VALUES))
def test_values_that_fit_go_in_8_bits_and_come_back(numbers):
    row = row_of(wire.RESULT, *numbers)
    before = row.copy()
    length = int(wire.compact(row, BASE, VALUES, 0, wire.SHORT_BYTES))
    fits = min(numbers) >= -128 and max(numbers) <= 127
    assert length == 4 * BASE + (1 if fits else 4) * VALUES
    if fits:
        found = np.frombuffer(row.tobytes()[4 * BASE : length], np.int8)
        np.testing.assert_array_equal(found, numbers)
    assert wire.expand(row, length, BASE, VALUES, wire.SHORT_BYTES) == 4 * (BASE + VALUES)
    np.testing.assert_array_equal(row, before)


@pytest.mark.parametrize("numbers", FITTING)
def test_values_that_fit_go_in_16_bits_and_come_back(numbers):
    row = row_of(wire.RESULT, *numbers)
    before = row.copy()
    length = 4 * BASE + 2 * VALUES
    assert wire.compact(row, BASE, VALUES, 1, 1) == length
    assert wire.flags(row) == wire.RESEND | wire.SHORT and wire.kind(row) == wire.RESULT
    np.testing.assert_array_equal(np.frombuffer(row.tobytes()[4 * BASE : length], ">i2"), numbers)
    assert wire.expand(row, length, BASE, VALUES, wire.SHORT_INTEGERS) == 4 * (BASE + VALUES)
    np.testing.assert_array_equal(row, before)


@pytest.mark.parametrize("numbers", WIDE)
def test_values_that_do_not_fit_go_in_32_bits(numbers):
    row = row_of(wire.GRADIENT, *numbers)
    before = row.copy()
    assert wire.compact(row, BASE, VALUES, 1, 1) == 4 * (BASE + VALUES)
    np.testing.assert_array_equal(row, before)


def test_floating_point_numbers_are_not_taken_for_small_ones():
    row = row_of(wire.GRADIENT, 1, 2, 3, 4)
    wire.set_word(row, 0, wire.word(row, 0) | wire.FLOAT)
    assert wire.compact(row, BASE, VALUES, 1, 1) == 4 * (BASE + VALUES)


@pytest.mark.parametrize(
    "kind, length",
    [
        (wire.GRADIENT_ZEROS, 4 * (BASE + VALUES)),
        (wire.RESULT_ZEROS, 4 * BASE + 1),
        (wire.RESULT_ONE_ZEROS + 1, 4 * BASE),
        (wire.COLLIDED, 4 * BASE),
        (wire.ASK, 4 * BASE),
    ],
)
def test_nothing_else_becomes_a_packet_with_values(kind, length):
    row = row_of(kind, 1, 2, 3, 4)
    before = row.copy()
    assert wire.expand(row, length, BASE, VALUES, wire.SHORT_INTEGERS) == length
    np.testing.assert_array_equal(row, before)


def test_exponents_are_signed_bytes_beside_the_sender():
    row = row_of(wire.GRADIENT, 1, 2, 3, 4)
    assert (wire.exponent(row), wire.next_exponent(row)) == (0, 0)
    for exponent, following in ((-128, 127), (127, -128), (-1, 0), (0, -1), (5, -6), (1, 2)):
        wire.set_exponents(row, exponent, following)
        assert (wire.exponent(row), wire.next_exponent(row)) == (exponent, following)
        assert wire.sender(row) == 2 and wire.extra(row) == 0
        assert row.tobytes()[22:24] == bytes([exponent & 0xFF, following & 0xFF])
