"""The machines of a host process, which share its socket and its link.

A host takes part in several communicators, with a machine for each. Packets say by their job number
whose they are. The machines take turns in being first, and share one pacer: what one of them sends
takes the link's time from the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.machine import Batch
from p4fabric.simulate.placed_machine import Placed, Stepper
from p4fabric.simulate.records import replaced

from testbed.hosts.progress_board import MACHINES
from testbed.protocols.status import COUNTERS, STATUS
from testbed.workload.machine_group import pacer_of


class Table(NamedTuple):
    """The machines as the packet loop sees them, in M places."""

    used: np.ndarray  # int64[3]: places in use, the machine that has news, the next to be first
    steps: np.ndarray  # int64[M, 2], addresses of the step function and of the machine; 0: none
    jobs: np.ndarray  # int64[M], the job number of its packets
    first: np.ndarray  # int64[M], place of its first destination among those of the socket
    pacers: np.ndarray  # int64[M], address of the time from which it may send, in ps
    pace_ps: np.ndarray  # int64[1], the same of the link
    status: np.ndarray  # STATUS[M]
    counters: np.ndarray  # int64[M, C]
    owners: np.ndarray  # int64[rows], of each packet that has arrived: its machine


class MachineTable:
    """The machines of a process by their place, and the batches that they share. `arrived` and
    `out` are the socket's; `table` is what the packet loop is given."""

    def __init__(self, arrived: Batch, out: Batch) -> None:
        self.arrived, self.out = arrived, out
        self.picked = Batch(*(np.zeros_like(each) for each in arrived))  # for one machine
        self._batches = [Placed(each) for each in (arrived, self.picked, out)]
        self._kept: dict[int, tuple] = {}  # what must live as long as a machine is in its place
        counters = np.zeros(MACHINES, COUNTERS)
        self._counters = counters
        self._unpaced = np.zeros(1, np.int64)
        self.table = Table(
            used=np.zeros(3, np.int64),
            steps=np.zeros((MACHINES, 2), np.int64),
            jobs=np.full(MACHINES, -1, np.int64),
            first=np.zeros(MACHINES, np.int64),
            pacers=np.zeros(MACHINES, np.int64),
            pace_ps=np.zeros(1, np.int64),
            status=np.zeros(MACHINES, STATUS),
            counters=counters.view(np.int64).reshape(MACHINES, -1),
            owners=np.zeros(arrived.lengths.size, np.int64),
        )

    @property
    def batches(self) -> tuple[int, int, int]:
        """Addresses of the batches: arrived, a part of it for one machine, and out."""
        arrived, picked, out = self._batches
        return arrived.address, picked.address, out.address

    def free_place(self) -> int | None:
        """The first place without a machine; None if there is none."""
        free = np.flatnonzero(self.table.jobs < 0)
        return int(free[0]) if free.size else None

    def put(self, place: int, machine: Any, job: int, first_destination: int) -> Any:
        """Put a machine into a place, or its place anew after a change; returns it with its status
        and counters there."""
        table = self.table
        status, counters = table.status[place : place + 1], self._counters[place : place + 1]
        if machine.status.ctypes.data != status.ctypes.data:
            status[...], counters[...] = machine.status, machine.counters
            there = {id(machine.status): status, id(machine.counters): counters}
            machine = replaced(machine, there)
        placed, stepper = Placed(machine), Stepper(machine, self.arrived, self.out)
        pacer = pacer_of(machine)
        if pacer is None:
            pacer = self._unpaced
        self._kept[place] = machine, placed, stepper, pacer
        table.jobs[place], table.first[place] = job, first_destination
        table.pacers[place] = pacer.ctypes.data
        table.steps[place] = stepper.address, placed.address
        table.used[0] = max(table.used[0], place + 1)
        return machine

    def remove(self, place: int) -> None:
        """Free a place; what its machine has counted counts as the first one's."""
        self.stop(place)
        self.table.counters[0] += self.table.counters[place]
        self.table.counters[place] = 0
        self.table.jobs[place] = -1
        del self._kept[place]

    def stop(self, place: int) -> None:
        """Step a machine no more."""
        self.table.steps[place] = 0
        self.table.status[place] = 0
        self.table.used[1] = 0
