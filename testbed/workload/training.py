"""The training loop: when which layer computes, and when its gradient becomes ready.

Forward runs layer by layer from the front; layer l of iteration i + 1 may start when the aggregated
gradient of layer l of iteration i is here. Backward runs from the last layer to the first; a
layer's gradient is ready when its backward step is done, and is exchanged while backward goes on.

Compute steps follow each other by schedule: a step starts when the step before it was *due* to end,
or when its gradient arrived, not when the host noticed. A late host does not slow the model down.

Workers may differ in speed, for good (`speed_spread`) and from iteration to iteration
(`compute_jitter`). Both are drawn by integer arithmetic from numbers of their own, one for each
worker, and one for each worker and iteration, so they are the same on every machine and in every
runtime.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import lag
from testbed.protocols import send_scoreboard as bk
from testbed.protocols import status as st
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.values import mix2

NEVER = (1 << 62) - 1
COMPUTE_STREAM = 0xC0A9  # what tells these random numbers from others of the same seed

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
    forward_start_ns: np.ndarray  # int64[I, T], a layer's forward step begins
    forward_end_ns: np.ndarray  # int64[I, T], and ends
    compute_end_ns: np.ndarray  # int64[I], last backward step
    end_ns: np.ndarray  # int64[I], last gradient aggregated
    slow: np.ndarray  # int64[N, 3], from, to (ns): steps that begin then take so many thousandths
    variation: np.ndarray  # int64[2], stream of the iterations' speeds, jitter in millionths
    lag: np.ndarray  # int64, see protocols/lag.py


def of_spec(spec: HostSpec, lags: np.ndarray) -> Training:
    """The loop of a worker's specification, with its first forward step to come."""
    job, compute = spec.job, spec.compute
    if compute is None:
        raise ValueError(f"{spec.title} computes nothing")
    s = np.zeros(STATE, np.int64)
    s[FREE_NS] = job.start_ns
    s[ITERATIONS] = iterations = job.iterations
    stream = mix2(mix2(mix2(job.seed, COMPUTE_STREAM), job.number), spec.number)

    def at_its_speed(durations: list[int]) -> np.ndarray:
        return np.array(
            [varied(each, stream, 0, compute.speed_spread) for each in durations], np.int64
        )

    return Training(
        s=s,
        forward_ns=at_its_speed([tensor.forward_ns for tensor in job.tensors]),
        backward_ns=at_its_speed([tensor.backward_ns for tensor in job.tensors]),
        start_ns=np.full(iterations, -1, np.int64),
        forward_start_ns=np.full((iterations, len(job.tensors)), -1, np.int64),
        forward_end_ns=np.full((iterations, len(job.tensors)), -1, np.int64),
        compute_end_ns=np.full(iterations, -1, np.int64),
        end_ns=np.full(iterations, -1, np.int64),
        slow=np.asarray(compute.slow, np.int64).reshape(-1, 3),
        variation=np.array([stream, compute.jitter], np.int64),
        lag=lags,
    )


@njit(cache=True)
def varied(duration_ns, stream, number, share):
    """A duration that is longer or shorter by up to `share` millionths, by draw `number` of a
    stream. For durations below 2^41 ns (half an hour)."""
    draw = mix2(stream, number) >> 12  # 20 bits
    most = duration_ns * share // 1_000_000
    return duration_ns - most + (2 * most * draw >> 20)


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
def _stretched(t, start, duration, iteration):
    """How long a compute step of an iteration takes that begins at `start`."""
    if t.variation[1] > 0:
        duration = varied(duration, t.variation[0], iteration + 1, t.variation[1])
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
                t.forward_start_ns[iteration, layer] = start
            elif b.s[bk.ITERATION] < iteration:
                return iteration
            s[COMPUTING] = 1
            s[END_NS] = start + _stretched(t, start, duration, iteration)
        if now < s[END_NS]:
            return -1
        lag.record(t.lag, now - s[END_NS])
        s[COMPUTING] = 0
        s[FREE_NS] = s[END_NS]
        if s[PHASE] == FORWARD:
            t.forward_end_ns[iteration, layer] = s[END_NS]
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
