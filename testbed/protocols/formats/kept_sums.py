"""The sums that a worker has received, kept for a comparison of runs and ranks (option
`virtual.keep_sums`)."""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols import wire
from testbed.protocols.host_spec import HostSpec


def new_sums(spec: HostSpec) -> np.ndarray:
    """uint32[I, F * V], the words of all results; fragment f's begin at f * V. Empty if they are
    not kept."""
    job = spec.job
    shape = (job.iterations, job.fragments * job.values) if job.keep_sums else (0, 0)
    return np.zeros(shape, np.uint32)


@njit(cache=True)
def keep(sums, iteration, fragment, row, base, count, values):
    """Keep the first `count` of the `values` values of a result, from word `base` of a row on."""
    if sums.shape[0] == 0:
        return
    start = fragment * values
    for i in range(count):
        sums[iteration, start + i] = wire.swap(row[base + i])


def by_position(spec: HostSpec, sums: np.ndarray) -> np.ndarray:
    """uint32[I, N], the kept words in the order of the model's values: without what fills a
    tensor's last fragment up."""
    first, values = spec.job.first_fragments, spec.job.values
    starts = [int(place) * values for place in first[:-1]]
    return np.concatenate(
        [
            sums[:, start : start + tensor.values]
            for start, tensor in zip(starts, spec.job.tensors, strict=True)
        ],
        axis=1,
    )
