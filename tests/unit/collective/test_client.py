"""The memory that a rank shares with its host process."""

from __future__ import annotations

import random

from testbed.collective import memory_map
from testbed.collective.client import _Arena


def test_words_that_are_given_back_can_be_taken_as_one_piece():
    arena = _Arena(64)
    places = [arena.take(16) for _ in range(4)]
    assert places == [0, 16, 32, 48] and arena.take(1) is None
    for place in (16, 48, 0, 32):  # neighbours on either side, and on both
        arena.give_back(place, 16)
    assert arena.free == [(0, 64)] and arena.take(64) == 0


def test_no_two_arrays_share_words():
    draw = random.Random(3)
    arena, taken = _Arena(4096), []
    for _ in range(2000):
        if taken and draw.random() < 0.5:
            arena.give_back(*taken.pop(draw.randrange(len(taken))))
        elif (place := arena.take(words := draw.randrange(1, 300))) is not None:
            taken.append((place, words))
        ends = sorted((place, place - -words // 16 * 16) for place, words in taken)
        assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:], strict=False))
    for place, words in taken:
        arena.give_back(place, words)
    assert arena.free == [(0, 4096)]


def test_a_long_failure_is_cut():
    memory = memory_map.shared(memory_map.new_memory(16))
    assert memory_map.read_failure(memory) is None
    memory_map.write_failure(memory, "é" * memory_map.TEXT_BYTES)
    said = memory_map.read_failure(memory)
    assert said == "é" * (memory_map.TEXT_BYTES // 2)
    assert not memory.words.any(), "nothing behind the text is written"
