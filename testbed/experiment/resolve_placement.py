"""Hosts for all roles of the jobs: those that the file names, and those that a policy finds.

A host has one role. Where calls go in steps inside servers, jobs fill whole servers. Groups of
ranks that are known before the run get parameter servers of their own near them, if hosts are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from p4fabric.base.config.problems import Path as KeyPath
from p4fabric.base.config.problems import Problem
from p4fabric.base.topology import Topology

from testbed import systems
from testbed.experiment.placement import choose
from testbed.experiment.rules import Known, not_among
from testbed.experiment.schema_collectives import Collectives
from testbed.experiment.schema_jobs import Job, Placement
from testbed.routing.group_server import has_shared_servers, nearest
from testbed.traffic.expert_calls import RAILS


def place(jobs: Sequence[Job], known: Known) -> tuple[list[Job], list[Problem]]:
    """The jobs with a host for every role, those that are named first."""
    placed, topology = list(jobs), known.get("network")
    taken: dict[str, str] = {}
    problems = list(_named(placed, known, taken))
    if topology is None or problems:
        return placed, problems
    each: int = known.get("servers", 1)
    if problems := list(_too_few_hosts(placed, each, topology)):
        return placed, problems
    servers = max(each, known["servers_reserved"])
    if sum(job.workers + servers for job in placed) > len(topology.hosts):
        servers = each
    by_word = []
    for number, job in enumerate(placed):
        if isinstance(job.placement, str):
            free = [host for host in topology.hosts if host not in taken]
            seed = known.get("seed", 0)
            hosts = choose(job.placement, topology, free, job.workers, servers, seed, number)
            if hosts is None:  # a system that is not sound has its own error, and unknown needs
                return placed, []
            taken |= dict.fromkeys(hosts, "")
            placement = Placement.of(hosts[: job.workers + each], job.workers)
            placed[number] = job.model_copy(update={"placement": placement})
            by_word.append(number)
    problems = list(_unfilled_servers(placed, known.get("collectives"), topology))
    for number in by_word if _serves_groups(known) else ():
        placed[number] = _with_group_servers(placed[number], known, topology, taken)
    return placed, problems


def _named(jobs: Sequence[Job], known: Known, taken: dict[str, str]) -> Iterator[Problem]:
    """Problems with hosts that jobs name; `taken` gets them, each with the job that has it."""
    topology: Topology | None = known.get("network")
    for number, job in enumerate(jobs):
        placement = job.placement
        if not isinstance(placement, Placement):
            continue
        path = ("jobs", number, "placement")
        count = len(placement.workers)
        if count != job.workers:
            message = f"found {count} host{'s' if count != 1 else ''}; the job has"
            yield Problem((*path, "workers"), f"{message} {job.workers} workers")
        yield from _servers(placement, (*path, "ps"), known)
        roles: list[tuple[KeyPath, str]] = [
            ((*path, "workers", i), host) for i, host in enumerate(placement.workers)
        ]
        several = len(placement.servers) > 1
        for i, host in enumerate(placement.servers):
            roles.append(((*path, "ps", i) if several else (*path, "ps"), host))
        for role, host in roles:
            wrong = ""
            if topology is not None:
                wrong = not_among(host, topology.hosts, topology.switches, "a switch")
            if not wrong and host in taken:
                wrong = f"{host} already has a role in {taken[host]}; a host has one role"
            if wrong:
                yield Problem(role, wrong)
            taken.setdefault(host, f"jobs[{number}]")


def _servers(placement: Placement, path: KeyPath, known: Known) -> Iterator[Problem]:
    """The problem of a job that does not name as many servers as its system has."""
    system: systems.System | None = known.get("entry")
    wanted, found = known.get("servers"), len(placement.servers)
    if system is None or wanted is None or found == wanted:
        return
    if wanted == 1 < found and _serves_groups(known):  # further ones are for groups of ranks
        return
    if not found:
        yield Problem.missing(path, f"{system.title} needs a parameter server")
    elif not wanted:
        yield Problem(
            path,
            f"{system.title} has no parameter server; its workers exchange gradients without one."
            " Take this key out",
        )
    else:
        hosts = f"found {found} host{'s' if found != 1 else ''}"
        allowed = "one parameter server per job"
        if system.servers == "many":
            allowed = f"{wanted}, as system.servers says"
        yield Problem(path, f"{hosts}; allowed for {system.title}: {allowed}")


def _too_few_hosts(jobs: Sequence[Job], each: int, topology: Topology) -> Iterator[Problem]:
    """The problem of a network that has no host for some role; `each`: servers of a job."""
    workers, servers = sum(job.workers for job in jobs), each * len(jobs)
    if workers + servers <= len(topology.hosts):
        return
    found = f"found {workers} workers"
    if servers:
        found += f" and {servers} parameter server{'s' * (servers > 1)}"
        found += f", together {workers + servers} roles"
    yield Problem(
        ("jobs",), f"{found}; the topology has {len(topology.hosts)} hosts, and each takes one role"
    )


def ranks_per_server(topology: Topology) -> int:
    """Hosts for workers of each server, if all servers have as many; else 1."""
    kept, servers = topology.ps_hosts, topology.servers.values()
    sizes = {sum(host not in kept for host in hosts) for hosts in servers}
    return sizes.pop() if len(sizes) == 1 else 1


def _unfilled_servers(
    jobs: Sequence[Job], collectives: Collectives | None, topology: Topology
) -> Iterator[Problem]:
    """The problem of calls that go in steps inside servers, where jobs do not fill these."""
    size = ranks_per_server(topology)
    places: dict[int, KeyPath] = {}  # of each job that has such calls, what asks for them
    for number, job in enumerate(jobs):
        asked = None if isinstance(job.model, str) else job.model.experts
        if asked and asked.calls == RAILS and size > 1:  # else the program says what it needs
            places[number] = ("jobs", number, "model", "experts", "calls")
    for kind, row, route in collectives.each() if collectives is not None else ():
        if route.inside:
            places = dict.fromkeys(range(len(jobs)), ("collectives", kind, row, "inside"))
    if places and size < 2:
        yield Problem(
            next(iter(places.values())),
            "needs servers with equally many ranks, two or more; take it out, or take such a"
            " topology (rails, or per_server)",
        )
        return
    for number, place in places.items():
        job = jobs[number]
        workers = job.fixed_placement.workers
        for first in range(0, len(workers), size):
            found = {topology.server_of(host) for host in workers[first : first + size]}
            if len(found) > 1:
                last = min(first + size, len(workers)) - 1
                yield Problem(
                    place,
                    f"needs jobs that fill servers of {size} ranks, but ranks {first} to {last}"
                    f" of {job.name} are on {len(found)} servers; place whole servers",
                )
                return


# -- parameter servers of groups


def _serves_groups(known: Known) -> bool:
    """True if groups of ranks may have parameter servers of their own."""
    system, topology = known.get("entry"), known.get("network")
    if system is None or system.servers != "one" or system.planned:
        return False
    return topology is not None and has_shared_servers(topology)


def _with_group_servers(job: Job, known: Known, topology: Topology, taken: dict[str, str]) -> Job:
    """The job with further parameter servers, on free hosts, for groups of its ranks that are known
    before the run: for each the nearest, if it is nearer than the job's."""
    placement = job.fixed_placement
    found = placement.servers
    for group in _known_groups(job, known.get("values_per_packet")):
        workers = [placement.workers[rank] for rank in group]
        usable = [host for host in topology.hosts if host not in taken or host in found]
        host = nearest(topology, workers, usable)
        if host not in found:
            found = (*found, host)
            taken[host] = ""
    served = Placement.of((*placement.workers, *found), job.workers)
    return job.model_copy(update={"placement": served})


def _known_groups(job: Job, values: int | None) -> Sequence[Sequence[int]]:
    """Ranks of the groups of a job that are known before the run."""
    if job.parallel is not None:
        return job.parallel.groups
    if job.has_ranks and job._trace is not None and values is not None:
        return [group.ranks for group in job.rank_groups(values) if not group.route.algorithm]
    return ()
