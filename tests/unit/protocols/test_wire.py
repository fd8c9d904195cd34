"""What is written into a packet's row, and read from one."""

from __future__ import annotations

import numpy as np
import pytest

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
    assert wire.omit_zeros(row, BASE, VALUES) == 4 * BASE
    assert wire.kind(row) == kind + wire.WITHOUT_VALUES
    assert (wire.flags(row), wire.job(row), wire.fragment(row)) == (wire.RESEND, 3, 77)
    row[BASE:] = 0x12345678  # of the packet that was in this row before
    assert wire.restore_zeros(row, 4 * BASE, BASE, VALUES) == 4 * (BASE + VALUES)
    np.testing.assert_array_equal(row, before)


@pytest.mark.parametrize("place", range(VALUES))
def test_a_packet_with_any_value_stays_as_it_is(place):
    numbers = [0] * VALUES
    numbers[place] = 1 << place
    row = row_of(wire.GRADIENT, *numbers)
    before = row.copy()
    assert wire.omit_zeros(row, BASE, VALUES) == 4 * (BASE + VALUES)
    assert wire.restore_zeros(row, 4 * (BASE + VALUES), BASE, VALUES) == 4 * (BASE + VALUES)
    np.testing.assert_array_equal(row, before)


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
    assert wire.restore_zeros(row, length, BASE, VALUES) == length
    np.testing.assert_array_equal(row, before)
