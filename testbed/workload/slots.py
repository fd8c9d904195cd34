"""The machine of a worker that clocks slots of its own: its protocol with its training loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import book as bk
from testbed.protocols import status as st
from testbed.protocols import switchml_worker as sw
from testbed.workload import training


class WorkerMachine(NamedTuple):
    protocol: sw.Worker
    book: bk.Book
    training: training.Training
    status: np.ndarray
    counters: np.ndarray


def worker_machine(protocol: sw.Worker, spec: dict) -> WorkerMachine:
    """A worker's protocol state with the book and the loop of its specification (see plan.py)."""
    sizes = [tensor["values"] for tensor in spec["tensors"]]
    return WorkerMachine(
        protocol=protocol,
        book=bk.new_book(sizes, spec["values"], spec["iterations"], bk.FIFO),
        training=training.of_spec(spec, protocol.lag),
        status=protocol.status,
        counters=protocol.counters,
    )


@njit(cache=True)
def step_worker(machine, now, arrived, count, out):
    """A worker's step; see machine.step."""
    w, b, t, status, _ = machine
    iteration = b.s[bk.ITERATION]
    if count > 0 and sw.receive(w, b, now, arrived.packets, arrived.lengths, count):
        training.gradient_finished(t, iteration, now, status)
    if status[st.FAILED] == 1:
        return 0, 0
    while True:
        begun = training.advance(t, b, now)
        if begun < 0:
            break
        sw.begin(w, b, begun)
    filled = sw.send(w, b, now, out.packets, out.lengths, out.destinations)
    return filled, min(sw.deadline(w, b), training.deadline(t))
