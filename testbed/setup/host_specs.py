"""Specifications of all hosts, one per host, from a Setup (testbed.protocols.host_spec)."""

from __future__ import annotations

from dataclasses import replace

from p4fabric.base.hops import switch_of
from p4fabric.base.topology import host_ip, switch_ip
from p4fabric.base.transports import AIMD

from testbed.experiment.planned_faults import slow_windows
from testbed.experiment.program_jobs import block_fragments
from testbed.experiment.schema_jobs import ALL
from testbed.protocols.host_spec import (
    Compute,
    HostSpec,
    JobSpec,
    RankProgram,
    RecordedGradients,
    ServerSpec,
    Tensor,
    TransportSpec,
)
from testbed.protocols.sizes import frame_bytes
from testbed.setup.costs import costs_of, send_ns, worker_costs
from testbed.setup.job_setups import JobSetup, Setup
from testbed.setup.timing import round_trip_ns, slowest_rate, uplink_rate
from testbed.systems.options import AtpOptions
from testbed.traffic.rank_calls import load_transfers
from testbed.traffic.recording import Recording, Times, is_recording, load_recording

MILLION = 1_000_000


def host_specs(setup: Setup) -> list[HostSpec]:
    """The specifications of all hosts: of each job the workers in order, then its servers."""
    return [spec for job in setup.jobs.values() for spec in with_members(setup, job)]


def with_members(setup: Setup, job: JobSetup) -> list[HostSpec]:
    """A job's hosts, each with its roles in the communicators of groups of the job's ranks; last
    those of parameter servers that only groups use."""
    specs = job_specs(setup, job)
    for number, host in enumerate(job.job.fixed_placement.servers):
        if number >= len(job.group.servers):
            specs.append(_server_spec(setup, job, specs[0], number, host))
    if not job.job.has_ranks:
        return specs
    roles: list[list[HostSpec]] = [[] for _ in specs]
    routes: list[list[tuple[str, str, str]]] = [[] for _ in specs]
    workers = len(job.group.workers)
    for group in setup.groups.values():
        ranks = group.ranks
        if ranks is None or ranks.job != job.number:
            continue
        placed = job.job.fixed_placement.servers
        places = [*ranks.calls.ranks]
        places += [workers + placed.index(server) for server in group.group.servers]
        for place, spec in zip(places, job_specs(setup, group), strict=True):
            roles[place].append(spec)
            routes[place].append((*ranks.calls.route,))
    compute_scale = 1.0 if job.job.compute_scale is None else job.job.compute_scale
    found, moved = [], load_transfers(job.trace.ranks)
    for rank, spec in enumerate(specs):
        own = roles[rank]
        if spec.is_worker:
            part = RankProgram(
                path=job.trace.ranks,
                job=job.number,
                rank=rank,
                port=0,
                groups=tuple(routes[rank]),
                scale_millionths=round(MILLION * compute_scale),
                ack_delay_ns=job.timers.ack_delay_ns,
            )
            partners = moved.partners_of(rank)
            spec = replace(
                spec,
                program=replace(part, partners=partners),
                peers=tuple(specs[each].address for each in partners),
                costs=spec.costs and replace(spec.costs, send_ns=send_ns(job, rank, partners)),
            )
            own = [
                replace(each, program=replace(part, port=port))
                for port, each in enumerate(own, start=1)
            ]
        found.append(replace(spec, members=tuple(own)))
    return found


def host_kinds(setup: Setup) -> list[HostSpec]:
    """A small specification of each kind of host; those of one kind run the same compiled code."""
    kinds: dict[tuple, HostSpec] = {}
    seen = set()
    for job in setup.jobs.values():
        source = job.job.is_program, job.job.has_ranks
        if (source, job.platform.system.name) in seen:
            continue
        seen.add((source, job.platform.system.name))
        for spec in with_members(setup, job):
            for role in (spec, *spec.members):
                carries = role.program is not None and role.program.partners is not None
                kind = role.role, type(role.options), role.is_worker and source, carries
                kinds.setdefault(kind, role.small())
    return list(kinds.values())


def job_specs(setup: Setup, job: JobSetup) -> list[HostSpec]:
    """The specifications of one job's hosts: workers in order, then servers."""
    platform, group = job.platform, job.group
    topology, scheme = platform.topology, platform.scheme
    recording = load_recording(job.trace.path) if is_recording(job.trace.path) else None
    spec = _job_spec(setup, job, recording)
    options, costs = scheme.host_options(setup, job), costs_of(job)

    def address(node: str) -> str:
        number = topology.number(node)
        return host_ip(number) if topology.is_host(node) else switch_ip(number)

    def recorded_times(worker: int) -> tuple[tuple[Times, ...], ...]:
        if recording is None:
            return ()
        scale = job.job.scale if job.job.compute_scale is None else job.job.compute_scale
        return recording.scaled_times(worker, min(job.iterations, recording.steps), scale)

    def peers(worker: int) -> tuple[str, ...]:
        if not spec.wanted:
            return scheme.peers(group, worker)
        owner = group.workers[0]
        return (owner if worker else switch_of(topology, owner),)

    parts = [scheme.worker_part(setup, job, worker) for worker in range(len(group.workers))]
    specs = [
        HostSpec(
            role="worker",
            number=worker,
            host=host,
            address=address(host),
            peers=tuple(address(peer) for peer in peers(worker)),
            rate_bps=uplink_rate(platform, host) if costs is None else costs.rate_bps(host),
            job=spec,
            options=options,
            compute=Compute(
                slow=tuple(slow_windows(setup.faults, job.name, worker)),
                speed_spread=round(MILLION * job.job.speed_spread),
                jitter=round(MILLION * job.job.compute_jitter),
                steps=recorded_times(worker),
            ),
            worker_part=parts[worker],
            costs=worker_costs(job, worker, getattr(parts[worker], "partners", ())),
        )
        for worker, host in enumerate(group.workers)
    ]
    for server, host in enumerate(group.servers):
        specs.append(_server_spec(setup, job, specs[0], server, host))
    return specs


