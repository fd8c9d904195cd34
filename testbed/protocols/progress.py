"""Progress of each worker, as far as a server can see it, and the fragments to pull.

Workers send a tensor's fragments in order, and paths keep the order. So when a worker's packet of a
later fragment has come, its contributions to the earlier fragments have passed the switches, and
those that go to the server have arrived. When this is true for all workers, an incomplete earlier
fragment cannot be completed by waiting: its missing part is in a switch, in an aggregator that can
never fill. The server *pulls* it at once and does not need to guess how long to wait. Only the last
fragments of a tensor and lost packets need that guess (server_losses.delay_ns).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.records import new_record, record

from testbed.protocols import wire

# Progress.state
STATE = record(
    "head",  # of the queue: fragments taken out in this iteration
    "tail",  # fragments put in
)


class Progress(NamedTuple):
    """Progress in one iteration; T tensors, F fragments, W workers. Empty (T = 0) where no switch
    holds anything."""

    state: np.record  # STATE
    first: np.ndarray  # int64[T + 1]
    tensor: np.ndarray  # int16[F]
    reached: np.ndarray  # int32[T, W], the worker has sent the tensor's fragments before it
    reached_by_all: np.ndarray  # int32[T], the minimum of a tensor's `reached`
    pulls: np.ndarray  # int32[F], a queue


def new_progress(first: np.ndarray, workers: int) -> Progress:
    """`first`: first fragment of each tensor and their number, int64[T + 1]."""
    tensors, fragments = len(first) - 1, int(first[-1])
    return Progress(
        state=new_record(STATE),
        first=first.astype(np.int64),
        tensor=np.repeat(np.arange(tensors, dtype=np.int16), np.diff(first)),
        reached=np.zeros((tensors, workers), np.int32),
        reached_by_all=np.zeros(tensors, np.int32),
        pulls=np.zeros(fragments, np.int32),
    )


def no_progress() -> Progress:
    return new_progress(np.zeros(1, np.int64), 0)


@njit(cache=True)
def begin(progress):
    """A new iteration."""
    state = progress.state
    state.head = 0
    state.tail = 0
    for tensor in range(progress.reached_by_all.size):
        progress.reached_by_all[tensor] = progress.first[tensor]
        for worker in range(progress.reached.shape[1]):
            progress.reached[tensor, worker] = progress.first[tensor]


@njit(cache=True)
def note(progress, fragment, row, words):
    """Take notice of a gradient packet of this iteration that was not sent again: `row` with a
    bitmap of `words` words. Returns (from, to): what all workers have sent by now, and had not
    before."""
    tensor = progress.tensor[fragment]
    before = progress.reached_by_all[tensor]
    workers = progress.reached.shape[1]
    held_up = False
    for worker in range(workers):
        bits = wire.swap(row[wire.HEADER_WORDS + words - 1 - worker // 32])
        if (bits >> np.uint32(worker % 32)) & np.uint32(1) and progress.reached[
            tensor, worker
        ] <= fragment:
            held_up |= progress.reached[tensor, worker] == before
            progress.reached[tensor, worker] = fragment + 1
    if not held_up:
        return before, before
    lowest = progress.reached[tensor, 0]
    for worker in range(1, workers):
        lowest = min(lowest, progress.reached[tensor, worker])
    progress.reached_by_all[tensor] = lowest
    return before, lowest


@njit(cache=True)
def put(progress, fragment):
    """Have a fragment pulled. `note` names each once in an iteration, so the queue has room."""
    progress.pulls[progress.state.tail] = fragment
    progress.state.tail += 1
