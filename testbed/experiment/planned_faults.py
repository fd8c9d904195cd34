"""Planned faults: the nodes that they affect, the times at which links change, and checks that they
are possible in the experiment.

A fault names a job, one of its processes, a switch, or links. This module converts that to names of
hosts and switches and to indices of links. It finds impossible faults before anything runs: a
worker that does not exist, a pause without an end, a fault of a process that is dead by then, a
link that fails twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from p4fabric.base.config.problems import Path, Problem
from p4fabric.base.config.units import TIME, show
from p4fabric.base.errors import did_you_mean, sentence
from p4fabric.base.topology import Topology

from testbed.experiment.rules import Found
from testbed.experiment.schema_jobs import LINK_FAULTS, Fault, Job, Placement

NEVER = 1 << 62  # the end of what does not end


def affected_nodes(jobs: Sequence[Job], fault: Fault) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(hosts, switches) whose processes a fault affects."""
    if fault.of_link:
        return (), ()
    if fault.switch is not None:
        return (), (fault.switch,)
    return _hosts(next(job for job in jobs if job.name == fault.job), fault), ()


def title(fault: Fault) -> str:
    """Title of the fault, such as `pause of worker 1 of job a`."""
    if fault.of_link:
        whom = f"link {link_name(fault.between)}" if fault.between else f"links of {fault.switch}"
        return f"{'failure' if fault.kind == 'link_down' else 'return'} of {whom}"
    whom = f"switch {fault.switch}" if fault.switch is not None else f"job {fault.job}"
    if fault.worker is not None:
        whom = f"worker {fault.worker} of {whom}"
    if fault.server is not None:
        whom = f"parameter server {fault.server} of {whom}"
    words = {"pause": "pause of", "slow": "slow-down of", "kill": "end of", "restart": "restart of"}
    return f"{words[fault.kind]} {whom}"


def slow_windows(faults: Sequence[Fault], job: str, worker: int) -> list[tuple[int, int, int]]:
    """Times in which a worker computes more slowly: (from, to, factor in thousandths), ns from the
    run's start."""
    return [
        (fault.at_ns, fault.end_ns or NEVER, round(1000 * (fault.factor or 1)))
        for fault in faults
        if fault.kind == "slow"
        and fault.job == job
        and fault.server is None
        and fault.worker in (None, worker)
    ]


def _hosts(job: Job, fault: Fault) -> tuple[str, ...]:
    placement = job.fixed_placement
    if fault.worker is not None:
        return (placement.workers[fault.worker],)
    if fault.server is not None:
        return (placement.servers[fault.server],)
    if fault.kind == "slow":
        return placement.workers  # the servers compute nothing
    return (*placement.workers, *placement.servers)


# -- links that change


@dataclass(frozen=True)
class LinkChange:
    """A moment at which links go down or come up: `links` are indices of the topology's links,
    `fault` the number of the planned fault. The control plane has followed at `followed_ns`. Times
    are ns from the run's start."""

    at_ns: int
    up: bool
    fault: int
    links: frozenset[int]
    followed_ns: int


def link_name(ends: Sequence[str]) -> str:
    """Name of a link, such as `s1-s2`."""
    return "-".join(ends)


def named_links(topology: Topology, links: Iterable[int]) -> str:
    """Names of links, such as `link s1-s2` or `links s1-s2, s1-s3`."""
    names = list(dict.fromkeys(link_name(topology.links[link]) for link in sorted(links)))
    return f"link{'s' if len(names) > 1 else ''} {', '.join(names)}"


def link_changes(faults: Sequence[Fault], topology: Topology) -> tuple[LinkChange, ...]:
    """All changes of links that faults make, by time; at one moment, first what returns."""
    found = []
    for number, fault in enumerate(faults):
        if not fault.of_link:
            continue
        links = _links_of(fault, topology)
        failover_ns = fault.with_failover().failover_ns or 0
        for at_ns, up in ((fault.at_ns, fault.kind == "link_up"), (fault.end_ns, True)):
            if at_ns is not None and (up or fault.kind == "link_down"):
                found.append(LinkChange(at_ns, up, number, links, at_ns + failover_ns))
    unique = dict.fromkeys(found)  # a return ends when it begins
    return tuple(sorted(unique, key=lambda change: (change.at_ns, not change.up, change.fault)))


def _links_of(fault: Fault, topology: Topology) -> frozenset[int]:
    ends = {fault.switch} if fault.between is None else set(fault.between)
    return frozenset(
        index
        for index, link in enumerate(topology.links)
        if ends <= set(link) and index not in topology.failed
    )


# -- checks


