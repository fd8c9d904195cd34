"""Planned failures of links: the links, the times of failure and return, and the checks of both.

All of it is known before a run begins. So the moments at which links change are found here once,
for every runtime, and mistakes are found when an experiment is checked: a link that does not exist,
one that fails twice, one that returns without having failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from testbed.config.problems import Path, Problem
from testbed.config.units import TIME, show
from testbed.errors import did_you_mean, sentence
from testbed.experiment.schema_jobs import Fault
from testbed.topology import Topology


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


def link_keys(fault: Fault, path: Path) -> Iterator[Problem]:
    """Problems with the combination of keys of a link fault."""
    for key, value in (("job", fault.job), ("worker", fault.worker), ("ps", fault.server)):
        if value is not None:
            message = f"{fault.kind} is of a link; name its nodes with `between`, or a switch"
            yield Problem((*path, key), message)
            return
    if (fault.between is None) == (fault.switch is None):
        found = "neither" if fault.between is None else "both"
        yield Problem(path, f"found {found} of between and switch; allowed: one of them")
    if fault.kind == "link_up" and fault.duration_ns is not None:
        yield Problem((*path, "for"), "link_up has no duration; `link_down` ends a link's time")
    if fault.factor is not None:
        yield Problem((*path, "factor"), "only of `slow`")


def link_target(between: Sequence[str], path: Path, topology: Topology | None) -> Iterator[Problem]:
    """Problems with the nodes of the link that fails: there must be such a link."""
    if topology is None:
        return
    nodes = (*topology.hosts, *topology.switches)
    for name in between:
        if name not in nodes:
            message = f"there is no node {name} in the topology"
            yield Problem((*path, "between"), sentence(message, did_you_mean(name, nodes)))
            return
    both = [index for index, link in enumerate(topology.links) if set(link) == set(between)]
    if not both:
        yield Problem((*path, "between"), f"there is no link between {' and '.join(between)}")
    elif all(index in topology.failed for index in both):
        yield Problem(
            (*path, "between"),
            f"link {link_name(between)} is down for the whole run (`failed: true` of"
            " links.each); take that out, and let the link fail with `link_down` at 0 s",
        )


def check(faults: Sequence[Fault], topology: Topology) -> list[Problem]:
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
