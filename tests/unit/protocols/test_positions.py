"""Window positions and the indices that they have."""

from __future__ import annotations

import numpy as np

from testbed.protocols import positions

FIRST = np.array([0, 2, 5])  # two tensors of 2 and 3 fragments


def new(rule: str = "positions", window: int = 4, mode: str = "consecutive"):
    return positions.new_positions(FIRST, window, mode, 100, 0, rule)


def test_fragments_are_numbered_from_the_last_tensor_through_all_iterations():
    p = new()
    assert p.order.tolist() == [2, 3, 4, 0, 1]
    found = [positions.position_of(p, i, f) for i in (0, 1) for f in p.order]
    assert found == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_an_index_holds_at_once_where_a_position_has_one_fragment():
    p = new()
    old = p.index.tolist()
    positions.announce(p, 2, 77)
    assert positions.announced(p, 2) == 77 and p.index.tolist() == [*old[:2], 77, old[3]]
    positions.begin(p)
    assert p.index.tolist() == [*old[:2], 77, old[3]]


def test_an_index_holds_from_the_next_iteration_where_several_are_in_flight():
    p = new("in_flight")
    old = p.index.tolist()
    positions.announce(p, 2, 77)
    assert p.index.tolist() == old and positions.announced(p, 2) == 77
    positions.announce(p, 2, old[2])  # a result that was sent before
    assert positions.announced(p, 2) == 77 and positions.announced(p, 1) == old[1]
    positions.begin(p)
    assert p.index.tolist() == [*old[:2], 77, old[3]]


def test_a_window_of_one_has_one_index():
    p = new("in_flight", window=1)
    old = int(p.index[0])
    positions.announce(p, 0, 77)
    assert positions.announced(p, 0) == 77 and p.index[0] == old
    positions.begin(p)
    assert p.index[0] == 77
