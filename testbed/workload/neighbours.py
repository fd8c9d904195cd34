"""The machine of ring all-reduce: a ring member with its training loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols import ring, ring_link, send_scoreboard
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.jit import njit
from testbed.workload import training, worker


class RingMachine(NamedTuple):
    protocol: ring_link.Ring
    scoreboard: send_scoreboard.SendScoreboard
    training: training.Training
    status: np.ndarray
    counters: np.ndarray


def ring_machine(protocol: ring_link.Ring, spec: HostSpec) -> RingMachine:
    """A ring member's protocol state with the scoreboard and the loop of its specification."""
    return RingMachine(protocol, *worker.parts(protocol.worker, spec)[1:])


@njit(cache=True)
def step_ring(machine, now, arrived, count, out):
    """A ring member's step; see machine.step."""
    member, scoreboard, loop, status, _ = machine
    if count > 0:
        iteration = scoreboard.state.iteration
        if ring.receive(member, scoreboard, now, arrived.packets, arrived.lengths, count):
            training.gradient_finished(loop, iteration, now, status)
    while status[0].failed == 0:
        begun = training.advance(loop, scoreboard, now)
        if begun >= 0:
            ring.begin(member, scoreboard, begun)
            continue
        tensor = member.state.tensor
        if ring.add_ready(member, scoreboard, now):
            training.gradient_finished(loop, scoreboard.state.iteration, now, status)
        if member.state.tensor == tensor:
            break
    if status[0].failed == 1:
        return 0, 0
    filled = ring_link.send(member, scoreboard, now, out.packets, out.lengths, out.destinations)
    # Who has all results still has to pass on what others wait for.
    if loop.state.phase == training.FINISHED:
        status[0].finished = 1 if ring_link.all_sent(member) else 0
    return filled, min(ring_link.deadline(member), training.deadline(loop))
