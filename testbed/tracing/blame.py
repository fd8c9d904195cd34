"""Cause of a wrong value: the switches on the fragment's way, the step at which its sum went
wrong, and the command that shows more.

In virtual time the run is made again, up to the same failure, with eyes on the value: a sum of some
workers has to be that of their values, wherever it is. On Mininet the way is known, not the step.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from p4fabric.base.hops import next_hop, switch_of

from testbed.paths import command_line
from testbed.setup import Setup
from testbed.tracing.fragments import Fragment, place_of, title_of
from testbed.tracing.packets import numbers
from testbed.tracing.path import HANDLED, Path, Step
from testbed.workload.wrong_value import WrongValue, explained, int32

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled


def reasons(
    setup: Setup,
    compiled: Compiled | None,
    wrong: WrongValue,
    folder: FilePath,
    now: Setup | None = None,
) -> Iterator[str]:
    """Lines about a wrong value, for the error. setup: of the repetition, as it began. compiled: of
    a run in virtual time, which is made again; None: it is not. now: with the routes and trees of
    the moment, if they have changed."""
    from testbed.tracing import rerun

    name = None
    if wrong.fragment is not None:
        fragment = Fragment(wrong.number, wrong.fragment)
        # Where packets have numbers of their own, that of this one.
        name = wrong.place if place_of(setup, fragment) else shlex.quote(title_of(setup, fragment))
    if compiled is not None and wrong.fragment is not None:
        found, _ = rerun.paths(setup, compiled, [fragment], offset=wrong.offset)
        path = found[fragment]
        yield f"  switches on its way: {met(path)}"
        yield f"  went wrong: {first_wrong(path, wrong)}"
    else:
        yield f"  switches on its way: {way(now or setup, wrong)}"
    if name is None:
        return
    if setup.platform.virtual is not None:
        yield f"  next: {command_line(f'trace {folder} --fragment {name}')}"
        return
    ports = " ".join(f"--pcap {each}" for each in _ports(now or setup, wrong))
    yield f"  next: {command_line(f'{folder}/experiment.yaml {ports}', root=True)}, then"
    yield f"        {command_line(f'trace RESULTS --fragment {name}')}"


def met(path: Path) -> str:
    """The switches that a fragment's gradients met, each with its events."""
    events: dict[str, list[str]] = {}
    for step in path.steps:
        if step.kind == HANDLED and (step.packet.is_gradient or not step.packet.is_result):
            here = events.setdefault(step.node, [])
            here.append(step.event.replace("_", " ") if step.event else "forwarded")
    return "; ".join(f"{node} ({', '.join(words)})" for node, words in events.items()) or "none"


def way(setup: Setup, wrong: WrongValue) -> str:
    """The switches from a job's workers to its PS, to the roots of its trees, or, where hosts add
    up, to the first one."""
    job = setup.jobs.get(wrong.number) or setup.groups.get(wrong.number)
    if job is None:
        return "not known"
    topology, group = setup.platform.topology, job.group
    targets = group.servers or tuple(tree.target for tree in group.shapes) or group.workers[:1]
    if group.servers and wrong.fragment is not None:
        targets = (group.servers[wrong.fragment % job.fragments % len(group.servers)],)
    ways = []
    for worker, target in itertools.product(group.workers, targets):
        at: str | None = switch_of(topology, worker)
        passed: list[str] = []
        while at is not None and at not in (*passed, target):
            passed.append(at)
            hop = next_hop(topology, at, target)
            at = hop[1] if hop else None
        ways.append(" -> ".join([*passed, target]))
    several = group.spread or group.over is not None
    return "; ".join(dict.fromkeys(ways)) + (", or equal paths" if several else "")


def first_wrong(path: Path, wrong: WrongValue) -> str:
    """The first step at which a sum was not that of its workers' values."""
    if wrong.floats:
        return "not known: a sum of floats has a value for each order of its additions"
    if len(wrong.parts) < wrong.workers:
        return "not known: the values of the other workers are not generated"

    def right(workers: int) -> int:
        chosen = (value for worker, value in wrong.parts.items() if workers >> worker & 1)
        return int32(sum(chosen))

    for step in path.steps:
        seen = step.kind == HANDLED and step.values is not None
        if seen and (text := _wrong_at(step, right, wrong)):
            return text
    return "at no switch: the PS, or the last link, has made it wrong"


def _wrong_at(step: Step, right: Callable[[int], int], wrong: WrongValue) -> str:
    values = step.values
    assert values is not None
    own = step.packet.job == wrong.number and step.packet.fragment == wrong.fragment
    event = step.event.replace("_", " ") or "a packet that it forwarded"
    if own and (step.packet.is_gradient or step.packet.is_result):
        workers = step.packet.workers if step.packet.is_gradient else (1 << wrong.workers) - 1
        if values.came is not None and values.came != right(workers):
            what = f"the {step.packet.text} that came in there from {step.peer} had {values.came}"
            return f"before {step.node}: {what}, not {right(workers)}"
    after = step.after
    mine = Fragment(wrong.number, wrong.fragment or 0)
    filling = after is not None and after.fragment == mine and after.state == "filling"
    if filling and after is not None and values.kept not in (None, right(after.workers)):
        where = f"aggregator {after.place}"
        return _at(step, event, where, after.workers, values.kept or 0, wrong)
    left = step.leaves
    if left is None or (left.job, left.fragment) != mine:
        return ""
    if left.is_gradient or left.is_result:
        workers = left.workers if left.is_gradient else (1 << wrong.workers) - 1
        if values.left not in (None, right(workers)):
            where = "the packet that went on"
            return _at(step, event, where, workers, values.left or 0, wrong)
    return ""


def _at(step: Step, event: str, where: str, workers: int, value: int, wrong: WrongValue) -> str:
    parts: Mapping[int, int] = {
        worker: part for worker, part in wrong.parts.items() if workers >> worker & 1
    }
    said = explained(value, int32(sum(parts.values())), parts)
    return (
        f"at {step.node}, {event} by {step.packet.text} at {step.time_ns} ns: {where} then had"
        f" {value} for workers {numbers(workers)}; {said}"
    )


def _ports(setup: Setup, wrong: WrongValue) -> list[str]:
    """The ports through which a job's packets come in, as --pcap takes them."""
    job = setup.jobs.get(wrong.number) or setup.groups.get(wrong.number)
    if job is None:
        return []
    topology = setup.platform.topology
    hosts = [f"{switch_of(topology, host)}:{host}" for host in job.group.hosts]
    return hosts[:16]
