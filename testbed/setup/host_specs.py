"""From a Setup to one specification per host (testbed.protocols.host_spec)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil

from testbed.experiment.planned_faults import slow_windows
from testbed.experiment.program_jobs import block_fragments
from testbed.protocols.host_spec import (
    AggregatingSwitch,
    Compute,
    GridSpec,
    HostSpec,
    JobSpec,
    PlannedWorker,
    PoolSpec,
    RecordedGradients,
    RingSpec,
    ServerSpec,
    ServerStripes,
    SwitchmlSpec,
    SystemSpec,
    Tensor,
    WindowPositions,
)
from testbed.routing.plan import JobPlan
from testbed.routing.tree import switch_of
from testbed.setup import plan_entries
from testbed.setup.records import Communicator, JobSetup, Setup
from testbed.setup.timing import uplink_rate
from testbed.systems import SYSTEMS
from testbed.systems.options import (
    AtpOptions,
    EsaOptions,
    GridOptions,
    PoolOptions,
    SwitchmlOptions,
    WorkerOptions,
)
from testbed.topology import Topology, host_ip, switch_ip
from testbed.traffic.recording import Recording, Times, is_recording, load_recording

MILLION = 1_000_000
# A fragment whose remainder has to be pulled out of a switch comes later than the fragments sent
# after it, by a reminder's delay. A worker waits for this many of the shortest such delays before
# it takes a fragment for lost.
REMINDERS_OF_PATIENCE = 5
# Nobody knows how long a program will run, so its work so far counts.
PRIORITY_OF_PROGRAMS = {"esa": "esa_attained", "remaining": "attained"}


def host_specs(setup: Setup) -> list[HostSpec]:
    """The specifications of all hosts: of each job the workers in order, then its servers."""
    return [spec for job in setup.jobs.values() for spec in job_specs(setup, job)]


def host_kinds(setup: Setup) -> list[HostSpec]:
    """A small specification of each kind of host; those of one kind run the same compiled code."""
    kinds: dict[tuple, HostSpec] = {}
    seen = set()
    for job in setup.jobs.values():
        program = job.job.is_program
        if program in seen:
            continue
        seen.add(program)
        for spec in job_specs(setup, job):
            kind = spec.role, type(spec.options), spec.is_worker and program
            kinds.setdefault(kind, spec.small())
    return list(kinds.values())


def job_specs(setup: Setup, job: JobSetup) -> list[HostSpec]:
    """The specifications of one job's hosts: workers in order, then servers."""
    platform, group = setup.platform, job.group
    topology, entry = platform.topology, platform.system
    recording = load_recording(job.trace.path) if is_recording(job.trace.path) else None
    spec = _job_spec(setup, job, recording)
    options = entry.require("host_part")(setup, job)
    peers_of, worker_part = entry.require("peers"), entry.hook("worker_part")

    def address(node: str) -> str:
        number = topology.number(node)
        return host_ip(number) if topology.is_host(node) else switch_ip(number)

    def recorded_times(worker: int) -> tuple[tuple[Times, ...], ...]:
        if recording is None:
            return ()
        scale = job.job.scale if job.job.compute_scale is None else job.job.compute_scale
        return recording.scaled_times(worker, min(job.iterations, recording.steps), scale)

    specs = [
        HostSpec(
            role="worker",
            number=worker,
            host=host,
            address=address(host),
            peers=tuple(address(peer) for peer in peers_of(group, worker)),
            rate_bps=uplink_rate(platform, host),
            job=spec,
            options=options,
            compute=Compute(
                slow=tuple(slow_windows(setup.faults, job.name, worker)),
                speed_spread=round(MILLION * job.job.speed_spread),
                jitter=round(MILLION * job.job.compute_jitter),
                steps=recorded_times(worker),
            ),
            worker_part=worker_part and worker_part(setup, job, worker),
        )
        for worker, host in enumerate(group.workers)
    ]
    for server, host in enumerate(group.servers):
        peers = [switch_ip(topology.number(switch_of(topology, host)))]  # its gateway
        peers += [address(worker) for worker in group.workers]
        if isinstance(options, ServerSpec):
            peers += [switch.address for switch in options.switches]
        specs.append(
            HostSpec(
                role="ps",
                number=server,
                host=host,
                address=address(host),
                peers=tuple(peers),
                rate_bps=uplink_rate(platform, host),
                job=spec,
                options=options,
            )
        )
    return specs


