"""One host's whole machine, in the form that every runtime steps: packets and time in, packets and
the next deadline out.

`Batch` arrays are the only thing a runtime exchanges with a machine: rows of packets in network
byte order, their payload lengths in bytes and, for packets to send, their destinations as places in
the role's list of addresses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import book as bk
from testbed.protocols import esa, pool_server, pool_worker, wire
from testbed.workload import training

PROTOCOLS = {"esa": esa}


class Batch(NamedTuple):
    packets: np.ndarray  # uint32[rows, words], network byte order
    lengths: np.ndarray  # int64[rows], bytes
    destinations: np.ndarray  # int64[rows]


class WorkerMachine(NamedTuple):
    protocol: pool_worker.Worker
    book: bk.Book
    training: training.Training


def new_batch(rows: int, values: int, bitmap_width: int) -> Batch:
    """Room for `rows` packets."""
    words = wire.packet_words(values, bitmap_width)
    return Batch(
        np.zeros((rows, words), np.uint32), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    )


def new_worker(spec: dict, gradients: tuple[np.ndarray, np.ndarray] | None = None) -> WorkerMachine:
    """The machine of a worker's specification (see plan.py)."""
    sizes = [tensor["values"] for tensor in spec["tensors"]]
    order = bk.FIFO if spec["order"] == "fifo" else bk.FRONT
    protocol = PROTOCOLS[spec["system"]].new_worker(spec, gradients)
    return WorkerMachine(
        protocol=protocol,
        book=bk.new_book(sizes, spec["values"], spec["iterations"], order),
        training=training.new_training(
            [tensor["forward_ns"] for tensor in spec["tensors"]],
            [tensor["backward_ns"] for tensor in spec["tensors"]],
            spec["iterations"],
            spec["start_ns"],
            protocol.lag,
        ),
    )


def new_server(spec: dict) -> pool_server.Server:
    """The machine of a parameter server's specification."""
    return PROTOCOLS[spec["system"]].new_server(spec)


@njit(cache=True)
def step_worker(machine, now, arrived, count, out):
    """Take `count` packets of `arrived` at `now` (ns), fill `out`.

    Returns (packets filled, next deadline in ns)."""
    w, b, t = machine
    iteration = b.s[bk.ITERATION]
    if count > 0 and pool_worker.receive(w, b, now, arrived.packets, arrived.lengths, count):
        training.gradient_finished(t, iteration, now)
    if w.s[pool_worker.FAILED] == 1:
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
    """The same for a server. `out` must have at least as many rows as `arrived`."""
    v = machine
    filled = pool_server.receive(
        v, now, arrived.packets, arrived.lengths, count, out.packets, out.lengths, out.destinations
    )
    filled = pool_server.send(v, now, filled, out.packets, out.lengths, out.destinations)
    return filled, pool_server.deadline(v)
