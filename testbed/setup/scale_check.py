"""What a model's `scale` does to an experiment: tensors shrink, and windows do not.

A worker that sends a tensor of many windows keeps the same fragments in flight as at full size. If
the tensor is shorter than a few windows, its first and last fragments are in flight together, and
tensors overtake each other, fill the switch memory and wait for each other in ways in which they do
not at full size.
"""

from __future__ import annotations

from testbed.setup.records import JobSetup, Setup

WINDOWS = 4  # a tensor shorter than so many windows does not behave as a long one
# A window that was scaled along with a model has at least so many fragments. In a smaller one a
# single fragment is a large part of it, and packets are no longer small.
LEAST_WINDOW = 16


def warnings(setup: Setup) -> list[str]:
    """Warnings about the jobs whose scale makes long tensors short, or windows too small."""
    found = (_warning(setup, job) for job in setup.jobs.values())
    return [text for text in found if text]


def _warning(setup: Setup, job: JobSetup) -> str:
    scale, platform = job.job.scale, setup.platform
    if job.job.is_program or job.job.has_ranks or scale >= 1:
        return ""
    if platform.full_size is not None:
        return _of_window(job)
    limit = WINDOWS * job.window * platform.values
    sizes = job.trace.sizes
    short = [size for size in sizes if size < limit <= size / scale]
    if not short:
        return ""
    remedy = "scale_windows: yes" if platform.virtual is not None else "a smaller window"
    return (
        f"job {job.name}: scale {scale:g} makes {len(short)} of {len(sizes)} tensors, with"
        f" {100 * sum(short) / sum(sizes):.0f} % of the values, shorter than {WINDOWS} windows of"
        f" {job.window} fragments, which they are not at full size. How systems compare may depend"
        f" on it: take a larger scale, or {remedy} (docs/models.md)"
    )


def _of_window(job: JobSetup) -> str:
    if job.window >= LEAST_WINDOW:
        return ""
    return (
        f"job {job.name}: at scale {job.job.scale:g}, scale_windows makes a window of {job.window}"
        " fragments, in which a single one is much. How systems compare may depend on it: take a"
        f" scale of at least {job.job.scale * LEAST_WINDOW / job.window:.2g} (docs/models.md)"
    )
