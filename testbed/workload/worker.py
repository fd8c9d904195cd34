"""A worker's machine: its protocol, its scoreboard, and the source of its gradients.

The source is a port of a rank's graph, or a feed where a program gives the values: the host process
hands such a machine the memory that it shares with the program (`attach`) and tells it of calls
(`submit`). The machine's status says when there is news for the program.

The step is the same for every protocol and source. Each of them is a module with a type, and numba
takes the functions from the type's module.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit, of_module
from p4fabric.simulate.machine import STEPS, Machine

from testbed.collective import memory_map
from testbed.protocols import given, grid, host_sums, send_scoreboard, slot_worker
from testbed.protocols.host_spec import (
    HostSpec,
    PlannedWorker,
    ServerStripes,
    TreesPart,
    WorkerPart,
)
from testbed.workload import feed, rank_program, training


class WorkerMachine(NamedTuple):
    protocol: Any  # pool_worker.Worker, slot_worker.Worker or host_sums.Member
    scoreboard: send_scoreboard.SendScoreboard
    source: Any  # feed.Feed or rank_graph.Port
    status: np.ndarray
    counters: np.ndarray


def worker_machine(protocol: Any, spec: HostSpec) -> WorkerMachine:
    """The machine of a worker's protocol and specification."""
    job, options = spec.job, spec.options
    worker = protocol.worker if isinstance(protocol, host_sums.Member) else protocol
    sizes = [tensor.values for tensor in job.tensors]
    order = send_scoreboard.FIFO if options.order == "fifo" else send_scoreboard.FRONT
    span, iterations = 0, 1
    source: Any
    if job.program:
        counters = 2 * memory_map.CALLS
        own = given.new_given(len(sizes), counters, job.workers, job.fixed_scale, job.value_bits)
        protocol = _with_given(protocol, own)
        source = feed.of_spec(spec, order, own)
    elif spec.program is not None:
        protocol = _with_given(protocol, rank_program.shares(spec))
        source = rank_program.of_spec(spec, worker.lag)
        iterations = job.iterations
    else:
        source = training.of_spec(spec, worker.lag)
        iterations = job.iterations
        span = options.window if options.window_rule == "positions" else 0
    scoreboard = send_scoreboard.new_scoreboard(
        sizes, job.values, iterations, order, options.window, span
    )
    return WorkerMachine(protocol, scoreboard, source, worker.status, worker.counters)


def transfer_machine(spec: HostSpec) -> WorkerMachine:
    """The machine of a rank of a program that carries its transfers to single ranks, and has its
    graph."""
    protocol = rank_program.flows_of(spec)
    order, window = send_scoreboard.FIFO, spec.options.window
    sizes = [tensor.values for tensor in spec.job.tensors]
    scoreboard = send_scoreboard.new_scoreboard(
        sizes, spec.job.values, spec.job.iterations, order, window
    )
    source = rank_program.of_spec(spec, protocol.lag)
    return WorkerMachine(protocol, scoreboard, source, protocol.status, protocol.counters)


def _with_given(protocol: Any, own: given.Given) -> Any:
    if isinstance(protocol, host_sums.Member):
        return protocol._replace(worker=protocol.worker._replace(given=own))
    return protocol._replace(given=own)


def attach(machine: WorkerMachine, memory: memory_map.Shared) -> WorkerMachine:
    """The machine with the calls and arrays of this memory. It must be placed anew."""
    source = machine.source
    own = source.given._replace(words=memory.words, numbers=memory.numbers, places=memory.places)
    return machine._replace(
        protocol=_with_given(machine.protocol, own),
        source=source._replace(given=own, calls=memory.calls),
    )


def submit(machine: WorkerMachine, memory: memory_map.Shared) -> None:
    """Tell the machine of the calls that the program has submitted so far, and of its end."""
    state = machine.source.state
    state.submitted = memory.header["submitted"][0]
    state.closed = memory.header["closed"][0]


@njit(cache=True)
def _adds_nothing(protocol, scoreboard, now):
    return False, False


@njit(cache=True)
def _has_sent_all(protocol):
    return True


# Of a protocol
_receive, _send, _deadline = of_module("receive"), of_module("send"), of_module("deadline")
_add_ready = of_module("add_ready", _adds_nothing)
_all_sent = of_module("all_sent", _has_sent_all)
# Of a source
_drive, _note, _source_deadline = of_module("drive"), of_module("note"), of_module("deadline")
_gradient_finished = of_module("gradient_finished")


@njit(cache=True)
def step(machine, now, arrived, count, out):
    """A worker's step; see machine.step."""
    protocol, scoreboard, source, status, _ = machine
    if count > 0:
        iteration = scoreboard.state.iteration
        if _receive(protocol, scoreboard, now, arrived.packets, arrived.lengths, count):
            _gradient_finished(source, iteration, now, status)
    while status[0].failed == 0:
        if _drive(source, protocol, scoreboard, now):
            continue
        added, finished = _add_ready(protocol, scoreboard, now)
        if finished:
            _gradient_finished(source, scoreboard.state.iteration, now, status)
        if not added:
            break
    if status[0].failed == 1:
        return 0, 0
    _note(source, status)
    filled = _send(protocol, scoreboard, now, out.packets, out.lengths, out.destinations)
    # Who has all results may still have to pass on what others wait for.
    if status[0].finished == 1 and not _all_sent(protocol):
        status[0].finished = 0
    return filled, min(_deadline(protocol, scoreboard), _source_deadline(source))


STEPS[WorkerMachine] = step


def on_new_way(machine: Machine, part: WorkerPart | ServerStripes) -> Machine:
    """The machine of a worker or server that continues with other stripes or trees, after a failure
    of a link."""
    if isinstance(part, TreesPart):
        return machine._replace(protocol=slot_worker.on_new_way(machine.protocol, part))
    if isinstance(part, PlannedWorker):
        return machine._replace(protocol=grid.worker_on_new_way(machine.protocol, part))
    assert isinstance(part, ServerStripes), part
    return machine._replace(protocol=grid.server_on_new_way(machine.protocol, part))
