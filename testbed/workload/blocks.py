"""Float gradients of a trace in block floating point, and the sums that a worker must receive.

The workers exchange the exponents that scale the values on the wire. This module computes the sums
from all workers' gradients, so a wrong exponent appears as a wrong sum.
"""

from __future__ import annotations

import numpy as np
from p4fabric.base.errors import UserError

from testbed.protocols import block_float
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.sizes import fragments_of
from testbed.protocols.switchml import Blocks
from testbed.workload.gradients import quantise, recorded_gradients


def of_worker(spec: HostSpec) -> Blocks | None:
    """The recorded gradients of a worker's specification; None if values are generated.

    Workers beyond the recorded ones take the recorded ones' in turn, and iterations, too. Raises
    UserError for gradients that block floating point cannot carry."""
    source = spec.job.gradients
    if source is None:
        return None
    recorded = recorded_gradients(source)
    values, layers = spec.job.values, recorded.trace.layers
    first = fragments_of([layer.values for layer in layers], values)
    iterations, workers = recorded.values.shape[1], spec.job.workers
    blocks = np.zeros((workers, iterations, int(first[-1]), values), np.float32)
    flat = blocks.reshape(workers, iterations, -1)
    for tensor, layer in enumerate(layers):
        start = int(first[tensor]) * values
        for worker in range(workers):
            for i in range(iterations):
                part = recorded.tensor(worker, i, tensor)
                flat[worker, i, start : start + layer.values] = part
    try:
        exponents = block_float.exponents(blocks)
    except ValueError as error:
        raise UserError(f"{source.trace}: {error}") from None
    largest = exponents.max(axis=0)[np.newaxis].astype(np.int64)
    if spec.job.value_bits < 32:
        scales = block_float.largest_short(spec.job.value_bits) * np.ldexp(1.0, -largest)
        steps = quantise(blocks, scales[..., np.newaxis])
        sums = block_float.rounded(steps.sum(axis=0, dtype=np.int32), workers)
    else:
        sums = block_float.quantise(blocks, largest, workers).sum(axis=0, dtype=np.int32)
    own = spec.number
    return Blocks(flat[own].copy(), exponents[own].copy(), sums.reshape(iterations, -1))
