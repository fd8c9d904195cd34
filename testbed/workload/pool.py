"""The machines of the pool systems: a worker with its training loop, and a parameter server."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import book as bk
from testbed.protocols import pool_server, pool_worker
from testbed.protocols import status as st
from testbed.workload import training


class WorkerMachine(NamedTuple):
    protocol: pool_worker.Worker
    book: bk.Book
    training: training.Training
    status: np.ndarray
    counters: np.ndarray


class ServerMachine(NamedTuple):
    protocol: pool_server.Server
    status: np.ndarray
    counters: np.ndarray


def worker_machine(protocol: pool_worker.Worker, spec: dict) -> WorkerMachine:
    """A worker's protocol state with the book and the loop of its specification (see plan.py)."""
    sizes = [tensor["values"] for tensor in spec["tensors"]]
    order = bk.FIFO if spec["order"] == "fifo" else bk.FRONT
    return WorkerMachine(
        protocol=protocol,
        book=bk.new_book(sizes, spec["values"], spec["iterations"], order),
        training=training.of_spec(spec, protocol.lag),
        status=protocol.status,
        counters=protocol.counters,
    )


def server_machine(protocol: pool_server.Server) -> ServerMachine:
    return ServerMachine(protocol, protocol.status, protocol.counters)


@njit(cache=True)
def step_worker(machine, now, arrived, count, out):
    """A worker's step; see machine.step."""
    w, b, t, status, _ = machine
    iteration = b.s[bk.ITERATION]
    if count > 0 and pool_worker.receive(w, b, now, arrived.packets, arrived.lengths, count):
        training.gradient_finished(t, iteration, now, status)
    if status[st.FAILED] == 1:
        return 0, 0
    while True:
        begun = training.advance(t, b, now)
        if begun < 0:
            break
        pool_worker.begin(w, b, begun)
    filled = pool_worker.send(w, b, now, out.packets, out.lengths, out.destinations)
    return filled, min(pool_worker.deadline(w, b), training.deadline(t))


@njit(cache=True)
def step_server(machine, now, arrived, count, out):
    """A server's step. `out` must have at least as many rows as `arrived`."""
    v = machine.protocol
    filled = pool_server.receive(
        v, now, arrived.packets, arrived.lengths, count, out.packets, out.lengths, out.destinations
    )
    filled = pool_server.send(v, now, filled, out.packets, out.lengths, out.destinations)
    return filled, pool_server.deadline(v)
