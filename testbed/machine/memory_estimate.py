"""The memory of a run's hosts, checked against the machine's before anything is built.

Otherwise the kernel may kill a run after an hour, without a message. The part that grows with an
experiment are the hosts' state machines, with their fragments. So the estimate makes machines of
the same kind with few fragments and extrapolates their size. The rest is about the same for all.
Making a machine loads numba. So a run that is small beyond doubt is let through without it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import UserError
from p4fabric.base.linux.memory_limits import address_space_bytes, advice, available_bytes

from testbed.protocols.sizes import frame_bytes

if TYPE_CHECKING:
    from testbed.protocols.host_spec import HostSpec
    from testbed.setup import JobSetup, Setup

BASE_BYTES = 350 << 20  # Python with its libraries, compiled code, figures
PROCESS_BYTES = 12 << 20  # of a host process on Mininet, beside its machine
PROGRAM_BYTES = 300 << 20  # of a rank's program: Python with a library for training, small arrays
FRAME_ROOM_BYTES = 1024  # of a fragment in flight, on its way and in queues: at least so much
FRAME_COPIES = 3  # that it has there
TIMES_BYTES = 250  # of a worker's iteration and tensor or node: times, and the row in the results
# More than a machine of any system takes: at all, and of a fragment beside its values. It may keep
# a fragment's values three times over.
MACHINE_BYTES = 256 << 10
FRAGMENT_BYTES = 256
LARGEST_FIXED = 4096  # fragments beyond which each more takes the same memory
GIB = 1 << 30

MachineBytes = Callable[["HostSpec"], int]


def estimate_bytes(setup: Setup, machine_bytes: MachineBytes | None = None) -> int:
    """Estimate of the most memory that a run takes. machine_bytes: the bytes of each machine; by
    default small ones are made and measured."""
    from testbed.setup.host_specs import with_members

    size_of = machine_bytes or _machine_bytes

    found: dict[tuple, int] = {}
    each = []
    for number, job in enumerate(setup.listed):
        kind = job.model, job.command, job.scale, job.workers, job.iterations
        if kind not in found:
            specs = with_members(setup, _placed(setup, number))
            roles = [role for spec in specs for role in (spec, *spec.members)]
            found[kind] = _job_bytes(roles, size_of)
        each.append(found[kind])
    if setup.platform.arrivals:  # not all of them at a time
        each = sorted(each)[-setup.platform.memory_parts :]
    processes = 0
    if setup.platform.virtual is None:
        processes = PROCESS_BYTES * sum(job.workers + 1 for job in setup.listed)
    at_once = min(len(os.sched_getaffinity(0)), 1 + len(setup.smaller))  # sizes of sampled layers
    return BASE_BYTES + at_once * sum(each) + processes


def _placed(setup: Setup, number: int) -> JobSetup:
    """A job; with hosts if it has none yet."""
    from testbed.experiment.schema_jobs import Placement
    from testbed.setup.build import start_job

    if number in setup.jobs:
        return setup.jobs[number]
    job, platform = setup.listed[number], setup.platform
    servers = platform.system.servers_per_job(platform.options)
    hosts = platform.topology.hosts[: job.workers + servers]
    return start_job(setup, number, job.started(0, Placement.of(hosts, job.workers)), 0)


def _job_bytes(roles: list[HostSpec], machine_bytes: MachineBytes) -> int:
    """The memory of the machines of a job's roles, and of their packets on the way."""
    found: dict[tuple, int] = {}  # by kind: those of a communicator are alike
    total = 0
    for spec in roles:
        job = spec.job
        kind = job.number, spec.role
        if kind not in found:
            found[kind] = machine_bytes(spec)
            if spec.is_worker:
                frame = frame_bytes(job.values, job.bitmap_width)
                found[kind] += spec.options.window * max(FRAME_ROOM_BYTES, FRAME_COPIES * frame)
                times = job.iterations * (len(job.tensors) + _nodes(spec)) * TIMES_BYTES
                found[kind] += PROGRAM_BYTES if job.program else times
        total += found[kind]
    return total


def _nodes(spec: HostSpec) -> int:
    """The nodes of a rank of a program, of the one of its machines that has their times."""
    from testbed.traffic.rank_calls import load_program

    part = spec.program
    return len(load_program(part.path).ranks[part.rank]) if part and not part.port else 0


