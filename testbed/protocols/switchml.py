"""SwitchML's hosts: workers alone. The system's entry: `new_worker` makes the machine from a role's
specification (testbed.workload.plan), and the functions of switchml_worker drive it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols import pool_worker as pw
from testbed.protocols import switchml_worker as sw
from testbed.protocols import wire
from testbed.protocols.book import fragments_of
from testbed.protocols.counters import new_counters
from testbed.protocols.lag import new_lag
from testbed.protocols.status import new_status
from testbed.protocols.stream import new_stream
from testbed.protocols.values import hash_shift


class Blocks(NamedTuple):
    """Recorded gradients of a worker; I iterations, F fragments of V values."""

    own: np.ndarray  # float32[I, F * V]
    exponents: np.ndarray  # int8[I, F]
    sums: np.ndarray  # int32[I, F * V], of all workers' quantised values


NOTHING_RECORDED = Blocks(
    np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int8), np.zeros((0, 0), np.int32)
)


def new_worker(spec: dict, recorded: Blocks | None = None) -> sw.Worker:
    """A worker machine; `recorded` for a trace with values."""
    blocks = NOTHING_RECORDED if recorded is None else recorded
    slots = spec["window"]
    c = np.zeros(pw.CONFIGURATION, np.int64)
    c[pw.JOB] = spec["job"]
    c[pw.NUMBER] = spec["worker"]
    c[pw.WORKERS] = spec["workers"]
    c[pw.SEED] = spec["seed"]
    c[pw.BITMAP_WORDS] = spec["bitmap_width"] // 32
    c[pw.SHIFT] = hash_shift(spec["workers"])
    c[pw.WINDOW] = slots
    frame_bits = 8 * wire.frame_bytes(spec["values"], spec["bitmap_width"])
    rate_bps = spec["rate_bps"]
    c[pw.PACE_PS] = frame_bits * 10**12 // rate_bps if rate_bps else 0
    c[pw.BURST_PS] = spec["burst_ns"] * 1000
    c[pw.TIMEOUT_NS] = spec["timeout_ns"]
    c[pw.LEAST_TIMEOUT_NS] = spec["least_timeout_ns"]
    c[pw.MOST_TIMEOUT_NS] = spec["most_timeout_ns"]
    c[pw.ITERATIONS] = spec["iterations"]
    s = np.zeros(sw.STATE, np.int64)
    s[sw.EARLIEST_NS] = sw.NEVER
    s[sw.FREE] = slots
    first = fragments_of([tensor["values"] for tensor in spec["tensors"]], spec["values"])
    return sw.Worker(
        c=c,
        s=s,
        stream=new_stream(first, slots, recorded is not None),
        chunk=np.arange(slots, dtype=np.int64),
        busy=np.zeros(slots, np.uint8),
        attempts=np.zeros(slots, np.uint8),
        sent_ns=np.zeros(slots, np.int64),
        due_ns=np.zeros(slots, np.int64),
        free=np.arange(slots, dtype=np.int32),  # in order, hence a heap
        exponent=np.full(int(first[-1]), sw.UNKNOWN, np.int16),
        own_exponent=blocks.exponents,
        recorded=blocks.own,
        sums=blocks.sums,
        counters=new_counters(),
        status=new_status(),
        lag=new_lag(),
    )
