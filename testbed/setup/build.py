"""Construction of an experiment's Setup, once for each repetition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from p4engine.garbage import no_garbage
from p4fabric.base.errors import UserError

from testbed.costs.profile import Costs
from testbed.experiment import Experiment
from testbed.experiment.background_flows import flows_of
from testbed.experiment.number_checks import mixes_integers, packs_sums
from testbed.experiment.planned_faults import LinkChange, link_changes
from testbed.experiment.schema_jobs import Job, Placement
from testbed.experiment.schema_network import PER_ROOT, PINNED, lossless_of
from testbed.number_formats import format_of
from testbed.protocols.sizes import MAX_FRAGMENTS, Part, fragments_of, memory_part
from testbed.routing.forest import Applicant, Forest, Terms, Tree, narrowed
from testbed.routing.forest import plan as plan_forest
from testbed.routing.group_server import nearest
from testbed.routing.job_tree import JobTree, job_tree, rerooted, root_switch
from testbed.routing.plan import JobPlan
from testbed.routing.sum_paths import MOST_ROOTS, SumPaths, per_root, unpinned
from testbed.setup.communicator import Communicator
from testbed.setup.costs import directions_of
from testbed.setup.job_setups import JobSetup, Platform, RankGroup, Scheme, Setup
from testbed.setup.plan_entries import aggregating_switches
from testbed.setup.planning import plan_jobs
from testbed.setup.routes import planned_topologies, tree_switches
from testbed.setup.scaled_platform import scaled_platform
from testbed.setup.timing import communication_bound_ns, slowest_uplink, timers_of, window_of
from testbed.systems.options import SlotOptions, TreeOptions


def platform_of(
    experiment: Experiment, scheme: Scheme, algorithms: Mapping[str, Scheme] | None = None
) -> Platform:
    """Platform that all jobs of an experiment share. algorithms: schemes of the algorithms of hosts
    that groups use beside the system."""
    platform = Platform(
        topology=experiment.topology_object(),
        directions=directions_of(experiment),
        system=experiment.system_entry,
        scheme=scheme,
        options=experiment.system,
        program=experiment.program,
        values=experiment.values_per_packet,
        value_bits=min(experiment.value_bits, format_of(experiment.system).bits),
        bitmap_bits=experiment.bitmap_bits,
        aggregators=experiment.aggregators,
        memory_parts=experiment.memory_parts,
        job_count=len(experiment.jobs),
        groups=experiment.groups,
        switches=experiment.switches,
        switch=experiment.switch,
        offload=experiment.offload,
        admission=experiment.admission,
        timers=experiment.timers,
        virtual=experiment.virtual,
        costs=experiment.costs if isinstance(experiment.costs, Costs) else None,
        arrivals=experiment.arrivals is not None,
        transport=experiment.transport,
        links_fail=any(fault.of_link for fault in experiment.faults),
        paths=experiment.paths,
        omits_zeros=_omits_zeros(experiment),
        tokens=any(job.tokens_in_packets for job in experiment.jobs),
        packs_sums=packs_sums(experiment.system, experiment.system_entry, experiment.jobs),
        mixes_integers=mixes_integers(experiment.system, experiment.jobs),
        lossless=lossless_of(experiment.links),
        algorithms=algorithms or {},
    )
    if not experiment.scale_windows:
        return platform
    return scaled_platform(platform, experiment.jobs[0].scale)


def _omits_zeros(experiment: Experiment) -> bool:
    """The system's option `zeros`. `auto`: the gathers and scatters of programs need it; BMv2's
    queues take the same time for every packet, so not there if links have a limit."""
    zeros = getattr(experiment.system, "zeros", "auto")
    if zeros != "auto":
        return bool(zeros == "header_only")
    if experiment.system_entry.managed and any(each.loses_memory for each in experiment.faults):
        return False  # workers keep results for each other, whichever values they need
    if experiment.switch == "bmv2" and any(
        way.bandwidth_bps for both in experiment.directions for way in both
    ):
        return False
    return any(job.is_program or job.has_ranks for job in experiment.jobs)


@no_garbage()  # type: ignore[untyped-decorator]
def set_up(
    experiment: Experiment,
    scheme: Scheme,
    repetition: int,
    algorithms: Mapping[str, Scheme] | None = None,
) -> Setup:
    """Setup of a repetition of an experiment. With `arrivals` no job has hosts yet; `start_job`
    sets up a job that gets hosts.

    Raises UserError when a worker has no path to its server, or when there is no plan."""
    experiment = experiment.of_repetition(repetition)
    platform = platform_of(experiment, scheme, algorithms)
    if platform.paths is not None and platform.paths.seed is None:
        seeded = platform.paths.model_copy(update={"seed": experiment.seed + repetition})
        platform = replace(platform, paths=seeded)
    if platform.system.managed:
        placed = {number: job for number, job in enumerate(experiment.jobs) if job.placed}
        forest = forest_of(platform, placed)
        if held := why_held(platform, experiment.jobs):
            refused = {
                number: f"{why} ({held} to the end of the run)" if placed[number].start_ns else why
                for number, why in forest.refused.items()
            }
            forest = replace(forest, refused=refused)
        platform = replace(platform, forest=forest)
    changes = link_changes(experiment.faults, platform.topology)
    plans: Sequence[JobPlan | None] = [None] * len(experiment.jobs)
    if platform.system.planned:
        # With the first repetition's seed for all of them.
        plans = plan_jobs(platform, experiment.jobs, experiment.seed).jobs
    setup = Setup(
        name=experiment.name,
        repetition=repetition,
        repetitions=experiment.repetitions,
        first_seed=experiment.seed,
        platform=platform,
        listed=experiment.jobs,
        jobs={
            number: _job(platform, number, job, number, plans[number], changes)
            for number, job in enumerate(experiment.jobs)
            if job.placed
        },
        groups={},
        arrivals=experiment.arrivals,
        faults=experiment.faults,
        link_changes=changes,
        flows=tuple(
            flows_of(experiment.background, platform.topology, experiment.seed + repetition)
        ),
        timeout_ns=experiment.timeout_ns,
    )
    return replace(setup, groups=groups_of(setup, setup.jobs))


def why_held(platform: Platform, jobs: Sequence[Job]) -> str:
    """Place where a job keeps its trees after its end, so that none that starts later gets them;
    "": the manager is asked again (testbed/setup/late_trees.py)."""
    if platform.switch == "bmv2":
        return "with switch bmv2"
    if any(job.is_program and platform.groups[number] for number, job in enumerate(jobs)):
        return "beside programs with groups of ranks"
    return ""


def terms_of(platform: Platform) -> Terms:
    """Terms by which the manager of trees gives out memory."""
    options = platform.options_of(TreeOptions)
    slots = platform.aggregators // options.sets
    # Where jobs come and go, nobody knows how many will pass a switch: as many as there can be.
    equal = slots // platform.memory_parts if platform.arrivals else 0
    return Terms(
        slots=slots,
        exclusive=options.mode == "exclusive",
        holders=options.jobs_per_switch or 1,
        trees=options.trees or 0,
        quota=options.quota or equal,
        window=options.window or 0,
    )


def forest_of(platform: Platform, jobs: Mapping[int, Job], before: Forest | None = None) -> Forest:
    """Trees for jobs, by their numbers, in the order in which they start; beside others."""
    applicants = []
    for number, job in jobs.items():
        members = {number: job.fixed_placement.workers}
        later = tuple(platform.group_numbers(number))
        if job.has_ranks:
            groups = zip(later, job.rank_groups(platform.values), strict=True)
            members |= {
                own: tuple(job.fixed_placement.workers[rank] for rank in group.ranks)
                for own, group in groups
                if not group.route.algorithm
            }
            later = ()
        applicants.append(Applicant(number, job.name, members, later))
    order = sorted(applicants, key=lambda each: (jobs[each.job].start_ns, each.job))
    return plan_forest(platform.topology, order, terms_of(platform), before)


def groups_of(setup: Setup, jobs: Iterable[int]) -> dict[int, JobSetup]:
    """The communicators of these jobs' programs of ranks that are replayed."""
    found: dict[int, JobSetup] = {}
    for job in jobs:
        parent = setup.jobs[job]
        if not parent.job.has_ranks:
            continue
        from testbed.experiment.rank_jobs import calls_trace

        groups = parent.job.rank_groups(setup.platform.values)
        for number, group in zip(setup.platform.group_numbers(job), groups, strict=True):
            placement = group_placement(setup.platform, parent, group.ranks)
            workers = placement.workers
            started = parent.job.started(parent.job.start_ns, placement)
            name = f"{parent.name}, group {str(group.route) or 'of all ranks'}"
            described = started.of_group(name, len(workers), calls_trace(parent.trace, group))
            _, algorithm, form = group.route
            made = start_job(
                setup, number, described, number, algorithm, job, sum=form, tokens=group.of_tokens
            )
            found[number] = replace(made, ranks=RankGroup(job, group))
    return found


