"""From an experiment to one specification per host (testbed.protocols.host_spec)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from testbed.derived import plan_entries
from testbed.derived.bounds import communication_bound_ns
from testbed.derived.job_trees import root_of_job, tree_of_job
from testbed.derived.planned_views import tree_switches
from testbed.derived.system_options import omits_zeros, options_of
from testbed.derived.timers import NOMINAL_RATE_BPS, timers_of, uplink_rate
from testbed.derived.windows import window_of
from testbed.errors import UserError
from testbed.experiment.link_faults import has_link_faults
from testbed.experiment.memory_shares import window_of_slots
from testbed.experiment.planned_faults import slow_windows
from testbed.experiment.program_jobs import block_fragments, rounds
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
from testbed.protocols.sizes import MAX_FRAGMENTS, fragments_of, frame_bytes
from testbed.routing.plan import JobPlan
from testbed.routing.tree import switch_of
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
from testbed.traffic.recording import Times, is_recording, load_recording

if TYPE_CHECKING:
    from testbed.experiment import Experiment

MILLION = 1_000_000
# A fragment whose remainder has to be pulled out of a switch comes later than the fragments sent
# after it, by a reminder's delay. A worker waits for this many of the shortest such delays before
# it takes a fragment for lost.
REMINDERS_OF_PATIENCE = 5
# Nobody knows how long a program will run, so its work so far counts.
PRIORITY_OF_PROGRAMS = {"esa": "esa_attained", "remaining": "attained"}


def plan(experiment: Experiment, repetition: int = 0) -> list[HostSpec]:
    """The specifications of all hosts: of each job the workers in order, then its servers.

    Raises UserError when a job has more fragments than the packet's 32-bit number can name, or when
    a worker has no path to its server."""
    specs = []
    for number, _ in experiment.placed_jobs:
        specs += plan_job(experiment, number, repetition)
    return specs


def host_kinds(experiment: Experiment) -> list[HostSpec]:
    """A small specification of each kind of host; those of one kind run the same compiled code."""
    kinds: dict[tuple, HostSpec] = {}
    seen = set()
    for number, job in experiment.placed_jobs:
        if job.is_program in seen:
            continue
        seen.add(job.is_program)
        for spec in plan_job(experiment, number):
            program = spec.is_worker and job.is_program
            kinds.setdefault((spec.role, type(spec.options), program), spec.small())
    return list(kinds.values())


def plan_job(experiment: Experiment, number: int, repetition: int = 0) -> list[HostSpec]:
    """The specifications of one job's hosts; see `plan`."""
    topology = experiment.topology_object()
    job, entry = experiment.jobs[number], experiment.system_entry
    placement = job.fixed_placement
    trace = job.trace()
    values, width = experiment.values_per_packet, experiment.bitmap_bits
    fragments = int(fragments_of([layer.values for layer in trace.layers], values)[-1])
    iterations = rounds(trace, values) if job.is_program else job.iterations
    if fragments * iterations > MAX_FRAGMENTS:
        raise UserError(
            f"job {job.name}: {fragments} fragments x {job.iterations} iterations do not fit the "
            "packet's 32-bit fragment number; take fewer iterations "
            f"(at most {MAX_FRAGMENTS // fragments})"
        )
    reference = min(
        (uplink_rate(experiment, worker) or NOMINAL_RATE_BPS) for worker in placement.workers
    )
    gradients = None
    recording = load_recording(trace.path) if is_recording(trace.path) else None
    if trace.gradients is not None:
        gradients = RecordedGradients(
            str(trace.path),
            job.scale,
            job.buckets,
            steps=min(iterations, recording.steps) if recording else 0,
            block=block_fragments(job.workers, values) * values
            if recording or experiment.value_bits == 16
            else 0,
        )
    communication_ns = (
        fragments * frame_bytes(experiment.packet_words, width) * 8 * 10**9 // reference
    )
    spec = JobSpec(
        number=number,
        name=job.name,
        system=entry.name,
        seed=experiment.repetition_seed(repetition),
        workers=job.workers,
        iterations=iterations,
        submitted_ns=job.submitted_ns,
        start_ns=job.start_ns,
        tensors=tuple(
            Tensor(layer.name, layer.values, layer.forward_ns, layer.backward_ns, layer.update_ns)
            for layer in trace.layers
        ),
        fragments=fragments,
        values=values,
        bitmap_width=width,
        gradients=gradients,
        communication_ns=communication_ns,
        # Without their values packets need less, how much less depends on the values.
        bound_ns=None if omits_zeros(experiment) else communication_bound_ns(experiment, number),
        # Of a program it is not known: as much as it communicates.
        computation_ns=communication_ns if job.is_program else trace.compute_ns,
        burst_ns=timers_of(experiment, number).burst_ns,
        program=job.is_program,
        fixed_scale=fixed_scale(experiment, number),
        omit_zeros=omits_zeros(experiment),
        value_bits=experiment.value_bits,
    )
    options = entry.require("host_part")(experiment, number)
    peers_of, worker_part = entry.require("peers"), entry.hook("worker_part")

    def address(node: str) -> str:
        number = topology.number(node)
        return host_ip(number) if topology.is_host(node) else switch_ip(number)

    def recorded_times(worker: int) -> tuple[tuple[Times, ...], ...]:
        if recording is None:
            return ()
        scale = job.scale if job.compute_scale is None else job.compute_scale
        return recording.scaled_times(worker, min(iterations, recording.steps), scale)

    specs = []
    for worker, host in enumerate(placement.workers):
        specs.append(
            HostSpec(
                role="worker",
                number=worker,
                host=host,
                address=address(host),
                peers=tuple(address(peer) for peer in peers_of(experiment, number, worker)),
                rate_bps=uplink_rate(experiment, host),
                job=spec,
                options=options,
                compute=Compute(
                    slow=tuple(slow_windows(experiment, number, worker)),
                    speed_spread=round(MILLION * job.speed_spread),
                    jitter=round(MILLION * job.compute_jitter),
                    steps=recorded_times(worker),
                ),
                worker_part=worker_part and worker_part(experiment, number, worker),
            )
        )
    for server, host in enumerate(placement.servers):
        peers = [switch_ip(topology.number(switch_of(topology, host)))]  # its gateway
        peers += [address(worker) for worker in placement.workers]
        if isinstance(options, ServerSpec):
            peers += [switch.address for switch in options.switches]
        specs.append(
            HostSpec(
                role="ps",
                number=server,
                host=host,
                address=address(host),
                peers=tuple(peers),
                rate_bps=uplink_rate(experiment, host),
                job=spec,
                options=options,
            )
        )
    return specs


