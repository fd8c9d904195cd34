"""SwitchML's hosts: workers alone. The system's entry: `new_worker` makes the machine from a role's
specification, and the functions of switchml_worker drive it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols import switchml_worker, worker_state
from testbed.protocols.counters import new_counters
from testbed.protocols.given import no_values
from testbed.protocols.host_spec import HostSpec, SwitchmlSpec
from testbed.protocols.lag import new_lag
from testbed.protocols.records import new_record
from testbed.protocols.status import new_status
from testbed.protocols.stream import new_stream


class Blocks(NamedTuple):
    """Recorded gradients of a worker; I iterations, F fragments of V values."""

    own: np.ndarray  # float32[I, F * V]
    exponents: np.ndarray  # int8[I, F]
    sums: np.ndarray  # int32[I, F * V], of all workers' quantised values


NOTHING_RECORDED = Blocks(
    np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int8), np.zeros((0, 0), np.int32)
)


def new_worker(spec: HostSpec, recorded: Blocks | None = None) -> switchml_worker.Worker:
    """A worker machine; `recorded` for a trace with values."""
    blocks = NOTHING_RECORDED if recorded is None else recorded
    options = spec.options_of(SwitchmlSpec)
    slots = options.window
    config = worker_state.configuration(spec, sets=options.sets)
    state = new_record(switchml_worker.STATE, earliest_ns=worker_state.NEVER, free=slots)
    first = spec.job.first_fragments
    stream = new_stream(first, slots, recorded is not None)
    state["chunks"] = stream.tensor.size
    return switchml_worker.Worker(
        config=config,
        state=state,
        stream=stream,
        chunk=np.arange(slots, dtype=np.int64),
        busy=np.zeros(slots, np.uint8),
        attempts=np.zeros(slots, np.uint8),
        sent_ns=np.zeros(slots, np.int64),
        due_ns=np.zeros(slots, np.int64),
        free=np.arange(slots, dtype=np.int32),  # in order, so it is a heap
        exponent=np.full(int(first[-1]), switchml_worker.UNKNOWN, np.int16),
        own_exponent=blocks.exponents,
        recorded=blocks.own,
        sums=blocks.sums,
        given=no_values(),
        counters=new_counters(),
        status=new_status(),
        lag=new_lag(),
    )
