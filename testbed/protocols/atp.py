"""ATP's hosts: the pool systems' worker and server, with window positions and the float fallback.

Beside what ESA's hosts do (see pool_worker and pool_server), a worker takes a fragment's index from
its window position, adopts the index that the server hands out for a position that collided, sends
a fragment again as soon as results of later ones are here, and sends what does not fit fixed point
as float32, which the server adds. All fragments have the same priority: ATP knows none.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import esa, pool_worker, server_store
from testbed.protocols import worker as wk
from testbed.protocols.floats import WorkerFloats, new_server_floats
from testbed.protocols.positions import Positions, new_positions
from testbed.protocols.sizes import fragments_of


def new_worker(
    spec: dict,
    gradients: tuple[np.ndarray, np.ndarray] | None = None,
    floats: WorkerFloats | None = None,
) -> pool_worker.Worker:
    """A worker machine. For a trace with values: `gradients` in fixed point, (own, sums), both
    int32[I, F * V], and the same as `floats`."""
    worker = esa.new_worker(spec, gradients)
    worker.c[wk.GAP] = spec["gap"]
    worker = worker._replace(positions=_positions(spec))
    return worker if floats is None else worker._replace(floats=floats)


def new_server(spec: dict) -> server_store.Server:
    """A parameter server machine."""
    server = esa.new_server(spec)
    positions = _positions(spec)
    server.c[server_store.REHASH] = int(spec["rehash"])
    server.c[server_store.FLOATS] = int(spec["gradients"] is not None)
    rows = 2 * spec["fragments"] if spec["gradients"] is not None else 0
    return server._replace(
        positions=positions,
        taken=np.bincount(positions.index, minlength=spec["pool"]).astype(np.int32),
        floats=new_server_floats(rows, spec["values"]),
    )


def _positions(spec: dict) -> Positions:
    first = fragments_of([tensor["values"] for tensor in spec["tensors"]], spec["values"])
    return new_positions(first, spec["window"], spec["position_index"], spec["pool"], spec["job"])