def fixed_scale(experiment: Experiment, number: int) -> int:
    """Steps per 1.0 of a program's float32; 0: none are fixed."""
    job = experiment.jobs[number]
    if not job.is_program or job.numbers != "fixed":
        return 0
    return options_of(experiment, AtpOptions).fixed_point_scale


def servers_of(experiment: Experiment, number: int, worker: int) -> tuple[str, ...]:
    """A job's parameter servers."""
    return experiment.jobs[number].fixed_placement.servers


def _switches(topology: Topology, names: Iterable[str]) -> tuple[AggregatingSwitch, ...]:
    numbers = [topology.number(name) for name in names]
    return tuple(AggregatingSwitch(number, switch_ip(number)) for number in numbers)


def worker_options(experiment: Experiment, number: int) -> SystemSpec:
    """What the workers of every system need."""
    options = options_of(experiment, WorkerOptions)
    timers = timers_of(experiment, number)
    return SystemSpec(
        order=options.order,
        window=window_of(experiment, number),
        timeout_ns=options.timeout_ns or 0,
        min_timeout_ns=timers.min_timeout_ns,
        max_timeout_ns=timers.max_timeout_ns,
        min_patience_ns=REMINDERS_OF_PATIENCE * timers.min_reminder_delay_ns,
    )


def server_part(experiment: Experiment, number: int) -> ServerSpec:
    """What the hosts of a system with a parameter server need."""
    timers = timers_of(experiment, number)
    return ServerSpec.of(
        worker_options(experiment, number),
        reminder=True,  # without switches: asks workers for their missing fragments
        reminder_delay_ns=0,
        min_reminder_delay_ns=timers.min_reminder_delay_ns,
        max_reminder_delay_ns=timers.max_reminder_delay_ns,
    )


def pool_part(
    experiment: Experiment,
    number: int,
    index: str,
    priority: str = "constant",
    positions: WindowPositions | None = None,
) -> PoolSpec:
    """What the hosts of a system with a shared pool and a parameter server need."""
    options, topology = options_of(experiment, PoolOptions), experiment.topology_object()
    if experiment.jobs[number].is_program:
        priority = PRIORITY_OF_PROGRAMS.get(priority, priority)
    switches = _switches(topology, tree_of_job(experiment, number).switches)
    if has_link_faults(experiment):
        switches = tuple(
            replace(each, later=place >= len(switches))
            for place, each in enumerate(_switches(topology, tree_switches(experiment, number)))
        )
    return PoolSpec.of(
        server_part(experiment, number),
        pool=experiment.aggregators,
        reminder=options.reminder,
        reminder_delay_ns=options.reminder_delay_ns or 0,
        switches=switches,
        index="position" if positions else index,
        priority=priority,
        positions=positions,
        window_rule=_window_rule(experiment, number),
    )


