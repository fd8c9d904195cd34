"""ATP's hosts: the pool systems' worker and server, with window positions and the float fallback.

They do what ESA's hosts do (see pool_worker and pool_server), and more: a worker takes a fragment's
index from its window position, uses the new index that the server gives a position after a
collision, sends a fragment again as soon as results of later fragments are here, and sends values
that do not fit fixed point as float32, which the server adds. ATP has no priorities, so all
fragments have the same priority.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import esa, pool_worker, server_store
from testbed.protocols.floats import WorkerFloats, new_server_floats
from testbed.protocols.host_spec import HostSpec, PoolSpec, WindowPositions
from testbed.protocols.positions import Positions, new_positions


def new_worker(
    spec: HostSpec,
    gradients: esa.Gradients | None = None,
    floats: WorkerFloats | None = None,
) -> pool_worker.Worker:
    """A worker machine. For a trace with values: `gradients` in fixed point, (own, sums), both
    int32[I, F * V], and the same as `floats`."""
    worker = esa.new_worker(spec, gradients)
    worker.config[0].gap = positions_of(spec).gap
    worker = worker._replace(positions=_new_positions(spec))
    return worker if floats is None else worker._replace(floats=floats)


def new_server(spec: HostSpec) -> server_store.Server:
    """A parameter server machine."""
    job = spec.job
    server = esa.new_server(spec)
    positions = _new_positions(spec)
    server.config[0].rehash = int(positions_of(spec).rehash)
    # A program's int32 may leave int32; its float32 cannot (given.most_steps).
    if job.value_bits == 32:
        server.config[0].floats = 1 if job.gradients is not None else 2 if job.fixed_scale else 0
    rows = 2 * job.fragments if server.config[0].floats else 0
    pool = spec.options_of(PoolSpec).pool
    return server._replace(
        positions=positions,
        taken=np.bincount(positions.index, minlength=pool).astype(np.int32),
        floats=new_server_floats(rows, job.values),
    )


def positions_of(spec: HostSpec) -> WindowPositions:
    """The options of window positions, which the specification must have."""
    positions = spec.options_of(PoolSpec).positions
    if positions is None:
        raise ValueError(f"{spec.title}: system {spec.job.system} has no window positions")
    return positions


def _new_positions(spec: HostSpec) -> Positions:
    options = spec.options_of(PoolSpec)
    return new_positions(
        spec.job.first_fragments,
        options.window,
        positions_of(spec).index,
        options.pool,
        spec.job.number,
        options.window_rule,
    )
