"""The machine of ring all-reduce: a ring member with its training loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import ring, ring_link
from testbed.protocols import ring_state as rs
from testbed.protocols import send_scoreboard as bk
from testbed.protocols import status as st
from testbed.protocols.host_spec import HostSpec
from testbed.workload import training, worker


class RingMachine(NamedTuple):
    protocol: rs.Ring
    book: bk.Book
    training: training.Training
    status: np.ndarray
    counters: np.ndarray


def ring_machine(protocol: rs.Ring, spec: HostSpec) -> RingMachine:
    """A ring member's protocol state with the book and the loop of its specification."""
    return RingMachine(protocol, *worker.parts(protocol.worker, spec)[1:])


@njit(cache=True)
def step_ring(machine, now, arrived, count, out):
    """A ring member's step; see machine.step."""
    r, b, t, status, _ = machine
    if count > 0:
        iteration = b.s[bk.ITERATION]
        if ring.receive(r, b, now, arrived.packets, arrived.lengths, count):
            training.gradient_finished(t, iteration, now, status)
    while status[st.FAILED] == 0:
        begun = training.advance(t, b, now)
        if begun >= 0:
            ring.begin(r, b, begun)
            continue
        tensor = r.s[rs.TENSOR]
        if ring.add_ready(r, b, now):
            training.gradient_finished(t, b.s[bk.ITERATION], now, status)
        if r.s[rs.TENSOR] == tensor:
            break
    if status[st.FAILED] == 1:
        return 0, 0
    filled = ring_link.send(r, b, now, out.packets, out.lengths, out.destinations)
    # Who has all results still has to pass on what others wait for.
    if t.s[training.PHASE] == training.FINISHED:
        status[st.FINISHED] = 1 if ring_link.all_sent(r) else 0
    return filled, min(ring_link.deadline(r), training.deadline(t))
