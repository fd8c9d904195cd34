"""Float gradients of a trace in block floating point, and the sums that a worker must receive.

The workers exchange the exponents that scale the values on the wire. This module computes the sums
from all workers' gradients, so a wrong exponent appears as a wrong sum.
"""

from __future__ import annotations

import numpy as np
from p4fabric.base.errors import UserError

from testbed.number_formats import FORMATS
from testbed.protocols import block_float
from testbed.protocols.formats import recorded_floats
from testbed.protocols.formats.recorded_floats import RecordedFloats
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.slot_worker import Blocks
from testbed.workload.gradients import all_gradients, quantise


def of_worker(spec: HostSpec) -> Blocks | RecordedFloats | None:
    """The recorded gradients of a worker's specification; None if values are generated.

    Workers beyond the recorded ones take the recorded ones' in turn, and iterations, too. Raises
    UserError for gradients that block floating point cannot carry."""
    source = spec.job.gradients
    if source is None:
        return None
    flat, workers = all_gradients(spec), spec.job.workers
    if FORMATS[spec.job.sum].is_float:
        return recorded_floats.of_workers(spec.job, spec.number, flat)
    iterations = flat.shape[1]
    blocks = flat.reshape(workers, iterations, -1, spec.job.values)
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
