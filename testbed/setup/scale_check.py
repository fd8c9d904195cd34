"""What a model's `scale` does to an experiment: tensors shrink, and windows do not.

A worker that sends a tensor of many windows keeps the same fragments in flight as at full size. If
the tensor is shorter than a few windows, its first and last fragments are in flight together, and
tensors overtake each other, fill the switch memory and wait for each other in ways in which they do
not at full size.
"""

from __future__ import annotations

from testbed.setup.records import JobSetup, Setup

WINDOWS = 4  # a tensor shorter than so many windows does not behave as a long one


def warnings(setup: Setup) -> list[str]:
    """Warnings about the jobs whose scale makes long tensors short."""
    found = (_warning(setup.platform.values, job) for job in setup.jobs.values())
    return [text for text in found if text]


def _warning(values: int, job: JobSetup) -> str:
    scale = job.job.scale
    if job.job.is_program or job.job.has_ranks or scale >= 1:
        return ""
    limit = WINDOWS * job.window * values
    sizes = job.trace.sizes
    short = [size for size in sizes if size < limit <= size / scale]
    if not short:
        return ""
    return (
        f"job {job.name}: scale {scale:g} makes {len(short)} of {len(sizes)} tensors, with"
        f" {100 * sum(short) / sum(sizes):.0f} % of the values, shorter than {WINDOWS} windows of"
        f" {job.window} fragments, which they are not at full size. How systems compare may depend"
        " on it: take a larger scale, or a smaller window (docs/models.md)"
    )
