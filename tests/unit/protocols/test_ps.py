"""How fragments are shared out to several servers."""

from __future__ import annotations

import numpy as np

from testbed.protocols import ps, wire


def test_a_fragment_has_one_server_in_all_iterations():
    packets = np.zeros((7, 8), np.uint32)
    wholes = [0, 1, 2, 9, 10, 11, 25]  # of iterations of 10 fragments
    for row, whole in zip(packets, wholes, strict=True):
        wire.write_header(row, wire.GRADIENT, 1, 0, 0, 0, whole, 0, 0)
    destinations = np.full(7, 9, np.int64)
    ps.shard(packets, destinations, 6, 10, 3)
    assert destinations.tolist() == [0, 1, 2, 0, 0, 1, 9]
    ps.shard(packets, destinations, 7, 10, 1)
    assert destinations.tolist() == [0] * 7