def group_placement(platform: Platform, parent: JobSetup, ranks: Sequence[int]) -> Placement:
    """The hosts of a group of a job's ranks. Of several parameter servers of a system that has one
    per job, a group uses the nearest."""
    hosts = parent.job.fixed_placement
    workers, servers = tuple(hosts.workers[rank] for rank in ranks), hosts.servers
    if platform.system.servers == "one" and len(servers) > 1:
        servers = (nearest(platform.topology, workers, servers),)
    return Placement.of((*workers, *servers), len(workers))


def start_job(
    setup: Setup,
    number: int,
    job: Job,
    part: int,
    algorithm: str = "",
    owner: int | None = None,
    changes: Sequence[LinkChange] = (),
    sum: str = "",
    tokens: bool = False,
) -> JobSetup:
    """Set up a job that has got hosts, with part `part` of divided memory. Where the system plans,
    it is planned for alone. algorithm: of hosts, in place of the system. owner: the job that a
    group's ranks are of. changes: of links, while the job runs. sum: format, in place of the
    system's. tokens: its first worker owns them. Raises UserError."""
    platform, plan = setup.platform.of_algorithm(algorithm).of_format(sum), None
    if platform.system.planned:
        plan = plan_jobs(platform, [job], setup.first_seed).jobs[0]
    return _job(platform, number, job, part, plan, changes, owner, tokens)