def _job_spec(setup: Setup, job: JobSetup, recording: Recording | None) -> JobSpec:
    """What all hosts of a job have in common."""
    platform, trace, described = setup.platform, job.trace, job.job
    gradients = None
    if trace.gradients is not None:
        in_blocks = recording or platform.value_bits == 16
        gradients = RecordedGradients(
            str(trace.path),
            described.scale,
            described.buckets,
            steps=min(job.iterations, recording.steps) if recording else 0,
            block=block_fragments(described.workers, platform.values) * platform.values
            if in_blocks
            else 0,
        )
    return JobSpec(
        number=job.number,
        name=job.name,
        system=platform.system.name,
        seed=setup.seed,
        workers=described.workers,
        iterations=job.iterations,
        submitted_ns=described.submitted_ns,
        start_ns=described.start_ns,
        tensors=tuple(
            Tensor(layer.name, layer.values, layer.forward_ns, layer.backward_ns, layer.update_ns)
            for layer in trace.layers
        ),
        fragments=job.fragments,
        values=platform.values,
        bitmap_width=platform.bitmap_bits,
        gradients=gradients,
        communication_ns=job.communication_ns,
        # Without their values packets need less, how much less depends on the values.
        bound_ns=None if platform.omits_zeros else job.bound_ns,
        # Of a program it is not known: as much as it communicates.
        computation_ns=job.communication_ns if described.is_program else trace.compute_ns,
        burst_ns=job.timers.burst_ns,
        program=described.is_program,
        fixed_scale=_fixed_scale(setup, job),
        omit_zeros=platform.omits_zeros,
        value_bits=platform.value_bits,
    )


def _fixed_scale(setup: Setup, job: JobSetup) -> int:
    """Steps per 1.0 of a program's float32; 0: none are fixed."""
    if not job.job.is_program or job.job.numbers != "fixed":
        return 0
    return setup.platform.options_of(AtpOptions).fixed_point_scale


def servers_of(group: Communicator, worker: int) -> tuple[str, ...]:
    """A job's parameter servers."""
    return group.servers


def _switches(topology: Topology, names: Iterable[str]) -> tuple[AggregatingSwitch, ...]:
    numbers = [topology.number(name) for name in names]
    return tuple(AggregatingSwitch(number, switch_ip(number)) for number in numbers)


def worker_options(setup: Setup, job: JobSetup) -> SystemSpec:
    """What the workers of every system need."""
    options, timers = setup.platform.options_of(WorkerOptions), job.timers
    return SystemSpec(
        order=options.order,
        window=job.window,
        timeout_ns=options.timeout_ns or 0,
        min_timeout_ns=timers.min_timeout_ns,
        max_timeout_ns=timers.max_timeout_ns,
        min_patience_ns=REMINDERS_OF_PATIENCE * timers.min_reminder_delay_ns,
    )


def server_part(setup: Setup, job: JobSetup) -> ServerSpec:
    """What the hosts of a system with a parameter server need."""
    timers = job.timers
    return ServerSpec.of(
        worker_options(setup, job),
        reminder=True,  # without switches: asks workers for their missing fragments
        reminder_delay_ns=0,
        min_reminder_delay_ns=timers.min_reminder_delay_ns,
        max_reminder_delay_ns=timers.max_reminder_delay_ns,
    )


def pool_part(
    setup: Setup,
    job: JobSetup,
    index: str,
    priority: str = "constant",
    positions: WindowPositions | None = None,
) -> PoolSpec:
    """What the hosts of a system with a shared pool and a parameter server need."""
    platform, tree = setup.platform, job.group.tree
    options = platform.options_of(PoolOptions)
    if job.job.is_program:
        priority = PRIORITY_OF_PROGRAMS.get(priority, priority)
    first = len(tree.switches) if tree is not None else 0
    switches = tuple(
        replace(each, later=place >= first)
        for place, each in enumerate(_switches(platform.topology, job.group.reminded))
    )
    return PoolSpec.of(
        server_part(setup, job),
        pool=platform.aggregators,
        reminder=options.reminder,
        reminder_delay_ns=options.reminder_delay_ns or 0,
        switches=switches,
        index="position" if positions else index,
        priority=priority,
        positions=positions,
        window_rule=_window_rule(setup, job),
    )


