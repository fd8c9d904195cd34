"""Blocks of mx8 in host code against numpy on the numbers, and in packets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.number_formats import BLOCKS, FLOAT32_EXACT
from testbed.protocols import values, wire
from testbed.protocols.formats import by_number, float32_exact, mx8
from tests.support.floats import KINDS, hard_pairs

pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid):RuntimeWarning")
BASE, VALUES = 7, 64
EDGES = (0x3F7FFFFF, 0x3FFEFFFF, 0x3FFF0000, 0xBFFF0000, 0x7F7FFFFF, 0x007F8000, 0x00008000, 1)


@st.composite
def blocks(draw: st.DrawFn, count: int = VALUES) -> np.ndarray:
    """Words whose exponents are near each other, hard ones, or at an edge."""
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from((*KINDS, "near", "edge")))
    if kind in KINDS:
        return hard_pairs(random, kind, count)[0]
    exponent = random.integers(0, 240) if kind == "near" else random.choice((0, 1, 120, 254))
    fields = np.minimum(exponent + random.integers(0, 10, count), 254)
    words = (fields << 23 | random.integers(0, 2**23, count)).astype(np.uint32)
    words[random.random(count) < 0.3] = random.choice(EDGES)
    return words | random.integers(0, 2, count).astype(np.uint32) << np.uint32(31)


@given(blocks())
def test_rounded_blocks_are_those_of_numpy_and_fit_a_packet(words):
    found = words.copy()
    mx8.round_blocks(found)
    assert found.tolist() == mx8.quantised(words).tolist()
    again = found.copy()
    mx8.round_blocks(again)
    assert again.tolist() == found.tolist()
    finite = (found >> np.uint32(23) & np.uint32(0xFF)).max() < 255
    row = np.full(BASE + VALUES, 0xDEADBEEF, np.uint32)
    wire.write_header(row, wire.RESULT, 255, 0, 3, 5, 77, 9, 2)
    row[BASE:] = found.byteswap()
    before = row.copy()
    length = int(wire.compact(row, BASE, VALUES, 0, wire.SHORT_BLOCKS))
    # 33 bytes for 32 values
    assert length == 4 * BASE + (33 * VALUES // 32 if finite else 4 * VALUES)
    whole = wire.expand(row, length, BASE, VALUES, wire.SHORT_BLOCKS)
    assert whole == 4 * (BASE + VALUES) and row.tolist() == before.tolist()


@given(blocks())
def test_what_would_lose_a_bit_stays_as_it_is(words):
    row = np.zeros(BASE + VALUES, np.uint32)
    wire.write_header(row, wire.GRADIENT, 255, 0, 3, 5, 77, 9, 2)
    row[BASE:] = words.byteswap()
    before = row.copy()
    length = int(wire.compact(row, BASE, VALUES, 0, wire.SHORT_BLOCKS))
    exact = words.tolist() == mx8.quantised(words).tolist()
    if length == 4 * (BASE + VALUES):
        assert row.tolist() == before.tolist()
    else:
        assert exact
        wire.expand(row, length, BASE, VALUES, wire.SHORT_BLOCKS)
        assert row.tolist() == before.tolist()


@given(st.integers(0, 2**31), st.integers(1, 20), st.integers(1, VALUES))
def test_generated_values_are_of_blocks_and_their_sum_is_rounded_once(seed, workers, count):
    key = values.fragment_key(seed, 1, 2)
    rows = np.zeros((workers, VALUES), np.uint32)
    for worker in range(workers):
        factor = by_number.factor(BLOCKS, seed, 1, 3, worker)
        by_number.write_generated(BLOCKS, rows[worker], 0, count, key, factor)
    rows = rows.byteswap()
    total = np.zeros((VALUES, float32_exact.WIDTH), np.int64)
    for row in rows:
        assert mx8.quantised(row).tolist() == row.tolist()
        for i in range(VALUES):
            by_number.add_wide(FLOAT32_EXACT, total[i], row[i])
    sums = np.array([by_number.read_wide(FLOAT32_EXACT, each) for each in total], np.uint32)
    factor_sum, _ = by_number.factor_sums(BLOCKS, seed, 1, 3, workers, 0)
    right = mx8.quantised(sums)
    assert by_number.wrong_blocks(right.byteswap(), 0, count, key, factor_sum) == -1
    found = by_number.expected_generated(BLOCKS, key, count - 1, factor_sum, count)
    assert np.uint32(found & 0xFFFFFFFF) == right[count - 1]
    right[count - 1] ^= np.uint32(1 << 20)
    assert by_number.wrong_blocks(right.byteswap(), 0, count, key, factor_sum) == count - 1
