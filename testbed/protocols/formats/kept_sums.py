"""The sums that a worker has received, kept for a comparison of runs and ranks (option
`virtual.keep_sums`)."""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols import wire
from testbed.protocols.host_spec import HostSpec, JobSpec


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


def of_all_ranks(job: JobSpec) -> list[bool]:
    """Of each tensor, whether all ranks receive all its sums: not of calls with a part for each."""
    return [share == 0 for share, _, _ in job.shares] or [True] * len(job.tensors)


def by_position(spec: HostSpec, sums: np.ndarray) -> np.ndarray:
    """uint32[I, N], the kept words that all ranks receive, in the order of the model's values:
    without what fills a tensor's last fragment up."""
    first, values, kept = spec.job.first_fragments, spec.job.values, of_all_ranks(spec.job)
    starts = [int(place) * values for place in first[:-1]]
    return np.concatenate(
        [sums[:, :0]]
        + [
            sums[:, start : start + tensor.values]
            for start, tensor, is_kept in zip(starts, spec.job.tensors, kept, strict=True)
            if is_kept
        ],
        axis=1,
    )
