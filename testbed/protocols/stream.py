"""The one order in which every worker of a job sends its gradients: the stream of chunks.

A chunk is what one packet carries. Tensors follow each other as backward makes them ready, from the
last to the first, and a tensor's fragments in their own order. With C chunks per iteration, chunk c
of iteration i has the number i * C + c, so numbers only ever grow, and all workers agree on the
slot and the set of a chunk without a word:

    slot = number % slots,   set = number // slots % 2

Block floating point needs to know a fragment's exponent before the fragment is sent. So fragment j
of a tensor has its exponent announced by the tensor's chunk j, one window ahead, and a tensor
begins with as many *opening* chunks as that takes: min(slots, fragments), without values.
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