def _window_rule(experiment: Experiment, number: int) -> str:
    """The rule of the window that the experiment chooses; `auto`: that of the memory. A program
    leaves fragment numbers out, so positions say nothing: what is in flight counts."""
    if experiment.jobs[number].is_program:
        return "in_flight"
    options = options_of(experiment, PoolOptions)
    if options.window_rule != "auto":
        return options.window_rule
    return "positions" if options_of(experiment, GridOptions).memory == "atp" else "in_flight"


def esa_part(experiment: Experiment, number: int) -> PoolSpec:
    """ESA: a pool whose index and priority the experiment chooses."""
    options = options_of(experiment, EsaOptions)
    return pool_part(experiment, number, options.index, options.priority)


def atp_part(experiment: Experiment, number: int) -> PoolSpec:
    """ATP: a pool in which a fragment has the index of its window position."""
    options = options_of(experiment, AtpOptions)
    positions = WindowPositions(
        index=options.index,
        rehash=options.rehash,
        gap=options.gap,
        fixed_point_scale=options.fixed_point_scale,
    )
    return pool_part(experiment, number, options.index, positions=positions)


def grid_part(experiment: Experiment, number: int) -> GridSpec:
    """GRID: the hosts of the system whose memory it uses, and the switches of its plan."""
    options, topology = options_of(experiment, GridOptions), experiment.topology_object()
    job = plan_entries.plan_of(experiment).jobs[number]
    priority, positions = "esa", None
    if options.memory == "atp":
        defaults = SYSTEMS["atp"].option_model.model_fields
        names = ("rehash", "gap", "fixed_point_scale")
        chosen = {name: defaults[name].default for name in names}
        if _is_unordered(experiment, job):
            # Over several paths, an early result does not mean that another one is lost.
            chosen["gap"] = 0
        priority, positions = "constant", WindowPositions(index=options.index, **chosen)
    return GridSpec.of(
        pool_part(experiment, number, options.index, priority, positions),
        switches=_switches(topology, _reminded(experiment, number)),
        stripes=grid_server_stripes(experiment, number),
        growth=options.window_growth,
        unordered=has_link_faults(experiment),
    )


def _is_unordered(experiment: Experiment, job: JobPlan) -> bool:
    """Whether a worker's fragments may take several paths at a time."""
    several = any(len(worker.assignments) > 1 for worker in job.workers)
    return several or has_link_faults(experiment)


def _reminded(experiment: Experiment, number: int) -> tuple[str, ...]:
    """The switches that a job's server may have to remind: those of its plan; if links fail, all
    that a later plan can have, too."""
    found = plan_entries.aggregating_switches(plan_entries.plan_of(experiment).jobs[number])
    if not has_link_faults(experiment):
        return found
    able = experiment.topology_object().switches
    others = [name for name in able if experiment.switches.of(name).aggregates]
    return tuple(dict.fromkeys([*found, *others]))


def grid_server_stripes(experiment: Experiment, number: int) -> ServerStripes:
    """Which of the switches that a job's server may have to remind may hold a fragment. After links
    have failed, these are all that have aggregated for the job so far."""
    job, fragments = plan_entries.plan_of(experiment).jobs[number], experiment.fragments(number)
    reminded = _reminded(plan_entries.undisturbed(experiment), number)
    former = plan_entries.former_switches(experiment, number)
    if not former:
        return plan_entries.server_stripes(job, fragments, reminded)
    held = {*former, *plan_entries.aggregating_switches(job)}
    return ServerStripes((fragments,), (tuple(int(name in held) for name in reminded),))


def grid_worker_part(experiment: Experiment, number: int, worker: int) -> PlannedWorker:
    """What the plan gives a worker: its paths and its pace."""
    mine = plan_entries.plan_of(experiment).jobs[number].workers[worker]
    bits = 8 * frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    return PlannedWorker(
        pace_ps=ceil(bits * 10**12 / mine.rate_bps),  # never more than the plan has
        stripes=plan_entries.worker_stripes(
            mine, experiment.topology_object(), experiment.fragments(number)
        ),
    )


def switchml_part(experiment: Experiment, number: int) -> SwitchmlSpec:
    """SwitchML: a window that is the job's slots."""
    return SwitchmlSpec.of(
        worker_options(experiment, number),
        window=window_of_slots(experiment, number),
        sets=options_of(experiment, SwitchmlOptions).sets,
    )


def ring_part(experiment: Experiment, number: int) -> RingSpec:
    """The ring: how long an acknowledgement waits."""
    return RingSpec.of(
        worker_options(experiment, number),
        ack_delay_ns=timers_of(experiment, number).ack_delay_ns,
    )


def ring_neighbours(experiment: Experiment, number: int, worker: int) -> tuple[str, ...]:
    """The next worker and the one before."""
    workers = experiment.jobs[number].fixed_placement.workers
    return workers[(worker + 1) % len(workers)], workers[worker - 1]


def root_of(experiment: Experiment, number: int, worker: int) -> tuple[str, ...]:
    """The switch where a job's sums come together."""
    return (root_of_job(experiment, number),)
