"""ESA's hosts: the pool systems' worker and server with ESA's priorities and index.

The module is the system's entry in the testbed: `new_worker` and `new_server` make the machines
from a role's specification (testbed.derived.host_specs), and the step functions drive them.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import pool_worker, priority, server_store, sizes, stripes
from testbed.protocols import worker as wk
from testbed.protocols.counters import new_counters
from testbed.protocols.floats import no_worker_floats
from testbed.protocols.index import MODES
from testbed.protocols.lag import new_lag
from testbed.protocols.positions import no_positions
from testbed.protocols.progress import new_progress
from testbed.protocols.sizes import fragments_of
from testbed.protocols.status import new_status


def new_worker(spec: dict, gradients: tuple[np.ndarray, np.ndarray] | None = None):
    """A worker machine. `gradients`, for a trace with values: (own, sums), both int32[I, F * V]."""
    c = wk.configuration(spec)
    c[wk.INDEX_MODE] = MODES[spec["index"]]
    c[wk.POOL] = spec["pool"]
    c[wk.POLICY] = priority.POLICIES[spec["priority"]]
    c[wk.COMMUNICATION_NS] = max(1, spec["communication_ns"])
    c[wk.COMPUTATION_NS] = max(1, spec["computation_ns"])
    s = np.zeros(wk.STATE, np.int64)
    s[wk.CREDIT] = spec["window"] * wk.UNIT
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
        stripes=stripes.one_stripe(),
        floats=no_worker_floats(),
        counters=new_counters(),
        status=new_status(),
        lag=new_lag(),
    )


def new_server(spec: dict) -> server_store.Server:
    """A parameter server machine."""
    c = np.zeros(server_store.CONFIGURATION, np.int64)
    c[server_store.JOB] = spec["job"]
    c[server_store.WORKERS] = spec["workers"]
    c[server_store.FRAGMENTS] = spec["fragments"]
    c[server_store.VALUES] = spec["values"]
    c[server_store.BITMAP_WORDS] = spec["bitmap_width"] // 32
    c[server_store.ITERATIONS] = spec["iterations"]
    c[server_store.REMIND] = int(spec["reminder"])
    c[server_store.DELAY_NS] = spec["reminder_delay_ns"]
    c[server_store.LEAST_DELAY_NS] = spec["least_reminder_delay_ns"]
    c[server_store.MOST_DELAY_NS] = spec["most_reminder_delay_ns"]
    c[server_store.INDEX_MODE] = MODES[spec["index"]]
    c[server_store.POOL] = spec["pool"]
    # An answer takes a frame's time on the link; at most half of it is for answers.
    frame_ps = sizes.frame_ps(spec["values"], spec["bitmap_width"], spec["rate_bps"])
    c[server_store.PROMPT_PS] = 2 * frame_ps
    server = server_store.new_server(c, [node for node, _ in spec["switches"]], new_counters())
    if not (spec["reminder"] and spec["switches"]):
        return server
    first = fragments_of([tensor["values"] for tensor in spec["tensors"]], spec["values"])
    return server._replace(progress=new_progress(first, spec["workers"]))
