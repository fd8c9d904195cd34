"""The plain parameter server's hosts: no aggregation in the network, one server per job or several.

Every worker sends every fragment to the server that it belongs to, with the pool systems' worker
(window, pacing, ECN, retransmission), and the server returns each sum to each worker. On a server's
link that is W times the gradient each way, which bounds the time from below (docs/baselines.md).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from testbed.protocols import esa, pool_worker, ps_server, sizes, wire

# What the pool systems' machines want to know and nobody reads where no switch aggregates.
WITHOUT_SWITCH = {
    "index": "consecutive",
    "pool": 1,
    "priority": "constant",
    "switches": [],
}


def new_worker(
    spec: dict, gradients: tuple[np.ndarray, np.ndarray] | None = None
) -> pool_worker.Worker:
    """A worker machine; its destinations are the servers' numbers once `shard` has seen them."""
    return esa.new_worker({**spec, **WITHOUT_SWITCH}, gradients)


def new_server(spec: dict) -> ps_server.Server:
    """A parameter server machine."""
    return ps_server.new_server(
        esa.new_server({**spec, **WITHOUT_SWITCH}),
        sizes.frame_ps(spec["values"], spec["bitmap_width"], spec["rate_bps"]),
        spec["burst_ns"] * 1000,
    )


@njit(cache=True)
def shard(packets, destinations, count, fragments, servers):
    """Send each of `count` packets to its fragment's server: fragment of the iteration modulo
    `servers`."""
    for i in range(count):
        destinations[i] = wire.fragment(packets[i]) % fragments % servers
