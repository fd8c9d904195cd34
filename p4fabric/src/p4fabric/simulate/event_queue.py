"""The queue of events: the earliest of many times, of which each changes often.

A tournament over the sources of events (hosts, links between switches, switches): every inner node
of a binary tree knows the earliest source below it. Changing a time replays one path to the root,
and less where the winner stays the same, so the cost grows with the logarithm of the number of
nodes. Of equal times the source with the smaller number wins, on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from p4fabric.simulate.jit import njit

NEVER = (1 << 62) - 1  # as the protocols have it


class EventQueue(NamedTuple):
    time: np.ndarray  # int64[L], ns; NEVER behind the last source
    winner: np.ndarray  # int32[2L], of each node; 1 is the root, L + i the leaf of source i


def new_event_queue(sources: int) -> EventQueue:
    """All times are NEVER."""
    leaves = 1
    while leaves < sources:
        leaves *= 2
    winner = np.zeros(2 * leaves, np.int32)
    winner[leaves:] = np.arange(leaves)
    for node in reversed(range(1, leaves)):
        winner[node] = winner[2 * node]
    return EventQueue(np.full(leaves, NEVER, np.int64), winner)


@njit(cache=True)
def put(queue, source, time):
    """Give a source its next time."""
    times, winner = queue
    times[source] = time
    node = (times.size + source) >> 1
    while node > 0:
        left, right = winner[2 * node], winner[2 * node + 1]
        best = left if times[left] <= times[right] else right
        if winner[node] == best and best != source:
            return
        winner[node] = best
        node >>= 1


@njit(cache=True)
def first(queue):
    """The source whose time is the earliest."""
    return np.int64(queue.winner[1])
