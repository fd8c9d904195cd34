"""A worker's machine: its protocol, scoreboard and training loop, and the step that drives them.

The step is the same for every system whose worker answers to `receive`, `begin`, `send` and
`deadline`; a system's own step names those of its protocol.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from testbed.protocols import pool_worker, send_scoreboard, switchml
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.jit import njit
from testbed.workload import training


class PoolMachine(NamedTuple):
    """The worker of a system with a parameter server."""

    protocol: pool_worker.Worker
    scoreboard: send_scoreboard.SendScoreboard
    training: training.Training
    status: np.ndarray
    counters: np.ndarray


class SlotMachine(NamedTuple):
    """The worker of a system whose slots clock themselves."""

    protocol: switchml.Worker
    scoreboard: send_scoreboard.SendScoreboard
    training: training.Training
    status: np.ndarray
    counters: np.ndarray


def parts(protocol: Any, spec: HostSpec) -> tuple:
    """What a worker's machine consists of, whatever its protocol: of its specification.

    `protocol` has `lag`, `status` and `counters`."""
    job, options = spec.job, spec.options
    sizes = [tensor.values for tensor in job.tensors]
    order = send_scoreboard.FIFO if options.order == "fifo" else send_scoreboard.FRONT
    span = options.window if options.window_rule == "positions" else 0
    return (
        protocol,
        send_scoreboard.new_scoreboard(
            sizes, job.values, job.iterations, order, options.window, span
        ),
        training.of_spec(spec, protocol.lag),
        protocol.status,
        protocol.counters,
    )


@njit  # compiled into its callers: numba's cache knows no functions as arguments
def _step(machine, now, arrived, count, out, receive, begin, send, deadline):
    protocol, scoreboard, loop, status, _ = machine
    iteration = scoreboard.state.iteration
    if count > 0 and receive(protocol, scoreboard, now, arrived.packets, arrived.lengths, count):
        training.gradient_finished(loop, iteration, now, status)
    if status[0].failed == 1:
        return 0, 0
    while True:
        begun = training.advance(loop, scoreboard, now)
        if begun < 0:
            break
        begin(protocol, scoreboard, begun)
    filled = send(protocol, scoreboard, now, out.packets, out.lengths, out.destinations)
    return filled, min(deadline(protocol, scoreboard), training.deadline(loop))


@njit(cache=True)
def step_pool(machine, now, arrived, count, out):
    """Step a worker with a parameter server; see machine.step."""
    return _step(
        machine,
        now,
        arrived,
        count,
        out,
        pool_worker.receive,
        pool_worker.begin,
        pool_worker.send,
        pool_worker.deadline,
    )


@njit(cache=True)
def step_slots(machine, now, arrived, count, out):
    """Step a worker that clocks slots of its own; see machine.step."""
    return _step(
        machine,
        now,
        arrived,
        count,
        out,
        switchml.receive,
        switchml.begin,
        switchml.send,
        switchml.deadline,
    )
