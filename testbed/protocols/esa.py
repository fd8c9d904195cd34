"""ESA's hosts: the pool systems' worker and server with ESA's priorities and index.

The module is the system's entry in the testbed: `new_worker` and `new_server` make the machines
from a role's specification, and the step functions drive them.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import (
    pool_worker,
    priority,
    server_store,
    sizes,
    stripes,
    worker_state,
)
from testbed.protocols.counters import new_counters
from testbed.protocols.floats import no_worker_floats
from testbed.protocols.given import no_values
from testbed.protocols.host_spec import HostSpec, PoolSpec, ServerSpec, ServerStripes
from testbed.protocols.index import MODES
from testbed.protocols.lag import new_lag
from testbed.protocols.positions import no_positions
from testbed.protocols.progress import new_progress
from testbed.protocols.records import new_record
from testbed.protocols.status import new_status

Gradients = tuple[np.ndarray, np.ndarray]  # of a trace: a worker's own, and the sums of all workers


def new_worker(spec: HostSpec, gradients: Gradients | None = None) -> pool_worker.Worker:
    """A worker machine. `gradients`, for a trace with values: (own, sums), both int32[I, F * V]."""
    options = spec.options_of(PoolSpec)
    return worker_with(spec, options.pool, options.index, options.priority, gradients)


def new_server(spec: HostSpec) -> server_store.Server:
    """A parameter server machine."""
    options = spec.options_of(PoolSpec)
    return server_with(spec, options, options.pool, options.index)


def worker_without_pool(spec: HostSpec, gradients: Gradients | None = None) -> pool_worker.Worker:
    """The same of a system in which no switch aggregates."""
    return worker_with(spec, 1, "consecutive", "constant", gradients)


def server_without_pool(spec: HostSpec) -> server_store.Server:
    """The same of a system in which no switch aggregates."""
    return server_with(spec, spec.options_of(ServerSpec), 1, "consecutive")


def worker_with(
    spec: HostSpec, pool: int, index: str, policy: str, gradients: Gradients | None
) -> pool_worker.Worker:
    """A worker machine with `pool` aggregators, a mode of `index` and a `priority` policy."""
    config = worker_state.configuration(
        spec,
        index_mode=MODES[index],
        pool=pool,
        policy=priority.POLICIES[policy],
        communication_ns=max(1, spec.job.communication_ns),
        computation_ns=max(1, spec.job.computation_ns),
    )
    state = new_record(worker_state.STATE, credit=spec.options.window * worker_state.UNIT)
    nothing = np.zeros((0, 0), np.int32)
    own, sums = gradients if gradients is not None else (nothing, nothing)
    return pool_worker.Worker(
        config=config,
        state=state,
        priority=np.zeros(len(spec.job.tensors), np.int64),
        retransmit_requests=np.zeros(4096, np.int64),
        recorded=own,
        sums=sums,
        positions=no_positions(),
        stripes=stripes.one_stripe(),
        floats=no_worker_floats(),
        given=no_values(),
        counters=new_counters(),
        status=new_status(),
        lag=new_lag(),
    )


def server_with(spec: HostSpec, options: ServerSpec, pool: int, index: str) -> server_store.Server:
    """A parameter server machine with `pool` aggregators and a mode of `index`."""
    job = spec.job
    # An answer takes a frame's time on the link; at most half of it is for answers.
    frame_ps = sizes.frame_ps(job.values, job.bitmap_width, spec.rate_bps)
    config = new_record(
        server_store.CONFIG,
        job=job.number,
        workers=job.workers,
        fragments=job.fragments,
        values=job.values,
        bitmap_words=job.bitmap_width // 32,
        iterations=job.iterations,
        # Who begins an iteration has received all of the one before, and each server has a part of
        # every iteration. Of a program's round it may have none.
        ahead=job.iterations if job.program else 1,
        remind=int(options.reminder),
        delay_ns=options.reminder_delay_ns,
        min_delay_ns=options.min_reminder_delay_ns,
        max_delay_ns=options.max_reminder_delay_ns,
        index_mode=MODES[index],
        pool=pool,
        omit_zeros=int(job.omit_zeros),
        short=int(job.value_bits == 16),
        rounded_bits=sizes.rounded_bits(job.workers),
        request_ps=2 * frame_ps,
    )
    nodes = [switch.number for switch in options.switches]
    server = server_store.new_server(config, nodes, new_counters())
    if any(switch.later for switch in options.switches):
        reached = tuple(int(not switch.later) for switch in options.switches)
        planned = ServerStripes((job.fragments,), (reached,))
        server = server._replace(stripes=stripes.of_server(planned))
    if not (options.reminder and nodes):
        return server
    return server._replace(progress=new_progress(job.first_fragments, job.workers))