def _server_spec(setup: Setup, job: JobSetup, worker: HostSpec, number: int, host: str) -> HostSpec:
    """The specification of a job's parameter server. worker: of the same job."""
    topology, options = setup.platform.topology, worker.options
    peers = [switch_ip(topology.number(switch_of(topology, host)))]  # its gateway
    peers += [host_ip(topology.number(each)) for each in job.group.workers]
    if isinstance(options, ServerSpec):
        peers += [switch.address for switch in options.switches]
    return HostSpec(
        role="ps",
        number=number,
        host=host,
        address=host_ip(topology.number(host)),
        peers=tuple(peers),
        rate_bps=uplink_rate(setup.platform, host),
        job=worker.job,
        options=options,
    )


def _job_spec(setup: Setup, job: JobSetup, recording: Recording | None) -> JobSpec:
    """The part of a host's specification that all hosts of a job share."""
    platform, trace, described = job.platform, job.trace, job.job
    gradients = None
    if trace.gradients is not None:
        in_blocks = recording or platform.value_bits < 32
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
        sum=platform.sum.name,
        keep_sums=platform.virtual is not None
        and platform.virtual.keep_sums
        and (job.ranks is not None or not described.has_ranks),
        parts=(platform.virtual and platform.virtual.sum_parts) or 0,
        value_bits=platform.value_bits,
        short=_short(setup, job),
        wide=_wide(job),
        shares=_shares(job),
        wanted=_wanted(job),
        levels=_levels(job),
        transport=_transport(job),
    )


def _transport(job: JobSetup) -> TransportSpec:
    """The congestion control of packets between the job's hosts. The times of a packet on the
    links count, one way, and in a window the delay of acknowledgements."""
    platform, group, given = job.platform, job.group, job.platform.transport
    if given.congestion_control == AIMD:
        return TransportSpec()
    line_bps = slowest_rate(platform, group)
    packet_bytes = frame_bytes(platform.values, platform.bitmap_bits)
    packet_ns = max(8 * packet_bytes * 10**9 // line_bps, 1)
    trip_ns = round_trip_ns(platform, group) + 2 * packet_ns
    return TransportSpec(
        control=given.congestion_control,
        line_bps=line_bps,
        trip_ns=trip_ns,
        product=-(-(trip_ns + job.timers.ack_delay_ns) // packet_ns) + 1,
        window=given.window_packets,
    )


def _shares(job: JobSetup) -> tuple[tuple[int, int, int], ...]:
    """See `JobSpec.shares`."""
    if job.ranks is not None:
        calls = reversed(job.ranks.calls.calls)
        return tuple((each.share, each.share_at, each.gives) for each in calls)
    return ((0, 0, 0),) if job.job.has_ranks else ()


def _wanted(job: JobSetup) -> tuple[tuple[int, ...], ...]:
    """See `JobSpec.wanted`."""
    if job.ranks is None or not job.of_tokens:
        return ()
    return tuple(each.wanted for each in reversed(job.ranks.calls.calls))


def _levels(job: JobSetup) -> tuple[int, ...]:
    """See `JobSpec.levels`."""
    given = job.job.priorities
    if not given:
        return ()
    rest = given.get(ALL, 0)
    if job.ranks is None:
        return (rest,) * len(job.trace.layers)
    calls = job.ranks.calls
    group = calls.route.group
    of_group = given.get(group, given.get(group.partition(".")[0], 0))
    return tuple(of_group or given.get(e.node.kind, rest) for e in reversed(calls.calls))


def _short(setup: Setup, job: JobSetup) -> tuple[int, int]:
    """See `JobSpec.short`."""
    carrier = setup.platform if job.platform.system is setup.platform.system else job.platform
    return carrier.value_bits, carrier.sum.numbers


def _wide(job: JobSetup) -> tuple[str, ...]:
    """See `JobSpec.wide`."""
    given = (job.job.sums or {}) if job.job.is_program else {}
    return tuple(kind for kind, name in given.items() if name != job.platform.sum.name)


def _fixed_scale(setup: Setup, job: JobSetup) -> int:
    """Steps per 1.0 of a program's float32; 0: none are fixed."""
    if not job.job.is_program or job.job.numbers != "fixed":
        return 0
    return setup.platform.options_of(AtpOptions).fixed_point_scale
