"""The stream of chunks: the common order in which all workers of a job send their gradients.

A chunk is the content of one packet. Tensors come in the order in which backward makes them ready,
from the last to the first, and a tensor's fragments in their own order. With C chunks per
iteration, chunk c of iteration i has the number i * C + c. So numbers only grow, and all workers
agree on the slot and the set of a chunk without messages:

    slot = number % slots,   set = number // slots % 2

Block floating point needs a fragment's exponent before the fragment is sent. So chunk j of a tensor
carries the exponent of fragment j, which follows one window later. A tensor begins with
min(slots, fragments) *opening* chunks, which carry exponents and no values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NOTHING = -1


class Stream(NamedTuple):
    """Of each chunk of an iteration; C chunks."""

    tensor: np.ndarray  # int16[C]
    fragment: np.ndarray  # int32[C], whose values it carries; NOTHING in an opening chunk
    announced: np.ndarray  # int32[C], whose exponent it carries; NOTHING if none


def new_stream(first: np.ndarray, slots: int, exponents: bool) -> Stream:
    """The stream of tensors whose fragments are first[t] .. first[t + 1] - 1, int64[T + 1].

    `exponents`: whether the values are floats, which need them."""
    tensors: list[np.ndarray] = []
    fragments: list[np.ndarray] = []
    announced: list[np.ndarray] = []
    for tensor in reversed(range(len(first) - 1)):
        own = np.arange(first[tensor], first[tensor + 1], dtype=np.int32)
        opening = min(slots, own.size) if exponents else 0
        blank = np.full(opening, NOTHING, np.int32)
        fragments += [blank, own]
        announced += [own, blank] if exponents else [np.full(own.size, NOTHING, np.int32)]
        tensors.append(np.full(opening + own.size, tensor, np.int16))
    return Stream(np.concatenate(tensors), np.concatenate(fragments), np.concatenate(announced))
