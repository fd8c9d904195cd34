"""The training loop: when which layer computes, and when its gradient becomes ready.

Forward runs layer by layer from the front; layer l of iteration i + 1 may start when the aggregated
gradient of layer l of iteration i is here. Backward runs from the last layer to the first; a
layer's gradient is ready when its backward step is done, and is exchanged while backward goes on.

Compute steps follow each other by schedule: a step starts when the step before it was *due* to end,
or when its gradient arrived, not when the host noticed. A late host does not slow the model down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import book as bk
from testbed.protocols import lag
from testbed.protocols import status as st

NEVER = (1 << 62) - 1

FORWARD = 0
BACKWARD = 1
DRAIN = 2  # all computed; the last gradients are on their way
FINISHED = 3

# Places in Training.s
PHASE = 0
ITERATION = 1
LAYER = 2
COMPUTING = 3
FREE_NS = 4  # when the last step was due to end
END_NS = 5  # when the running step is due to end
ITERATIONS = 6
STATE = 7


class Training(NamedTuple):
    """T layers, I iterations; times in ns since the run's start, -1 for not yet."""

    s: np.ndarray  # int64[STATE]
    forward_ns: np.ndarray  # int64[T]
    backward_ns: np.ndarray  # int64[T]
    start_ns: np.ndarray  # int64[I], first forward step
    compute_end_ns: np.ndarray  # int64[I], last backward step
    end_ns: np.ndarray  # int64[I], last gradient aggregated
    slow: np.ndarray  # int64[N, 3], from, to (ns): steps that begin then take so many thousandths
    lag: np.ndarray  # int64, see protocols/lag.py


def new_training(
    forward_ns: list[int],
    backward_ns: list[int],
    iterations: int,
    start_ns: int,
    slow: list[tuple[int, int, int]],
    lags: np.ndarray,
) -> Training:
    """A loop that starts its first forward step at `start_ns`."""
    s = np.zeros(STATE, np.int64)
    s[FREE_NS] = start_ns
    s[ITERATIONS] = iterations
    return Training(
        s=s,
        forward_ns=np.asarray(forward_ns, np.int64),
        backward_ns=np.asarray(backward_ns, np.int64),
        start_ns=np.full(iterations, -1, np.int64),
        compute_end_ns=np.full(iterations, -1, np.int64),
        end_ns=np.full(iterations, -1, np.int64),
        slow=np.asarray(slow, np.int64).reshape(-1, 3),
        lag=lags,
    )


def of_spec(spec: dict, lags: np.ndarray) -> Training:
    """The loop of a worker's specification (see plan.py)."""
    return new_training(
        [tensor["forward_ns"] for tensor in spec["tensors"]],
        [tensor["backward_ns"] for tensor in spec["tensors"]],
        spec["iterations"],
        spec["start_ns"],
        spec["slow"],
        lags,
    )


@njit(cache=True)
def gradient_finished(t, iteration, now, status):
    """The last result of an iteration has arrived."""
    s = t.s
    t.end_ns[iteration] = now
    status[st.ITERATIONS] = iteration + 1
    if iteration + 1 == s[ITERATIONS]:
        s[PHASE] = FINISHED
        status[st.FINISHED] = 1


@njit(cache=True)
def _stretched(t, start, duration):
    """How long a compute step takes that begins at `start`."""
    for i in range(t.slow.shape[0]):
        if t.slow[i, 0] <= start < t.slow[i, 1]:
            return duration * t.slow[i, 2] // 1000
    return duration


@njit(cache=True)
def advance(t, b, now):
    """Run the loop up to `now`.

    Returns the iteration whose gradients begin to be exchanged, once for each: the caller opens it
    and calls again. Returns -1 when there is nothing more to do before `deadline`."""
    s = t.s
    while s[PHASE] < DRAIN:
        iteration, layer = s[ITERATION], s[LAYER]
        if s[COMPUTING] == 0:
            start = s[FREE_NS]
            duration = t.backward_ns[layer]
            if s[PHASE] == FORWARD:
                duration = t.forward_ns[layer]
                if iteration > 0:
                    arrived = b.done_ns[iteration - 1, layer]
                    if arrived < 0:
                        return -1
                    start = max(start, arrived)
                if layer == 0:
                    t.start_ns[iteration] = start
            elif b.s[bk.ITERATION] < iteration:
                return iteration
            s[COMPUTING] = 1
            s[END_NS] = start + _stretched(t, start, duration)
        if now < s[END_NS]:
            return -1
        lag.record(t.lag, now - s[END_NS])
        s[COMPUTING] = 0
        s[FREE_NS] = s[END_NS]
        if s[PHASE] == FORWARD:
            s[LAYER] += 1
            if s[LAYER] == t.forward_ns.size:
                s[PHASE] = BACKWARD
                s[LAYER] -= 1
        else:
            bk.make_ready(b, layer, s[END_NS])
            s[LAYER] -= 1
            if s[LAYER] < 0:
                t.compute_end_ns[iteration] = s[END_NS]
                s[LAYER] = 0
                s[ITERATION] += 1
                s[PHASE] = DRAIN if s[ITERATION] == s[ITERATIONS] else FORWARD
    return -1


@njit(cache=True)
def deadline(t):
    """When the running compute step ends, or NEVER while waiting for a gradient."""
    if t.s[PHASE] < DRAIN and t.s[COMPUTING] == 1:
        return t.s[END_NS]
    return NEVER
