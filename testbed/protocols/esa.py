"""ESA's hosts: the pool systems' worker and server with ESA's priorities and index.

The module is the system's entry in the testbed: `new_worker` and `new_server` make the machines
from a role's specification, and the step functions drive them.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import pool_worker, priority, server_store, sizes, stripes
from testbed.protocols import worker as wk
from testbed.protocols.counters import new_counters
from testbed.protocols.floats import no_worker_floats
from testbed.protocols.host_spec import HostSpec, PoolOptions, ServerOptions
from testbed.protocols.index import MODES
from testbed.protocols.lag import new_lag
from testbed.protocols.positions import no_positions
from testbed.protocols.progress import new_progress
from testbed.protocols.status import new_status

Gradients = tuple[np.ndarray, np.ndarray]  # of a trace: a worker's own, and the sums of all workers


def new_worker(spec: HostSpec, gradients: Gradients | None = None) -> pool_worker.Worker:
    """A worker machine. `gradients`, for a trace with values: (own, sums), both int32[I, F * V]."""
    options = spec.options_of(PoolOptions)
    return worker_with(spec, options.pool, options.index, options.priority, gradients)


def new_server(spec: HostSpec) -> server_store.Server:
    """A parameter server machine."""
    options = spec.options_of(PoolOptions)
    return server_with(spec, options, options.pool, options.index)


def worker_without_pool(spec: HostSpec, gradients: Gradients | None = None) -> pool_worker.Worker:
    """The same of a system in which no switch aggregates."""
    return worker_with(spec, 1, "consecutive", "constant", gradients)


def server_without_pool(spec: HostSpec) -> server_store.Server:
    """The same of a system in which no switch aggregates."""
    return server_with(spec, spec.options_of(ServerOptions), 1, "consecutive")


def worker_with(
    spec: HostSpec, pool: int, index: str, policy: str, gradients: Gradients | None
) -> pool_worker.Worker:
    """A worker machine with `pool` aggregators, a mode of `index` and a `priority` policy."""
    c = wk.configuration(spec)
    c[wk.INDEX_MODE] = MODES[index]
    c[wk.POOL] = pool
    c[wk.POLICY] = priority.POLICIES[policy]
    c[wk.COMMUNICATION_NS] = max(1, spec.job.communication_ns)
    c[wk.COMPUTATION_NS] = max(1, spec.job.computation_ns)
    s = np.zeros(wk.STATE, np.int64)
    s[wk.CREDIT] = spec.options.window * wk.UNIT
    nothing = np.zeros((0, 0), np.int32)
    own, sums = gradients if gradients is not None else (nothing, nothing)
    return pool_worker.Worker(
        c=c,
        s=s,
        priority=np.zeros(len(spec.job.tensors), np.int64),
        asks=np.zeros(4096, np.int64),
        recorded=own,
        sums=sums,
        positions=no_positions(),
        stripes=stripes.one_stripe(),
        floats=no_worker_floats(),
        counters=new_counters(),
        status=new_status(),
        lag=new_lag(),
    )


def server_with(
    spec: HostSpec, options: ServerOptions, pool: int, index: str
) -> server_store.Server:
    """A parameter server machine with `pool` aggregators and a mode of `index`."""
    job = spec.job
    c = np.zeros(server_store.CONFIGURATION, np.int64)
    c[server_store.JOB] = job.number
    c[server_store.WORKERS] = job.workers
    c[server_store.FRAGMENTS] = job.fragments
    c[server_store.VALUES] = job.values
    c[server_store.BITMAP_WORDS] = job.bitmap_width // 32
    c[server_store.ITERATIONS] = job.iterations
    c[server_store.REMIND] = int(options.reminder)
    c[server_store.DELAY_NS] = options.reminder_delay_ns
    c[server_store.LEAST_DELAY_NS] = options.min_reminder_delay_ns
    c[server_store.MOST_DELAY_NS] = options.max_reminder_delay_ns
    c[server_store.INDEX_MODE] = MODES[index]
    c[server_store.POOL] = pool
    # An answer takes a frame's time on the link; at most half of it is for answers.
    frame_ps = sizes.frame_ps(job.values, job.bitmap_width, spec.rate_bps)
    c[server_store.PROMPT_PS] = 2 * frame_ps
    nodes = [switch.number for switch in options.switches]
    server = server_store.new_server(c, nodes, new_counters())
    if not (options.reminder and nodes):
        return server
    return server._replace(progress=new_progress(job.first_fragments, job.workers))