def check(
    faults: Sequence[Fault],
    problems: Sequence[Problem],
    jobs: Sequence[Job] | None = None,
    network: Topology | None = None,
) -> Found:
    """The faults with their times of failover. `problems`: those so far."""
    jobs = None if problems else jobs  # a job that is not sound has its own errors
    found = [
        Problem(("faults", number, *((key,) if key else ())), message)
        for number, fault in enumerate(faults)
        for key, message in (list(_keys(fault)) or _target(fault, jobs, network))
    ]
    if not found and jobs is not None:
        found += _together(faults, jobs)
    if not found and network is not None:
        found += _of_links(faults, network)
    yield from found
    yield {"faults": tuple(fault.with_failover() for fault in faults)}


def _keys(fault: Fault) -> Iterator[tuple[str, str]]:
    """Problems with the combination of keys of one fault: (key, message)."""
    if fault.of_link:
        yield from _keys_of_link(fault)
        return
    for key, value in (("between", fault.between), ("failover", fault.failover_ns)):
        if value is not None:
            yield key, f"only of {' and '.join(LINK_FAULTS)}, not of {fault.kind}"
    parts = {"worker": fault.worker, "ps": fault.server}
    part = [key for key, number in parts.items() if number is not None]
    if (fault.job is None) == (fault.switch is None):
        found = "neither" if fault.job is None else "both"
        yield "", f"found {found} of job and switch; allowed: one of them"
    elif part and fault.job is None:
        yield part[0], f"{part[0]} is one of a job's; name the job, not a switch"
    elif len(part) == 2:
        yield "", "found both worker and ps; write one fault for each"
    if fault.kind == "restart" and fault.job is not None:
        allowed = "only a switch can be restarted (allowed here: pause, slow, kill)"
        yield "fault", f"found 'restart' of a job; {allowed}"
    if fault.kind == "pause" and fault.duration_ns is None:
        yield "for", "missing; how long the pause is; `kill` ends a process"
    if fault.kind == "slow" and fault.factor is None:
        yield "factor", "missing; how many times as slow"
    if fault.kind in ("kill", "restart") and fault.duration_ns is not None:
        yield "for", f"{fault.kind} happens at once and has no duration"
    if fault.kind != "slow" and fault.factor is not None:
        yield "factor", "only of `slow`"


def _keys_of_link(fault: Fault) -> Iterator[tuple[str, str]]:
    for key, value in (("job", fault.job), ("worker", fault.worker), ("ps", fault.server)):
        if value is not None:
            yield key, f"{fault.kind} is of a link; name its nodes with `between`, or a switch"
            return
    if (fault.between is None) == (fault.switch is None):
        found = "neither" if fault.between is None else "both"
        yield "", f"found {found} of between and switch; allowed: one of them"
    if fault.kind == "link_up" and fault.duration_ns is not None:
        yield "for", "link_up has no duration; `link_down` ends a link's time"
    if fault.factor is not None:
        yield "factor", "only of `slow`"


def _target(
    fault: Fault, jobs: Sequence[Job] | None, network: Topology | None
) -> Iterator[tuple[str, str]]:
    """Problems with the target of a fault: it must exist, and the fault must be able to affect
    it."""
    if fault.between is not None:
        if network is not None and (message := _no_link(fault.between, network)):
            yield "between", message
    elif fault.switch is not None:
        if network is not None and fault.switch not in network.switches:
            near = did_you_mean(fault.switch, network.switches)
            yield "switch", sentence(f"there is no switch {fault.switch} in the topology", near)
    elif jobs is not None:
        names = [job.name for job in jobs]
        if fault.job in names:
            yield from _in_job(fault, jobs[names.index(fault.job)])
            return
        message = f"there is no job {fault.job}; jobs are {', '.join(names[:8])}"
        yield "job", sentence(message, did_you_mean(fault.job, names))


def _no_link(between: Sequence[str], network: Topology) -> str:
    """A message if there is no link between these nodes that could fail; else ""."""
    nodes = (*network.hosts, *network.switches)
    for name in between:
        if name not in nodes:
            message = f"there is no node {name} in the topology"
            return sentence(message, did_you_mean(name, nodes))
    both = [index for index, link in enumerate(network.links) if set(link) == set(between)]
    if not both:
        return f"there is no link between {' and '.join(between)}"
    if not all(index in network.failed for index in both):
        return ""
    return (
        f"link {link_name(between)} is down for the whole run (`failed: true` of links.each); take"
        " that out, and let the link fail with `link_down` at 0 s"
    )


def _has_clients(job: Job) -> bool:
    from testbed.experiment.rank_jobs import has_clients  # it needs numpy

    return job.has_ranks and has_clients(job)


