"""ESA's hosts: the pool systems' worker and server with ESA's priorities and index.

The module is the system's entry in the testbed: `new_worker` and `new_server` make the machines
from a role's specification (testbed.workload.plan), and the step functions drive them.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import pool_server, pool_worker, priority, wire
from testbed.protocols.counters import new_counters
from testbed.protocols.floats import no_worker_floats
from testbed.protocols.index import MODES
from testbed.protocols.lag import new_lag
from testbed.protocols.positions import no_positions
from testbed.protocols.status import new_status
from testbed.protocols.values import hash_shift


def new_worker(spec: dict, gradients: tuple[np.ndarray, np.ndarray] | None = None):
    """A worker machine. `gradients`, for a trace with values: (own, sums), both int32[I, F * V]."""
    c = np.zeros(pool_worker.CONFIGURATION, np.int64)
    c[pool_worker.JOB] = spec["job"]
    c[pool_worker.NUMBER] = spec["worker"]
    c[pool_worker.WORKERS] = spec["workers"]
    c[pool_worker.SEED] = spec["seed"]
    c[pool_worker.BITMAP_WORDS] = spec["bitmap_width"] // 32
    c[pool_worker.SHIFT] = hash_shift(spec["workers"])
    c[pool_worker.WINDOW] = spec["window"]
    frame_bits = 8 * wire.frame_bytes(spec["values"], spec["bitmap_width"])
    rate_bps = spec["rate_bps"]
    c[pool_worker.PACE_PS] = frame_bits * 10**12 // rate_bps if rate_bps else 0
    c[pool_worker.BURST_PS] = spec["burst_ns"] * 1000
    c[pool_worker.TIMEOUT_NS] = spec["timeout_ns"]
    c[pool_worker.LEAST_TIMEOUT_NS] = spec["least_timeout_ns"]
    c[pool_worker.MOST_TIMEOUT_NS] = spec["most_timeout_ns"]
    c[pool_worker.INDEX_MODE] = MODES[spec["index"]]
    c[pool_worker.POOL] = spec["pool"]
    c[pool_worker.POLICY] = priority.POLICIES[spec["priority"]]
    c[pool_worker.COMMUNICATION_NS] = max(1, spec["communication_ns"])
    c[pool_worker.COMPUTATION_NS] = max(1, spec["computation_ns"])
    c[pool_worker.ITERATIONS] = spec["iterations"]
    s = np.zeros(pool_worker.STATE, np.int64)
    s[pool_worker.CREDIT] = spec["window"] * pool_worker.UNIT
    nothing = np.zeros((0, 0), np.int32)
    own, sums = gradients if gradients is not None else (nothing, nothing)
    return pool_worker.Worker(
        c=c,
        s=s,
        priority=np.zeros(len(spec["tensors"]), np.int64),
        asks=np.zeros(4096, np.int64),
        recorded=own,
        sums=sums,
        positions=no_positions(),
        floats=no_worker_floats(),
        counters=new_counters(),
        status=new_status(),
        lag=new_lag(),
    )


def new_server(spec: dict) -> pool_server.Server:
    """A parameter server machine."""
    c = np.zeros(pool_server.CONFIGURATION, np.int64)
    c[pool_server.JOB] = spec["job"]
    c[pool_server.WORKERS] = spec["workers"]
    c[pool_server.FRAGMENTS] = spec["fragments"]
    c[pool_server.VALUES] = spec["values"]
    c[pool_server.BITMAP_WORDS] = spec["bitmap_width"] // 32
    c[pool_server.ITERATIONS] = spec["iterations"]
    c[pool_server.REMIND] = int(spec["reminder"])
    c[pool_server.DELAY_NS] = spec["reminder_delay_ns"]
    c[pool_server.LEAST_DELAY_NS] = spec["least_reminder_delay_ns"]
    c[pool_server.MOST_DELAY_NS] = spec["most_reminder_delay_ns"]
    c[pool_server.INDEX_MODE] = MODES[spec["index"]]
    c[pool_server.POOL] = spec["pool"]
    if spec["rate_bps"]:
        # An answer takes a frame's time on the link; at most half of it is for answers.
        frame_bits = 8 * wire.frame_bytes(spec["values"], spec["bitmap_width"])
        c[pool_server.PROMPT_PS] = 2 * frame_bits * 10**12 // spec["rate_bps"]
    return pool_server.new_server(c, [node for node, _ in spec["switches"]], new_counters())
