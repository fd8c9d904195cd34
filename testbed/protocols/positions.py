"""Window positions: the index of a system whose aggregator belongs to a place in the window.

Fragments are numbered in the one order in which every worker sends them: tensors from the last to
the first, as backward makes them ready, fragment by fragment. Fragment number n, counted through
all iterations, has window position n modulo the window. A worker sends n only when it has the
result of n minus the window. So at any time a position has one fragment in the whole job, and what
the server says of the position with that fragment's result holds, on every worker, for the next.

`index` is what it says: the index of each position. It starts as `hash` (each position anywhere)
or `consecutive` (side by side, each job from a place of its own).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols.index import MODES, index_of


class Positions(NamedTuple):
    """F fragments per iteration, a window of N fragments. Empty for systems that have none."""

    order: np.ndarray  # int32[F], fragments in the order in which they are sent
    place: np.ndarray  # int32[F], the reverse
    index: np.ndarray  # type: ignore[assignment]  # int64[N]
    gap_place: np.ndarray  # int64[N], the result of which place shows that this one got lost


def no_positions() -> Positions:
    nothing = np.zeros(0, np.int32)
    return Positions(nothing, nothing, np.zeros(0, np.int64), np.zeros(0, np.int64))


def new_positions(first: np.ndarray, window: int, mode: str, pool: int, job: int) -> Positions:
    """`first`: first fragment of each tensor and their number, int64[T + 1]; `mode`: an index mode;
    `pool`: the number of indices."""
    tensors = [np.arange(first[t], first[t + 1]) for t in reversed(range(len(first) - 1))]
    order = np.concatenate(tensors).astype(np.int32)
    place = np.empty_like(order)
    place[order] = np.arange(order.size, dtype=np.int32)
    index = [index_of(MODES[mode], pool, job, position) for position in range(window)]
    return Positions(order, place, np.array(index, np.int64), np.zeros(window, np.int64))


@njit(cache=True)
def position_of(positions, iteration, fragment):
    """Window position of fragment `fragment`, 0 .. F - 1, of an iteration."""
    return (iteration * positions.order.size + positions.place[fragment]) % positions.index.size
