"""Results that a worker keeps because its program's values cannot be made again.

Where a switch sends results itself, the server's copy of one may get lost, and then another
worker's. The server asks for the fragment again, but a program may have changed the values that it
gave, and it has taken the result. So the worker keeps the results that a switch has sent it, of
this round and the one before, and answers with the sum of all workers.

No worker can lack a result of an older round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols import wire


class KeptResults(NamedTuple):
    """Fragment f of round i is row (i & 1) * F + f. Empty where nothing is kept."""

    iteration: np.ndarray  # int32[2F], of the row's result; -1: none
    packets: np.ndarray  # uint32[2F, words], as they came, without their headers,
    flags: np.ndarray  # uint16[2F], of which one says what their values are


def no_results() -> KeptResults:
    return new_kept_results(0, 0)


def new_kept_results(fragments: int, words: int) -> KeptResults:
    """Room for two rounds of so many fragments with so many words behind the header."""
    return KeptResults(
        np.full(2 * fragments, -1, np.int32),
        np.zeros((2 * fragments, words), np.uint32),
        np.zeros(2 * fragments, np.uint16),
    )


@njit(cache=True)
def _row_of(kept, iteration, fragment):
    return (iteration & 1) * (kept.iteration.size // 2) + fragment


@njit(cache=True)
def keep(kept, iteration, fragment, packet):
    """Keep a result if a switch has sent it."""
    if kept.iteration.size == 0 or wire.sender(packet) == wire.SERVER:
        return
    row = _row_of(kept, iteration, fragment)
    kept.iteration[row] = iteration
    kept.flags[row] = np.uint16(wire.flags(packet) & wire.INTEGERS)
    for i in range(kept.packets.shape[1]):
        kept.packets[row, i] = packet[wire.HEADER_WORDS + i]


@njit(cache=True)
def has(kept, iteration, fragment):
    """True if a fragment's result is here."""
    if kept.iteration.size == 0 or iteration < 0:
        return False
    return kept.iteration[_row_of(kept, iteration, fragment)] == iteration


@njit(cache=True)
def write(kept, iteration, fragment, packet):
    """Write a result behind a packet's header, which says what its values are."""
    row = _row_of(kept, iteration, fragment)
    wire.set_word(packet, 0, wire.word(packet, 0) | np.int64(kept.flags[row]))
    for i in range(kept.packets.shape[1]):
        packet[wire.HEADER_WORDS + i] = kept.packets[row, i]
