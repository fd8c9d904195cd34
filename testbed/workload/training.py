"""The training loop: when which layer computes, and when its gradient becomes ready.

Forward runs layer by layer from the front; layer l of iteration i + 1 may start when the aggregated
gradient of layer l of iteration i is here. The forward step begins with the update of the layer's
weights, which the first iteration does not need. Backward runs from the last layer to the first; a
layer's gradient is ready when its backward step is done, and is exchanged while backward goes on.

Compute steps follow each other by schedule: a step starts when the step before it was *due* to end,
or when its gradient arrived, not when the host noticed. A late host does not slow the model down.

Workers may differ in speed, constantly (`speed_spread`) and from iteration to iteration
(`compute_jitter`). Both are drawn by integer arithmetic, one number for each worker, and one for
each worker and iteration. So they are the same on every machine and in every runtime.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols import lag, send_scoreboard
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.jit import njit, of_module
from testbed.protocols.records import new_record, record
from testbed.protocols.values import mix2

NEVER = (1 << 62) - 1
COMPUTE_STREAM = 0xC0A9  # distinguishes these random numbers from others of the same seed

_begin = of_module("begin")  # of a protocol

FORWARD = 0
BACKWARD = 1
DRAIN = 2  # all computed; the last gradients are on their way
FINISHED = 3

# Training.state
STATE = record(
    "phase",
    "iteration",
    "layer",
    "computing",
    "free_ns",  # time at which the last step was due to end
    "end_ns",  # time at which the running step is due to end
    "iterations",
)


class Training(NamedTuple):
    """T layers, I iterations; times in ns since the run's start, -1 for not yet. S sets of compute
    times, which iterations take in turn: one, or those of a recording's steps."""

    state: np.record  # STATE
    forward_ns: np.ndarray  # int64[S, T]
    backward_ns: np.ndarray  # int64[S, T]
    update_ns: np.ndarray  # int64[S, T]
    start_ns: np.ndarray  # int64[I], first forward step
    forward_start_ns: np.ndarray  # int64[I, T], a layer's forward step begins, its update first
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
    iterations = job.iterations
    stream = mix2(mix2(mix2(job.seed, COMPUTE_STREAM), job.number), spec.number)

    own = tuple((each.forward_ns, each.backward_ns, each.update_ns) for each in job.tensors)
    times = compute.steps or (own,)

    def at_its_speed(kind: int) -> np.ndarray:
        return np.array(
            [
                [varied(each[kind], stream, 0, compute.speed_spread) for each in row]
                for row in times
            ],
            np.int64,
        )

    return Training(
        state=new_record(STATE, free_ns=job.start_ns, iterations=iterations),
        forward_ns=at_its_speed(0),
        backward_ns=at_its_speed(1),
        update_ns=at_its_speed(2),
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
def gradient_finished(loop, iteration, now, status):
    """The last result of an iteration has arrived."""
    state = loop.state
    loop.end_ns[iteration] = now
    status[0].iterations = iteration + 1
    if iteration + 1 == state.iterations:
        state.phase = FINISHED
        status[0].finished = 1


@njit(cache=True)
def stretched(loop, start, duration, iteration):
    """Duration of a compute step of an iteration that begins at `start`."""
    if loop.variation[1] > 0:
        duration = varied(duration, loop.variation[0], iteration + 1, loop.variation[1])
    for i in range(loop.slow.shape[0]):
        if loop.slow[i, 0] <= start < loop.slow[i, 1]:
            return duration * loop.slow[i, 2] // 1000
    return duration


@njit(cache=True)
def advance(loop, scoreboard, now):
    """Run the loop up to `now`.

    Returns the iteration whose gradients begin to be exchanged, once for each: the caller opens it
    and calls again. Returns -1 when there is nothing more to do before `deadline`."""
    state = loop.state
    while state.phase < DRAIN:
        iteration, layer = state.iteration, state.layer
        if state.computing == 0:
            start = state.free_ns
            times = iteration % loop.forward_ns.shape[0]
            duration = loop.backward_ns[times, layer]
            if state.phase == FORWARD:
                duration = loop.forward_ns[times, layer]
                if iteration > 0:
                    arrived = scoreboard.done_ns[iteration - 1, layer]
                    if arrived < 0:
                        return -1
                    start = max(start, arrived)
                    duration += loop.update_ns[times, layer]
                if layer == 0:
                    loop.start_ns[iteration] = start
                loop.forward_start_ns[iteration, layer] = start
            elif scoreboard.state.iteration < iteration:
                return iteration
            state.computing = 1
            state.end_ns = start + stretched(loop, start, duration, iteration)
        if now < state.end_ns:
            return -1
        lag.record(loop.lag, now - state.end_ns)
        state.computing = 0
        state.free_ns = state.end_ns
        if state.phase == FORWARD:
            loop.forward_end_ns[iteration, layer] = state.end_ns
            state.layer += 1
            if state.layer == loop.forward_ns.shape[1]:
                state.phase = BACKWARD
                state.layer -= 1
        else:
            send_scoreboard.make_ready(scoreboard, layer, state.end_ns)
            state.layer -= 1
            if state.layer < 0:
                loop.compute_end_ns[iteration] = state.end_ns
                state.layer = 0
                state.iteration += 1
                state.phase = DRAIN if state.iteration == state.iterations else FORWARD
    return -1


@njit(cache=True)
def drive(loop, protocol, scoreboard, now):
    """Run the loop up to `now`, or until the exchange of an iteration begins. True if one does."""
    begun = advance(loop, scoreboard, now)
    if begun < 0:
        return False
    _begin(protocol, scoreboard, begun)
    return True


@njit(cache=True)
def note(loop, status):
    """Tell the runtime how far the loop is."""
    if loop.state.phase == FINISHED:
        status[0].finished = 1


@njit(cache=True)
def deadline(loop):
    """Time at which the running compute step ends, or NEVER while waiting for a gradient."""
    if loop.state.phase < DRAIN and loop.state.computing == 1:
        return loop.state.end_ns
    return NEVER