def _window_rule(setup: Setup, job: JobSetup) -> str:
    """The rule of the window that the experiment chooses; `auto`: that of the memory. A program
    leaves fragment numbers out, so positions say nothing: what is in flight counts."""
    if job.job.is_program:
        return "in_flight"
    options = setup.platform.options_of(PoolOptions)
    if options.window_rule != "auto":
        return options.window_rule
    return "positions" if setup.platform.options_of(GridOptions).memory == "atp" else "in_flight"


def esa_part(setup: Setup, job: JobSetup) -> PoolSpec:
    """ESA: a pool whose index and priority the experiment chooses."""
    options = setup.platform.options_of(EsaOptions)
    return pool_part(setup, job, options.index, options.priority)


def atp_part(setup: Setup, job: JobSetup) -> PoolSpec:
    """ATP: a pool in which a fragment has the index of its window position."""
    options = setup.platform.options_of(AtpOptions)
    positions = WindowPositions(
        index=options.index,
        rehash=options.rehash,
        gap=options.gap,
        fixed_point_scale=options.fixed_point_scale,
    )
    return pool_part(setup, job, options.index, positions=positions)


def grid_part(setup: Setup, job: JobSetup) -> GridSpec:
    """GRID: the hosts of the system whose memory it uses, and the switches of its plan."""
    platform = setup.platform
    options = platform.options_of(GridOptions)
    priority, positions = "esa", None
    if options.memory == "atp":
        defaults = SYSTEMS["atp"].option_model.model_fields
        names = ("rehash", "gap", "fixed_point_scale")
        chosen = {name: defaults[name].default for name in names}
        if platform.links_fail or _has_several_paths(job.group.routed_plan):
            # Over several paths, an early result does not mean that another one is lost.
            chosen["gap"] = 0
        priority, positions = "constant", WindowPositions(index=options.index, **chosen)
    return GridSpec.of(
        pool_part(setup, job, options.index, priority, positions),
        switches=_switches(platform.topology, job.group.reminded),
        stripes=grid_server_stripes(job),
        growth=options.window_growth,
        unordered=platform.links_fail,
    )


def _has_several_paths(plan: JobPlan) -> bool:
    """Whether a worker's fragments may take several paths at a time."""
    return any(len(worker.assignments) > 1 for worker in plan.workers)


def grid_server_stripes(job: JobSetup) -> ServerStripes:
    """Which of the switches that a job's server may have to remind may hold a fragment. After links
    have failed, these are all that have aggregated for the job so far."""
    group = job.group
    plan = group.routed_plan
    if not group.former:
        return plan_entries.server_stripes(plan, job.fragments, group.reminded)
    held = {*group.former, *plan_entries.aggregating_switches(plan)}
    return ServerStripes((job.fragments,), (tuple(int(name in held) for name in group.reminded),))


def grid_worker_part(setup: Setup, job: JobSetup, worker: int) -> PlannedWorker:
    """What the plan gives a worker: its paths and its pace."""
    mine = job.group.routed_plan.workers[worker]
    bits = setup.platform.longest_frame_bits
    return PlannedWorker(
        pace_ps=ceil(bits * 10**12 / mine.rate_bps),  # never more than the plan has
        stripes=plan_entries.worker_stripes(mine, setup.platform.topology, job.fragments),
    )


def switchml_part(setup: Setup, job: JobSetup) -> SwitchmlSpec:
    """SwitchML: its window is the slots that the job has."""
    sets = setup.platform.options_of(SwitchmlOptions).sets
    return SwitchmlSpec.of(worker_options(setup, job), sets=sets)


def ring_part(setup: Setup, job: JobSetup) -> RingSpec:
    """The ring: how long an acknowledgement waits."""
    return RingSpec.of(worker_options(setup, job), ack_delay_ns=job.timers.ack_delay_ns)


def ring_neighbours(group: Communicator, worker: int) -> tuple[str, ...]:
    """The next worker and the one before."""
    return group.workers[(worker + 1) % len(group.workers)], group.workers[worker - 1]


def root_of(group: Communicator, worker: int) -> tuple[str, ...]:
    """The switch where a job's sums come together."""
    return (group.routed_tree.target,)
