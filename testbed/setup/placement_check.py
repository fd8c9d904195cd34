"""Places of jobs in a network of several switches, and parts that they leave unused.

A job whose hosts are all below one switch never crosses the links between switches, and a switch
where only one packet of a sum comes by has nothing to add up: results then say nothing about them.
Where there are several equal paths, sums need a way to meet (docs/paths.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from p4fabric.base.hops import equal_hops

from testbed.setup.communicator import Communicator
from testbed.setup.job_setups import Setup

SHOWN = 6  # names in a list
JOBS = 16  # of which it is said where they land


def places(setup: Setup) -> list[str]:
    """Places of each job's hosts, a line per job; [] if all hosts are below one switch, if hosts
    are free at the start only, or of many jobs."""
    if len(_edges(setup)) < 2 or setup.arrivals is not None or len(setup.jobs) > JOBS:
        return []
    found = []
    for job in setup.jobs.values():
        parts = [f"workers {_below(setup, job.group.workers)}"]
        if job.group.servers:
            parts.append(f"servers {_below(setup, job.group.servers)}")
        found.append(f"job {job.name}: {'; '.join(parts)}")
    return found


def warnings(setup: Setup) -> list[str]:
    """Warnings about a network that jobs do not use; [] where jobs come and go."""
    edges = _edges(setup)
    if len(edges) < 2 or setup.arrivals is not None:
        return []
    topology, groups = setup.platform.topology, [*_groups(setup)]
    if not any(len({topology.switch_of(host) for host in group.hosts}) > 1 for group in groups):
        return [
            "every job has all of its hosts below one switch, so nothing crosses the links between"
            " switches; `placement` spreads them"
        ]
    trees = [tree for group in groups for tree in group.shapes]
    if not trees:
        return []
    busy = {switch for tree in trees for switch in tree.switches if len(tree.receivers(switch)) > 1}
    for over in (each.over for each in groups):
        if over is not None and not over.by_fragment:
            busy |= {switch for switch in over.aggregating if len(over.below[switch]) > 1}
    forwarding = {switch for tree in trees for switch in tree.forwarding}
    idle = [each for each in topology.switches if each not in busy | forwarding]
    if not idle:
        return []
    return [
        f"{'switch' if len(idle) == 1 else 'switches'} {_listed(idle)} aggregate"
        f"{'s' if len(idle) == 1 else ''} nothing: nowhere there do packets of several workers of a"
        " job meet"
    ]


def path_warnings(setup: Setup) -> list[str]:
    """Warnings about sums that take one of several equal paths, or meet by chance. A line for the
    jobs with the same paths; [] where a plan, or a manager of trees, spreads them."""
    platform, topology = setup.platform, setup.platform.topology
    found: dict[str, list[str]] = {}
    for job in setup.jobs.values():
        group, tree = job.group, job.group.tree
        if tree is None or not job.platform.system.memory or job.platform.system.planned:
            continue
        first = {switch: equal_hops(topology, switch, tree.target) for switch in tree.parent}
        paths = max(map(len, first.values()), default=1)
        if paths < 2 or group.over is not None and group.over.by_fragment:
            continue
        if group.over is not None:
            text = f"take any of {paths} equal paths and meet by chance; the server completes the"
            found.setdefault(f"{text} others", []).append(job.name)
            continue
        ways = {tree.parent[switch][1]: None for switch, hops in first.items() if len(hops) > 1}
        text = f"take 1 of {paths} equal paths (over {_listed(sorted(ways))})"
        if platform.system.servers == "one":
            text += "; paths.sums: per_root takes all"
        found.setdefault(text, []).append(job.name)
    return [
        f"sums of {'job' if len(names) == 1 else 'jobs'} {_listed(names)} {text}"
        for text, names in found.items()
    ]


def _groups(setup: Setup) -> Iterator[Communicator]:
    for each in (*setup.jobs.values(), *setup.groups.values()):
        yield from each.communicators


def _edges(setup: Setup) -> list[str]:
    """The switches that have hosts."""
    topology = setup.platform.topology
    return [*dict.fromkeys(map(topology.switch_of, topology.hosts))]


def _below(setup: Setup, hosts: Sequence[str]) -> str:
    """`h1, h2 below s1 and h5 below s2`."""
    of: dict[str, list[str]] = {}
    for host in hosts:
        of.setdefault(setup.platform.topology.switch_of(host), []).append(host)
    parts = [f"{_listed(each)} below {switch}" for switch, each in of.items()]
    if len(parts) > SHOWN:
        parts = [*parts[:SHOWN], f"{len(parts) - SHOWN} more switches"]
    return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]


def _listed(names: Sequence[str]) -> str:
    if len(names) <= SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"
