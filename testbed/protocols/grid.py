"""GRID's hosts: those of the system whose memory it uses, sending as a plan says.

A worker's fragments name the switch that aggregates them, carry the tag of their path, and leave at
the worker's rate in the plan. A server sends a fragment's reminders to the switches that the plan
has for it. With ATP's memory the hosts work as ATP's hosts (index of the window position, and so
on), otherwise as ESA's.
"""

from __future__ import annotations

from p4fabric.simulate.jit import njit

from testbed.protocols import (
    atp,
    esa,
    pool_worker,
    server_store,
    stripes,
    worker_state,
)
from testbed.protocols.floats import WorkerFloats
from testbed.protocols.host_spec import GridSpec, HostSpec, PlannedWorker, ServerStripes
from testbed.protocols.progress import no_progress
from testbed.protocols.sizes import NO_NODE


class PerPacket:
    """The published growth of the window: by a packet for each that was aggregated."""

    @staticmethod
    @njit(cache=True)
    def widens(worker, fragment, once):
        # A fragment that was sent again was not aggregated, nor was one that names no switch.
        return once and worker.stripes.node[stripes.stripe_of(worker.stripes, fragment)] != NO_NODE


class EsaPerPacket(PerPacket, esa.WorkerRules):
    pass


class AtpPerPacket(PerPacket, atp.WorkerRules):
    pass


def new_worker(
    spec: HostSpec,
    gradients: pool_worker.Gradients | None = None,
    floats: WorkerFloats | None = None,
) -> pool_worker.Worker:
    """A worker machine; `gradients` and `floats` as in esa.py and atp.py."""
    planned = spec.worker_part_of(PlannedWorker)
    per_packet = spec.options_of(GridSpec).growth == "packet"
    if has_positions(spec):
        rules = AtpPerPacket if per_packet else atp.WorkerRules
        worker = atp.new_worker(spec, gradients, floats, rules)
    else:
        worker = esa.new_worker(spec, gradients, EsaPerPacket if per_packet else esa.WorkerRules)
    worker.config.pace_ps = planned.pace_ps
    worker.config.frame_bytes = 0  # the plan's bits may exceed those of a packet
    if per_packet:
        worker.state.credit = worker_state.UNIT
    return worker._replace(stripes=stripes.of_worker(planned.stripes))


def new_server(spec: HostSpec) -> server_store.Server:
    """A parameter server machine."""
    planned = spec.options_of(GridSpec).stripes
    server = (atp if has_positions(spec) else esa).new_server(spec)
    server = server._replace(stripes=stripes.of_server(planned))
    # On several ways, or on a new one, fragments do not arrive in order.
    if len(planned.ends) > 1 or spec.options_of(GridSpec).unordered:
        server = server._replace(progress=no_progress())
    return server


def worker_on_new_way(worker: pool_worker.Worker, planned: PlannedWorker) -> pool_worker.Worker:
    """A worker that goes on with another part of a plan."""
    worker.config.pace_ps = planned.pace_ps
    return worker._replace(stripes=stripes.of_worker(planned.stripes))


def server_on_new_way(server: server_store.Server, planned: ServerStripes) -> server_store.Server:
    """A server that goes on with another part of a plan."""
    return server._replace(stripes=stripes.of_server(planned))


def has_positions(spec: HostSpec) -> bool:
    """True if the hosts are ATP's, False if they are ESA's."""
    return spec.options_of(GridSpec).positions is not None
