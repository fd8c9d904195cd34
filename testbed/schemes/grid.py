"""GRID: a pool in which every fragment names the switch that aggregates it, as a plan says
(p4/grid.p4, testbed/routing)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, cast

from p4fabric.base.errors import UserError
from p4fabric.base.hops import next_hop

from testbed.dataplane.table_calls import TO_SERVER, addresses, copy_to, hop_to
from testbed.protocols.host_spec import (
    GridSpec,
    HostSpec,
    PlannedWorker,
    ServerStripes,
    WindowPositions,
)
from testbed.protocols.sizes import fragments_of
from testbed.routing.plan import JobPlan
from testbed.schemes import pool
from testbed.schemes.pool import WHOLE_INDEX, PoolScheme, numbered
from testbed.setup.job_setups import JobSetup, NewPart, Platform, Setup
from testbed.setup.plan_entries import (
    aggregating_switches,
    groups_by_tag,
    max_lead_packets,
    next_nodes_by_tag,
    server_stripes,
    worker_stripes,
)
from testbed.setup.planning import plan_jobs
from testbed.systems import SYSTEMS
from testbed.systems.statistics import Statistics

if TYPE_CHECKING:
    from testbed.systems.options import GridOptions

MEMORY = {"plain": 0, "atp": 0, "esa": 1}  # p4/grid.p4
STATISTICS = replace(pool.STATISTICS, events=(*pool.STATISTICS.events, "over_rate"))
UNTAGGED = 0
BURST_FRAMES = 4
MAX_TAG = 0xFFFF  # of the bits that p4/grid.p4 looks at


def _options(platform: Platform) -> GridOptions:
    return cast("GridOptions", platform.options)


class Grid(PoolScheme):
    """GRID, with the rules of another system for its memory (option `memory`)."""

    def host_options(self, setup: Setup, job: JobSetup) -> GridSpec:
        """The hosts of the system whose memory it uses, and the switches of its plan."""
        platform = setup.platform
        options = _options(platform)
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
            self.pool_options(setup, job, options.index, priority, positions),
            switches=numbered(platform.topology, job.group.reminded),
            stripes=stripes_of_server(job),
            growth=options.window_growth,
            unordered=platform.links_fail,
        )

    def worker_part(self, setup: Setup, job: JobSetup, worker: int) -> PlannedWorker:
        """Paths and pace that the plan gives a worker."""
        platform, mine = setup.platform, job.group.routed_plan.workers[worker]
        bits = platform.longest_frame_bits
        return PlannedWorker(
            pace_ps=ceil(bits * 10**12 / mine.rate_bps),  # never more than the plan has
            stripes=worker_stripes(mine, platform.topology, job.fragments),
        )

    def window_rule(self, platform: Platform, job: JobSetup) -> str:
        """`auto`: that of the memory."""
        rule = super().window_rule(platform, job)
        if rule != "auto":
            return rule
        return "positions" if _options(platform).memory == "atp" else "in_flight"

    def may_hold(self, platform: Platform) -> bool:
        """`release: auto`: as the system whose memory it uses."""
        options = _options(platform)
        if options.release == "auto":
            return options.memory == "atp"
        return super().may_hold(platform)

    def machine(self, spec: HostSpec) -> tuple:
        """Machines of the system whose memory it uses."""
        from testbed.protocols import grid
        from testbed.workload import fixed_point, gradients, servers, worker

        if not spec.is_worker:
            return servers.pool_machine(grid.new_server(spec))
        if grid.has_positions(spec):
            made = grid.new_worker(spec, *fixed_point.or_gradients(spec))
        else:
            made = grid.new_worker(spec, gradients.of_worker(spec))
        return worker.worker_machine(made, spec)

    def definitions(self, platform: Platform) -> dict[str, int]:
        """The system whose rules decide who gets an aggregator."""
        return {"MEMORY": MEMORY[_options(platform).memory]}

    def tables(self, setup: Setup, switch: str, calls: list[tuple]) -> None:
        """Add the tables of a pool, and the meter of the switch's aggregation capacity."""
        super().tables(setup, switch, calls)
        _limit_capacity(setup, switch, calls)

    def job_tables(
        self, platform: Platform, switch: str, job: JobSetup, calls: list[tuple]
    ) -> None:
        """The plan's entries for this switch, with its trees of results."""
        topology, group = platform.topology, job.group
        number, planned = group.number, group.routed_plan
        signals = int(_options(platform).collision == "drop")
        _, server_ip = addresses(topology, group.ps)

        def steer(tag: int, port: int, node: str) -> None:
            mac, _ = addresses(topology, node)
            keys = [number, TO_SERVER, tag]
            calls.append(("table_add", "job_route", "to_server", keys, [port, mac, server_ip]))

        for (here, tag), following in next_nodes_by_tag(planned).items():
            if here == switch:
                steer(tag, topology.port_to(switch, following), following)
        hop = next_hop(topology, switch, group.ps)
        if switch in group.former and hop is not None:
            steer(UNTAGGED, *hop)  # its remaining sums go to the server on request
        if switch in aggregating_switches(planned):
            steer(UNTAGGED, *hop_to(topology, switch, group.ps))
            whole = [0, 0, WHOLE_INDEX, platform.aggregators, job.last_fragment]
            calls.append(("table_add", "job", "aggregate", [number], whole))
        subtotals = {each.tag for each in planned.groups if each.parent}
        for tag, sums in groups_by_tag(planned, switch):
            parents = (each.node for each in planned.groups if each.number == sums.parent)
            adds = next(parents, switch)
            told = signals if tag not in subtotals else 0  # no worker has sent a subtotal
            parameters = [sums.bitmap, sums.tag, told, topology.number(adds)]
            calls.append(("table_add", "fan_in", "gather", [number, tag], parameters))
        children = [
            (topology.port_to(switch, child), child)
            for parent, child in planned.results.links
            if parent == switch
        ]
        if children:
            behind = planned.results.behind(group.workers)
            copy_to(platform, switch, job, children, behind, calls, UNTAGGED)

    def statistics(self, platform: Platform) -> Statistics:
        return STATISTICS

    def reroute(self, setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
        """The same planner plans for the jobs that go on. The new plan's tags are new, so that
        packets under way, and sums that wait, keep the ways that they know."""
        plans: dict[int, JobPlan] = {}
        if going_on:
            chosen = [setup.jobs[number].job for number in going_on]
            made = plan_jobs(setup.platform, chosen, setup.first_seed)
            plans = dict(zip(going_on, made.jobs, strict=True))
        groups = {}
        for number, job in setup.jobs.items():
            old = job.group.routed_plan
            plan = _with_tags_from(plans[number], _last_tag(old)) if number in plans else old
            held = job.group.former | set(aggregating_switches(old))
            groups[number] = replace(job.group, plan=plan, former=held)
        setup = setup.with_groups(groups)
        parts = []
        for number in going_on:
            job = setup.jobs[number]
            workers = len(job.group.workers)
            for worker in range(workers):
                parts.append(NewPart(number, worker, self.worker_part(setup, job, worker)))
            parts.append(NewPart(number, workers, stripes_of_server(job)))
        return setup, parts


def _has_several_paths(plan: JobPlan) -> bool:
    """True if a worker's fragments may take several paths at a time."""
    return any(len(worker.assignments) > 1 for worker in plan.workers)


def stripes_of_server(job: JobSetup) -> ServerStripes:
    """Stripes of the switches that may hold a fragment and that a job's server may have to remind.
    After links have failed, these are all switches that have aggregated for the job so far."""
    group = job.group
    plan = group.routed_plan
    if not group.former:
        return server_stripes(plan, job.fragments, group.reminded)
    held = {*group.former, *aggregating_switches(plan)}
    return ServerStripes((job.fragments,), (tuple(int(name in held) for name in group.reminded),))


def _limit_capacity(setup: Setup, switch: str, calls: list[tuple]) -> None:
    """The meter of a switch's aggregation capacity. The burst allows for the lead that paced
    senders can have; see docs/grid-switches.md."""
    platform = setup.platform
    settings = platform.switches.of(switch)
    if settings.capacity_bps is None:
        return
    frame = platform.longest_frame_bytes
    burst = (settings.burst_packets or 0) * frame
    if settings.burst_packets is None:
        for job in setup.jobs.values():
            first = fragments_of(job.trace.sizes, platform.values)
            for group in job.group.routed_plan.groups:
                if group.node == switch:
                    late = int(group.rate_bps * job.timers.burst_ns // (8 * 10**9))
                    frames = BURST_FRAMES + max_lead_packets(first, group.range)
                    burst += len(group.workers) * (frames * frame + late)
    rate = settings.capacity_bps / 8e6  # bytes per microsecond
    burst += 1  # the meter's arithmetic rounds
    calls.append(("meter_set", "capacity", 0, [(rate, burst), (rate, burst)]))


def _last_tag(job: JobPlan) -> int:
    tags = [each.tag for worker in job.workers for each in worker.assignments]
    return max([*tags, *(group.tag for group in job.groups)])


def _with_tags_from(job: JobPlan, last: int) -> JobPlan:
    """The same with tags that begin behind `last`. Raises UserError if there are too many."""
    made = replace(
        job,
        workers=tuple(
            replace(
                worker,
                assignments=tuple(
                    replace(each, tag=last + each.tag) for each in worker.assignments
                ),
            )
            for worker in job.workers
        ),
        groups=tuple(replace(group, tag=last + group.tag) for group in job.groups),
    )
    if _last_tag(made) > MAX_TAG:
        raise UserError(
            f"job {job.name} is planned too often: its plans together need more than {MAX_TAG}"
            " tags; let fewer links fail"
        )
    return made


SCHEME = Grid()
