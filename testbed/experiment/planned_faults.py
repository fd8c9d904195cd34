"""Planned faults: the nodes that they affect, and checks that they are possible in the experiment.

A fault names a job, one of its processes, or a switch. This module converts that to names of hosts
and switches. It finds impossible faults before anything runs: a worker that does not exist, a pause
without an end, a fault of a process that is dead by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.config.problems import Path, Problem
from testbed.config.units import TIME, show
from testbed.errors import did_you_mean, sentence
from testbed.experiment.link_faults import check as check_links
from testbed.experiment.link_faults import link_keys, link_name, link_target
from testbed.experiment.schema_jobs import LINK_FAULTS, Fault, Job, Placement
from testbed.topology import Topology

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


def check(
    faults: Sequence[Fault], jobs: Sequence[Job] | None, topology: Topology | None
) -> list[Problem]:
    """Problems with the faults. `jobs` are resolved; None where they are not valid."""
    problems = []
    for number, fault in enumerate(faults):
        path = ("faults", number)
        found = list(_keys(fault, path))
        found = found or list(_target(fault, path, jobs, topology))
        problems += found
    if not problems and jobs is not None:
        problems += _together(faults, jobs)
    if not problems and topology is not None:
        problems += check_links(faults, topology)
    return problems


def _keys(fault: Fault, path: Path) -> Iterator[Problem]:
    """Problems with the combination of keys of one fault."""
    if fault.of_link:
        yield from link_keys(fault, path)
        return
    for key in ("between", "failover_ns"):
        if getattr(fault, key) is not None:
            name = key.removesuffix("_ns")
            yield Problem(
                (*path, name), f"only of {' and '.join(LINK_FAULTS)}, not of {fault.kind}"
            )
    part = [key for key in ("worker", "server") if getattr(fault, key) is not None]
    written = {"server": "ps"}
    if (fault.job is None) == (fault.switch is None):
        found = "neither" if fault.job is None else "both"
        yield Problem(path, f"found {found} of job and switch; allowed: one of them")
    elif part and fault.job is None:
        key = written.get(part[0], part[0])
        yield Problem((*path, key), f"{key} is one of a job's; name the job, not a switch")
    elif len(part) == 2:
        yield Problem(path, "found both worker and ps; write one fault for each")
    if fault.kind == "restart" and fault.job is not None:
        yield Problem(
            (*path, "fault"),
            "found 'restart' of a job; only a switch can be restarted (allowed here: pause, slow,"
            " kill)",
        )
    if fault.kind == "pause" and fault.duration_ns is None:
        yield Problem.missing((*path, "for"), "how long the pause is; `kill` ends a process")
    if fault.kind == "slow" and fault.factor is None:
        yield Problem.missing((*path, "factor"), "how many times as slow")
    if fault.kind in ("kill", "restart") and fault.duration_ns is not None:
        yield Problem((*path, "for"), f"{fault.kind} happens at once and has no duration")
    if fault.kind != "slow" and fault.factor is not None:
        yield Problem((*path, "factor"), "only of `slow`")


def _target(
    fault: Fault, path: Path, jobs: Sequence[Job] | None, topology: Topology | None
) -> Iterator[Problem]:
    """Problems with the target of a fault: it must exist, and the fault must be able to affect
    it."""
    if fault.between is not None:
        yield from link_target(fault.between, path, topology)
        return
    if fault.switch is not None:
        if topology is not None and fault.switch not in topology.switches:
            near = did_you_mean(fault.switch, topology.switches)
            message = f"there is no switch {fault.switch} in the topology"
            yield Problem((*path, "switch"), sentence(message, near))
        return
    if jobs is None:
        return
    job = next((job for job in jobs if job.name == fault.job), None)
    if job is None:
        names = [job.name for job in jobs]
        message = f"there is no job {fault.job}; jobs are {', '.join(names[:8])}"
        yield Problem((*path, "job"), sentence(message, did_you_mean(fault.job, names)))
        return
    if fault.worker is not None and fault.worker >= job.workers:
        allowed = f"0 to {job.workers - 1}, since job {job.name} has {job.workers} workers"
        yield Problem((*path, "worker"), f"found {fault.worker}; allowed: {allowed}")
    if fault.server is not None and isinstance(job.placement, Placement):
        servers = len(job.placement.servers)
        if fault.server >= servers:
            allowed = f"allowed: 0 to {servers - 1}" if servers else "the system has no server"
            yield Problem((*path, "ps"), f"found {fault.server}; {allowed}")
    if fault.at_ns < job.start_ns:
        start = show(job.start_ns, TIME)
        message = f"found {show(fault.at_ns, TIME)}; allowed: from {start} on, when the job starts"
        yield Problem((*path, "at"), message)
    if fault.kind == "slow" and fault.server is None:
        trace = job._trace
        if trace is not None and trace.compute_ns == 0:
            message = f"job {job.name} has no compute time that could be longer"
            yield Problem((*path, "fault"), f"{message}; set its compute_scale above 0")


def _hosts(job: Job, fault: Fault) -> tuple[str, ...]:
    placement = job.fixed_placement
    if fault.worker is not None:
        return (placement.workers[fault.worker],)
    if fault.server is not None:
        return (placement.servers[fault.server],)
    if fault.kind == "slow":
        return placement.workers  # the servers compute nothing
    return (*placement.workers, *placement.servers)


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