def _job(
    platform: Platform,
    number: int,
    job: Job,
    part: int,
    plan: JobPlan | None,
    changes: Sequence[LinkChange],
    owner: int | None = None,
    tokens: bool = False,
) -> JobSetup:
    refused = ""
    if platform.system.managed:
        assert platform.forest is not None
        refused = platform.forest.refused.get(number if owner is None else owner, "")
        if refused and tokens:
            raise UserError(
                f"{job.name}: experts.calls: packets needs trees, but {refused}. Take calls: sets,"
                " or more memory"
            )
        if refused:
            platform = platform.of_algorithm(platform.options_of(TreeOptions).fallback)
    trace = job.trace()
    count = trace.fragments(platform.values)
    iterations = MAX_FRAGMENTS // count if job.is_program else job.iterations
    slots = None
    if platform.system.divided:
        sets = cast("SlotOptions", platform.options).sets
        slots = memory_part(platform.aggregators, sets, platform.memory_parts, part)
    trees: tuple[Tree, ...] = ()
    if platform.system.managed:
        workers = job.fixed_placement.workers
        trees = _trees(platform, number, workers)
        if tokens:
            trees = tuple(replace(tree, shape=rerooted(tree.shape, workers)) for tree in trees)
        slots = Part(0, sum(tree.slots for tree in trees))
    group = _communicator(platform, number, job, slots, plan, changes, trees, tokens)
    window, numbers = window_of(platform, group, job.is_program), count
    if slots is not None and trace.gradients is not None:
        # Slot workers number chunks (testbed/protocols/slot_worker.py), and recorded floats need
        # more of these than there are fragments.
        first = fragments_of(trace.sizes, platform.values)
        numbers += int(np.minimum(np.diff(first), window).sum())
    communication_ns = (
        count * platform.frame_bits * 10**9 // slowest_uplink(platform, group.workers)
    )
    return JobSetup(
        number=number,
        platform=platform,
        job=job,
        communicators=(group,),
        fragments=count,
        iterations=iterations,
        last_fragment=min(numbers * iterations, MAX_FRAGMENTS) - 1,
        window=window,
        timers=timers_of(platform, group, job.is_program),
        communication_ns=communication_ns,
        bound_ns=communication_bound_ns(platform, group, count),
        refused=refused,
    )