def _machine_bytes(spec: HostSpec) -> int:
    job = spec.job
    tensors = len(job.tensors)
    some = 1 + LARGEST_FIXED // tensors
    few, more = (_bytes_with(spec, count) for count in (some, 2 * some))
    fragments = few + (more - few) * (job.fragments - some * tensors) // (some * tensors)
    return fragments + _slot_bytes(spec) + _recorded_bytes(spec)


def _slot_bytes(spec: HostSpec) -> int:
    """The memory of what a parameter server holds of fragments that are under way."""
    from testbed.protocols import server_store

    if spec.is_worker:
        return 0
    _, slots = server_store.room_of(spec)
    numbers = 8 * len(server_store.BY_SLOT) + 4 * (spec.job.bitmap_width // 32)
    floats = 16 if spec.job.gradients is not None or spec.job.fixed_scale else 0
    return slots * (numbers + (4 + floats) * spec.job.values)


def _recorded_bytes(spec: HostSpec) -> int:
    """The memory of recorded gradients: this worker's and the sums, of some iterations."""
    job = spec.job
    if job.gradients is None:
        return 0
    return 2 * 4 * job.values * job.fragments * job.iterations


def machine_bytes_at_most(spec: HostSpec) -> int:
    """More than a machine takes, from its specification alone."""
    fragment = FRAGMENT_BYTES + 3 * 4 * spec.job.values
    return MACHINE_BYTES + fragment * spec.job.fragments + _recorded_bytes(spec)


def _bytes_with(spec: HostSpec, fragments: int) -> int:
    """The memory of a machine whose tensors have so many fragments each."""
    from testbed.schemes import new_machine

    job = spec.job
    small = replace(
        job,
        tensors=tuple(replace(each, values=fragments * job.values) for each in job.tensors),
        fragments=fragments * len(job.tensors),
        gradients=None,
    )
    return sum(array.nbytes for array in _arrays(new_machine(replace(spec, job=small))))


def _arrays(part: Any) -> Iterable[Any]:
    """The arrays of a machine, without those that take memory only where they are used."""
    from testbed.protocols import floats, host_sums, ps, send_scoreboard, server_store

    skipped: tuple[str, ...] = ()
    if isinstance(part, send_scoreboard.SendScoreboard):
        skipped = send_scoreboard.FLIGHTS
    elif isinstance(part, host_sums.Member):
        skipped = host_sums.HELD
    elif isinstance(part, server_store.Server):
        skipped = server_store.BY_SLOT
    elif isinstance(part, floats.ServerFloats):
        skipped = part._fields
    elif isinstance(part, ps.Server):
        skipped = ("finished",)
    for name, each in zip(part._fields, part, strict=True):
        if isinstance(each, tuple):
            yield from _arrays(each)
        elif name not in skipped:
            yield each


def require(runs: Mapping[str, Setup], processes: int = 1) -> None:
    """Make sure that the largest of some runs, by their titles, fit, `processes` of them at a time.

    Raises UserError with what they take and what helps."""
    if not runs:
        return
    free = available_bytes()
    limit = address_space_bytes()
    if limit is not None and all(each.platform.virtual is not None for each in runs.values()):
        free = min(free, limit)  # of each process, and a virtual run is one
    at_most = _largest_first(runs, machine_bytes_at_most)
    if sum(size for size, _ in at_most[:processes]) <= free // 2:
        return
    sizes = _largest_first(runs)
    largest, title = sizes[0]
    if largest > free:
        raise UserError(
            f"{title} takes about {largest / GIB:.1f} GiB of memory, and {free / GIB:.1f} GiB are"
            f" free: take a smaller scale, fewer workers or a larger values_per_packet; {advice()}"
        )
    sums = list(itertools.accumulate(size for size, _ in sizes[:processes]))
    if sums[-1] > free:
        fitting = sum(each <= free for each in sums)
        raise UserError(
            f"{len(sums)} points at a time take up to {sums[-1] / GIB:.1f} GiB of memory, and"
            f" {free / GIB:.1f} GiB are free: run the sweep with --processes {fitting}"
        )


def _largest_first(
    runs: Mapping[str, Setup], machine_bytes: MachineBytes | None = None
) -> list[tuple[int, str]]:
    """Estimate and title of each run."""
    sizes = [(estimate_bytes(each, machine_bytes), title) for title, each in runs.items()]
    return sorted(sizes, reverse=True)
