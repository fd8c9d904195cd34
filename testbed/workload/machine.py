"""One host's whole machine, in the form that every runtime steps: packets and time in, packets and
the next deadline out.

A runtime knows three things of a machine: `step`, its `status` (testbed.protocols.records) and its
`counters`. `Batch` arrays are all that they exchange: rows of packets in network byte order, their
payload lengths in bytes and, for packets to send, their destinations as places in the role's list
of addresses.

A system's scheme makes its machines (testbed/schemes); a machine of a new type has its step in
`STEPS`, which is chosen by the type when numba compiles the loop that calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.extending import overload

from testbed.protocols import grid, sizes, switchml
from testbed.protocols.host_spec import PlannedWorker, ServerStripes, TreesPart, WorkerPart
from testbed.protocols.jit import CALLEE
from testbed.workload import generator, servers, worker

Machine: TypeAlias = Any  # a named tuple whose type is in `STEPS`, to which plug-ins add their own


class Batch(NamedTuple):
    packets: np.ndarray  # uint32[rows, words], network byte order
    lengths: np.ndarray  # int64[rows], bytes
    destinations: np.ndarray  # int64[rows]


def new_batch(rows: int, values: int, bitmap_width: int) -> Batch:
    """Room for `rows` packets."""
    words = sizes.packet_words(values, bitmap_width)
    return Batch(
        np.zeros((rows, words), np.uint32), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    )


# How a machine is stepped, by its type.
STEPS: dict[type, Callable] = {
    worker.WorkerMachine: worker.step,
    servers.PoolServerMachine: servers.step_pool,
    servers.SendingServerMachine: servers.step_sending,
    generator.Generator: generator.step,
}


def on_new_way(machine: Machine, part: WorkerPart | ServerStripes) -> Machine:
    """The machine of a host that continues with other stripes or trees, after a failure of a
    link."""
    if isinstance(part, TreesPart):
        return machine._replace(protocol=switchml.on_new_way(machine.protocol, part))
    if isinstance(part, PlannedWorker):
        return machine._replace(protocol=grid.worker_on_new_way(machine.protocol, part))
    assert isinstance(part, ServerStripes), part
    return machine._replace(protocol=grid.server_on_new_way(machine.protocol, part))


def step(machine: Machine, now: int, arrived: Batch, count: int, out: Batch) -> tuple[int, int]:
    """Take `count` packets of `arrived` at `now` (ns since the run's start), fill `out`.

    Returns (packets filled, next deadline in ns)."""
    return STEPS[type(machine)](machine, now, arrived, count, out)


@overload(step, jit_options=CALLEE)
def _compiled_step(machine, now, arrived, count, out):
    chosen = STEPS[machine.instance_class]

    def call(machine, now, arrived, count, out):
        return chosen(machine, now, arrived, count, out)

    return call