def _trees(platform: Platform, number: int, workers: tuple[str, ...]) -> tuple[Tree, ...]:
    """The trees of a communicator. One that a program makes while it runs has fewer workers than
    the manager has planned for."""
    assert platform.forest is not None
    trees = platform.forest.trees[number]
    if workers == platform.forest.workers[number]:
        return trees
    return tuple(narrowed(platform.topology, tree, workers) for tree in trees)


def _communicator(
    platform: Platform,
    number: int,
    job: Job,
    slots: Part | None,
    plan: JobPlan | None,
    changes: Sequence[LinkChange],
    trees: tuple[Tree, ...] = (),
    tokens: bool = False,
) -> Communicator:
    placement, topology = job.fixed_placement, platform.topology
    servers = placement.servers
    if tokens or platform.system.servers == "none":
        servers = ()
    if platform.system.servers == "one":  # further ones are for groups
        servers = servers[:1]
    tree: JobTree | None = None
    over: SumPaths | None = None
    reminded: tuple[str, ...] = ()
    if plan is not None:
        reminded = aggregating_switches(plan)
        if changes:  # a later plan may have any switch that aggregates
            able = [name for name in topology.switches if platform.switches.of(name).aggregates]
            reminded = tuple(dict.fromkeys([*reminded, *able]))
    elif platform.system.managed:
        first = [each.shape.target for each in trees]
        able = [name for name in topology.switches if name not in topology.forwarding]
        reminded = tuple(dict.fromkeys([*first, *(able if changes else ())]))
    elif platform.system.memory:
        target = servers[0] if servers else placement.workers[0]
        if not servers and not tokens:
            target = root_switch(topology, placement.workers)
        tree = job_tree(topology, placement.workers, target)
        over = _sum_paths(platform, placement.workers, servers)
        reminded = over.aggregating if over is not None else tree.switches
        if changes and servers:
            later = planned_topologies(topology, changes)[1:]
            reminded = tree_switches(tree, placement.workers, servers[0], later)
    return Communicator(
        number=number,
        topology=topology,
        workers=placement.workers,
        servers=servers,
        algorithm=platform.system.algorithm,
        roots=getattr(platform.options, "roots", None) or 0,
        slots=slots,
        tree=tree,
        over=over,
        spread=platform.paths is not None and platform.paths.of_packets,
        trees=trees,
        plan=plan,
        reminded=reminded,
    )


def _sum_paths(
    platform: Platform, workers: tuple[str, ...], servers: tuple[str, ...]
) -> SumPaths | None:
    """The paths of a communicator's sums; None: those of its tree."""
    if platform.paths is None or platform.paths.sums == PINNED or not servers:
        return None
    topology = platform.topology
    if platform.paths.sums != PER_ROOT:
        return unpinned(topology, workers, servers[0])
    # Multicast groups and their copies have numbers of 16 bits (testbed/dataplane/table_calls.py).
    nodes = len(topology.hosts) + len(topology.switches)
    most = min(MOST_ROOTS, 0xFFFF // max(nodes, platform.numbers) - 1)
    return per_root(topology, workers, servers[0], max(most, 1))
