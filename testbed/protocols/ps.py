"""The plain parameter server's hosts: no aggregation in the network, one server per job or several.

Every worker sends every fragment to the server that it belongs to, with the pool systems' worker
(window, pacing, ECN, retransmission), and the server returns each sum to each worker. On a server's
link that is W times the gradient each way, which bounds the time from below (docs/baselines.md).
"""

from __future__ import annotations

from testbed.protocols import pool_worker, ps_server, server_store, sizes, wire
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.jit import njit


class WorkerRules(pool_worker.Stateless, pool_worker.Rules):
    """Those of most systems: no switch aggregates, so no index is needed."""


class ServerRules(pool_worker.Stateless, server_store.Rules):
    """The same."""


def new_worker(
    spec: HostSpec, gradients: pool_worker.Gradients | None = None
) -> pool_worker.Worker:
    """A worker machine; its destinations are the servers' numbers once `shard` has seen them."""
    return pool_worker.new_worker(spec, WorkerRules(), gradients)


def new_server(spec: HostSpec) -> ps_server.Server:
    """A parameter server machine."""
    job = spec.job
    return ps_server.new_server(
        server_store.new_server(spec, ServerRules()),
        sizes.frame_ps(job.values, job.bitmap_width, spec.rate_bps),
        sizes.frame_bytes(job.values, job.bitmap_width),
        job.burst_ns * 1000,
    )


@njit(cache=True)
def shard(packets, destinations, count, fragments, servers):
    """Send each of `count` packets to its fragment's server: fragment of the iteration modulo
    `servers`."""
    for i in range(count):
        destinations[i] = wire.fragment(packets[i]) % fragments % servers
