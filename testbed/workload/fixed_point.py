"""Float gradients of a trace in ATP's fixed point, and as they are for the float fallback.

A worker sends round(g * scale) as int32. The scale is 10^6 for all gradients (in gradients.py it
depends on the largest). The received integers are exactly the sum of the workers' integers; the
error of the sum of the floats is at most W / (2 * scale). Fragments that do not fit are sent as
floats (testbed.protocols.floats).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.number_formats import FORMATS
from testbed.protocols.atp import positions_of
from testbed.protocols.floats import LARGEST, WorkerFloats, new_worker_floats
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.sizes import fragments_of
from testbed.workload import gradients as integers
from testbed.workload.gradients import recorded_gradients


def quantise(gradients: np.ndarray, scale: int) -> tuple[np.ndarray, np.ndarray]:
    """(round(g * scale) as int32, where it is over); what is over is limited to LARGEST + 1."""
    steps = np.rint(gradients.astype(np.float64) * scale)
    over = np.abs(steps) > LARGEST
    return np.clip(steps, -LARGEST - 1, LARGEST + 1).astype(np.int32), over


def of_worker(spec: HostSpec) -> tuple[tuple[np.ndarray, np.ndarray], WorkerFloats] | None:
    """((own, sums), floats) of a worker's specification; None if values are generated.

    own, sums: int32[I, F * V], sums modulo 2^32. Fragment f's values start at f * V."""
    source = spec.job.gradients
    if source is None:
        return None
    scale = positions_of(spec).fixed_point_scale
    recorded = recorded_gradients(source)
    values, layers = spec.job.values, recorded.trace.layers
    first = fragments_of([layer.values for layer in layers], values)
    shape = (recorded.values.shape[1], int(first[-1]) * values)
    own, sums = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    over = np.zeros(shape, bool)
    floats = np.zeros(shape, np.float32)
    float_sums, sizes = np.zeros(shape), np.zeros(shape)
    for i in range(shape[0]):
        for tensor, layer in enumerate(layers):
            start = int(first[tensor]) * values
            part = slice(start, start + layer.values)
            for worker in range(spec.job.workers):
                gradients = recorded.tensor(worker, i, tensor)
                steps, beyond = quantise(gradients, scale)
                sums[i, part] += steps
                float_sums[i, part] += gradients
                sizes[i, part] += np.abs(gradients)
                if worker == spec.number:
                    own[i, part], over[i, part], floats[i, part] = steps, beyond, gradients
    fragments = np.any(over.reshape(shape[0], -1, values), axis=2).astype(np.uint8)
    return (own, sums), new_worker_floats(fragments, floats, float_sums, sizes)


def or_gradients(spec: HostSpec) -> tuple[Any, Any]:
    """Recorded gradients where a server adds up floats, and these; None where there are none."""
    if spec.job.value_bits < 32 or FORMATS[spec.job.sum].is_float:
        return integers.of_worker(spec), None
    return of_worker(spec) or (None, None)
