"""Window positions: the index of a system whose aggregator belongs to a place in the window.

Fragments are numbered in the one order in which every worker sends them: tensors from the last to
the first, as backward makes them ready, fragment by fragment. Fragment number n, counted through
all iterations, has window position n modulo the window. With the window rule `positions` a worker
sends n only when it has the results of everything up to n minus the window. So at any time a
position has one fragment in the whole job, and what the server says of the position with that
fragment's result holds, on every worker, for the next.

With the window rule `in_flight` a worker may be further ahead. A fragment has the same position as
before, and several of one position may be in flight: the later ones find the aggregator taken and
go to the server. Which results a worker has when it sends n now differs among workers, so a new
index cannot hold from the position's next fragment on: the workers would look for different
aggregators, and the parts of a sum would never meet. It holds from the next iteration on, which a
worker begins with all results of this one. A position gets at most one new index in an iteration,
so the order in which results arrive does not matter.

`index` is what it says: the index of each position. It starts as `hash` (each position anywhere)
or `consecutive` (side by side, each job from a place of its own).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols.esa import MODES, index_of, start_of
from testbed.protocols.sizes import sending_order


class Positions(NamedTuple):
    """F fragments per iteration, a window of N fragments."""

    order: np.ndarray  # int32[F], fragments in the order in which they are sent
    place: np.ndarray  # int32[F], the reverse
    index: np.ndarray  # type: ignore[assignment]  # int64[N]
    next_index: np.ndarray  # int64[N], from the next iteration on; int64[0] with rule `positions`


def new_positions(
    first: np.ndarray,
    window: int,
    mode: str,
    aggregators: int,
    salt: int,
    rule: str = "positions",
    whole_pool: int = 0,
) -> Positions:
    """`first`: first fragment of each tensor and their number, int64[T + 1]; `mode`: an index mode
    of esa.py; `aggregators`: the number of indices; `salt`: of the job (esa.salt_of); `rule`: of
    the window, "positions" or "in_flight"; `whole_pool`: see esa.start_of."""
    order = sending_order(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size, dtype=np.int32)
    start = start_of(MODES[mode], salt, aggregators, whole_pool)
    indices = [index_of(MODES[mode], aggregators, start, place) for place in range(window)]
    index = np.array(indices, np.int64)
    if rule == "positions":
        return Positions(order, place, index, np.zeros(0, np.int64))
    return Positions(order, place, index, index.copy())


@njit(cache=True)
def position_of(positions, iteration, fragment):
    """Window position of fragment `fragment`, 0 .. F - 1, of an iteration."""
    return (iteration * positions.order.size + positions.place[fragment]) % positions.index.size


@njit(cache=True)
def begin(positions):
    """An iteration begins."""
    for position in range(positions.next_index.size):
        positions.index[position] = positions.next_index[position]


@njit(cache=True)
def announced(positions, position):
    """The index that results announce for what a position has next."""
    if positions.next_index.size > 0:
        return positions.next_index[position]
    return positions.index[position]


@njit(cache=True)
def announce(positions, position, index):
    """The server gives a position a new index, or a worker learns from a result which one it has
    from now on. A result that was sent before the change names the old index and changes nothing
    where indices hold for an iteration."""
    if positions.next_index.size == 0:
        positions.index[position] = index
    elif index != positions.index[position]:
        positions.next_index[position] = index
