"""One host's whole machine, in the form that every runtime steps: packets and time in, packets and
the next deadline out.

A runtime knows three things of a machine: `step`, its `status` (testbed.protocols.records) and its
`counters`. `Batch` arrays are all that they exchange: rows of packets in network byte order, their
payload lengths in bytes and, for packets to send, their destinations as places in the role's list
of addresses.

The entry of a system says how its machines are made; a machine of a new type has its step in
`STEPS`, which is chosen by the type when numba compiles the loop that calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from testbed.protocols import atp, esa, grid, ps, ring, sizes, switchml
from testbed.protocols.host_spec import HostSpec, PlannedWorker, ServerStripes
from testbed.systems import SYSTEMS
from testbed.workload import background, blocks, fixed_point, gradients, servers, worker


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


def esa_machine(spec: HostSpec) -> Any:
    """ESA's worker or server."""
    if spec.is_worker:
        return worker.worker_machine(esa.new_worker(spec, gradients.of_worker(spec)), spec)
    return servers.pool_machine(esa.new_server(spec))


def _with_positions(spec: HostSpec) -> tuple[Any, Any]:
    """Recorded gradients where a server adds up floats, and these; None where there are none."""
    if spec.job.value_bits == 16:
        return gradients.of_worker(spec), None
    return fixed_point.of_worker(spec) or (None, None)


def atp_machine(spec: HostSpec) -> Any:
    """ATP's worker or server."""
    if spec.is_worker:
        return worker.worker_machine(atp.new_worker(spec, *_with_positions(spec)), spec)
    return servers.pool_machine(atp.new_server(spec))


def grid_machine(spec: HostSpec) -> Any:
    """GRID's worker or server: those of the system whose memory it uses."""
    if not spec.is_worker:
        return servers.pool_machine(grid.new_server(spec))
    if grid.has_positions(spec):
        return worker.worker_machine(grid.new_worker(spec, *_with_positions(spec)), spec)
    return worker.worker_machine(grid.new_worker(spec, gradients.of_worker(spec)), spec)


def switchml_machine(spec: HostSpec) -> Any:
    """SwitchML's worker."""
    return worker.worker_machine(switchml.new_worker(spec, blocks.of_worker(spec)), spec)


def ps_machine(spec: HostSpec) -> Any:
    """A worker or server without aggregation in the network."""
    if spec.is_worker:
        return worker.worker_machine(ps.new_worker(spec, gradients.of_worker(spec)), spec)
    return servers.sending_machine(ps.new_server(spec))


def ring_machine(spec: HostSpec) -> Any:
    """A member of the ring."""
    return worker.worker_machine(ring.new_ring(spec, gradients.of_worker(spec)), spec)


# How a machine is stepped, by its type.
STEPS: dict[type, Callable] = {
    worker.WorkerMachine: worker.step,
    servers.PoolServerMachine: servers.step_pool,
    servers.SendingServerMachine: servers.step_sending,
    background.Background: background.step,
}


def on_new_way(machine: Any, part: PlannedWorker | ServerStripes) -> Any:
    """The machine of one of GRID's hosts, going on with another part of a plan."""
    if isinstance(part, PlannedWorker):
        return machine._replace(protocol=grid.worker_on_new_way(machine.protocol, part))
    return machine._replace(protocol=grid.server_on_new_way(machine.protocol, part))


def new_machine(spec: HostSpec) -> Any:
    """The machine of a role's specification."""
    return SYSTEMS[spec.job.system].require("machine")(spec)


def step(machine: Any, now: int, arrived: Batch, count: int, out: Batch) -> tuple[int, int]:
    """Take `count` packets of `arrived` at `now` (ns since the run's start), fill `out`.

    Returns (packets filled, next deadline in ns)."""
    return STEPS[type(machine)](machine, now, arrived, count, out)


def wrong_value(spec: HostSpec, machine: Any) -> str:
    """What is wrong in a machine that has failed, by job, iteration, tensor and position."""
    status, scoreboard = machine.status, machine.scoreboard
    fragment = int(status[0].fragment)
    tensor = int(scoreboard.tensor[fragment])
    position = (fragment - int(scoreboard.first[tensor])) * spec.job.values + int(
        status[0].position
    )
    return (
        f"wrong value: job {spec.job.name}, iteration {int(status[0].iteration)}, "
        f"tensor {spec.job.tensors[tensor].name} ({tensor}), position {position}: "
        f"got {int(status[0].found)}, expected {int(status[0].expected)} "
        f"(worker {spec.number} on {spec.host})"
    )


@overload(step)
def _compiled_step(machine, now, arrived, count, out):
    chosen = STEPS[machine.instance_class]

    def call(machine, now, arrived, count, out):
        return chosen(machine, now, arrived, count, out)

    return call