def _in_job(fault: Fault, job: Job) -> Iterator[tuple[str, str]]:
    if fault.worker is not None and fault.worker >= job.workers:
        allowed = f"0 to {job.workers - 1}, since job {job.name} has {job.workers} workers"
        yield "worker", f"found {fault.worker}; allowed: {allowed}"
    if fault.server is None and fault.worker in (None, job.workers - 1) and _has_clients(job):
        yield (
            "job",
            (
                f"it is of worker {job.workers - 1}, which stands for clients that send requests at"
                " their times; name another worker"
            ),
        )
    if fault.server is not None and isinstance(job.placement, Placement):
        servers = len(job.placement.servers)
        if fault.server >= servers:
            allowed = f"allowed: 0 to {servers - 1}" if servers else "the system has no server"
            yield "ps", f"found {fault.server}; {allowed}"
    if fault.at_ns < job.start_ns:
        start = show(job.start_ns, TIME)
        yield (
            "at",
            f"found {show(fault.at_ns, TIME)}; allowed: from {start} on, when the job starts",
        )
    if fault.kind == "slow" and fault.server is None:
        trace = job._trace
        if trace is not None and trace.compute_ns == 0:
            message = f"job {job.name} has no compute time that could be longer"
            yield "fault", f"{message}; set its compute_scale above 0"


def _together(faults: Sequence[Fault], jobs: Sequence[Job]) -> Iterator[Problem]:
    """Problems with faults together: a process can suffer one fault at a time, and one job must be
    left."""
    by_name = {job.name: job for job in jobs}
    ends = [NEVER if fault.end_ns is None else fault.end_ns for fault in faults]
    victims: list[set[str | None]] = []
    for fault in faults:
        job = None if fault.job is None else by_name[fault.job]
        victims.append({fault.switch} if job is None or not job.placed else {*_hosts(job, fault)})
    order = sorted(range(len(faults)), key=lambda number: (faults[number].at_ns, number))
    order = [number for number in order if not faults[number].of_link]
    for place, later in enumerate(order):
        for earlier in order[:place]:
            common = victims[earlier] & victims[later]
            # What goes on for a time may be cut short by the end of the process.
            cut = faults[later].kind == "kill" and faults[earlier].kind != "kill"
            if not common or cut or faults[later].at_ns > ends[earlier]:
                continue
            node = min(str(name) for name in common)
            until = show(ends[earlier], TIME) if ends[earlier] < NEVER else "the end of the run"
            why = f"is dead since {show(faults[earlier].at_ns, TIME)}"
            if faults[earlier].kind != "kill":
                why = f"is in the {title(faults[earlier])} until {until}"
            yield Problem(
                ("faults", later, "at"),
                f"found {show(faults[later].at_ns, TIME)}, when {node} {why} (faults[{earlier}])",
            )
            break
    killed = [
        number
        for number, fault in enumerate(faults)
        if fault.kind == "kill" and fault.job and fault.worker is None and fault.server is None
    ]
    if len({faults[number].job for number in killed}) == len(jobs):
        message = "every job is killed; leave one, which can show what became of the others"
        yield Problem(("faults", killed[-1]), message)


def _of_links(faults: Sequence[Fault], topology: Topology) -> list[Problem]:
    """Problems with the order of link faults. Links fail only while they are up, and return only
    after they have failed. No other fault may keep the control plane from following."""
    changes = link_changes(faults, topology)
    if not changes:
        return []
    problems = []
    down: dict[int, LinkChange] = {}
    for change in changes:
        at = "for" if change.up and faults[change.fault].kind == "link_down" else "at"
        path: Path = ("faults", change.fault, at)
        when = show(change.at_ns, TIME)
        if change.up:
            never = [link for link in change.links if link not in down]
            if never:
                name = named_links(topology, never[:1])
                problems.append(Problem(path, f"found {when}, when {name} is up"))
            for link in change.links:
                down.pop(link, None)
            continue
        for link in sorted(change.links & set(down)):
            before = down[link]
            message = (
                f"found {when}, when {named_links(topology, [link])} is down since"
                f" {show(before.at_ns, TIME)} (faults[{before.fault}])"
            )
            problems.append(Problem(path, message))
            break
        down |= dict.fromkeys(change.links - set(down), change)
    return problems or list(_with_switches(faults, changes))


def _with_switches(faults: Sequence[Fault], changes: Sequence[LinkChange]) -> Iterator[Problem]:
    """Problems with switches that cannot follow when links change."""
    for number, fault in enumerate(faults):
        if fault.switch is None or fault.of_link:
            continue
        if fault.kind == "kill":
            yield Problem(
                ("faults", number, "fault"),
                "found kill of a switch beside faults of links, whose routes would still lead"
                f" through it; write `fault: link_down, switch: {fault.switch}`, which cuts all its"
                " links",
            )
        if fault.kind != "pause" or fault.end_ns is None:
            continue
        for change in changes:
            for at_ns in (change.at_ns, change.followed_ns):
                if fault.at_ns <= at_ns <= fault.end_ns:
                    yield Problem(
                        ("faults", number, "at"),
                        f"switch {fault.switch} is paused at {show(at_ns, TIME)}, when"
                        f" faults[{change.fault}] changes links or routes, and a paused switch"
                        " cannot follow; pause it at another time",
                    )
                    return
