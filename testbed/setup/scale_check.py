"""Effects of a model's `scale` on an experiment: tensors shrink, and windows do not.

A worker that sends a tensor of many windows keeps the same fragments in flight as at full size. If
the tensor is shorter than a few windows, its first and last fragments are in flight together, and
tensors overtake each other, fill the switch memory and wait for each other in ways in which they do
not at full size.
"""

from __future__ import annotations

from testbed.setup.job_setups import JobSetup, Setup

WINDOWS = 4  # a tensor shorter than so many windows does not behave as a long one
# A window that was scaled along with a model has at least so many fragments. In a smaller one a
# single fragment is a large part of it, and packets are no longer small.
LEAST_WINDOW = 16


def warnings(setup: Setup) -> list[str]:
    """Warnings about the jobs whose scale makes long tensors short, or windows too small, each for
    all jobs that it is true of."""
    named: dict[str, list[str]] = {}
    for job in setup.jobs.values():
        if text := _warning(setup, job):
            named.setdefault(text, []).append(job.name)
    return [f"{jobs_said(names)}: {text}" for text, names in named.items()]


def jobs_said(names: list[str]) -> str:
    """`job a`, `jobs a, b`, or how many they are."""
    if len(names) == 1:
        return f"job {names[0]}"
    return (
        f"jobs {', '.join(names)}" if len(names) <= 4 else f"{len(names)} jobs from {names[0]} on"
    )


def _warning(setup: Setup, job: JobSetup) -> str:
    """Without the job's name; "" if there is none."""
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
        f"scale {scale:g} makes {len(short)} of {len(sizes)} tensors, with"
        f" {100 * sum(short) / sum(sizes):.0f} % of the values, shorter than {WINDOWS} windows of"
        f" {job.window} fragments, which they are not at full size. How systems compare may depend"
        f" on it: take a larger scale, or {remedy} (docs/models.md)"
    )


def _of_window(job: JobSetup) -> str:
    if job.window >= LEAST_WINDOW:
        return ""
    return (
        f"at scale {job.job.scale:g}, scale_windows makes a window of {job.window}"
        " fragments, in which a single one is much. How systems compare may depend on it: take a"
        f" scale of at least {job.job.scale * LEAST_WINDOW / job.window:.2g} (docs/models.md)"
    )
