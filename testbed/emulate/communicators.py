"""Communicators of groups of ranks that a program makes while it runs.

When all ranks of a group have asked for it, the group gets a number, a tree through the network,
and entries in the switches on its way; each member's host process, and the parameter server's,
makes a machine for it; then the ranks are let in. When all have left, the entries and machines go.
A group that the experiment has no communicator for is refused, to all of its ranks alike.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from testbed.dataplane.job_tables import JobTables
from testbed.emulate.host_group import HostGroup, HostProcess
from testbed.errors import UserError
from testbed.experiment.program_jobs import round_trace
from testbed.experiment.schema_jobs import Placement
from testbed.hosts.progress_board import MACHINES
from testbed.setup.build import start_job
from testbed.setup.host_specs import job_specs
from testbed.setup.records import JobSetup, Platform, Setup

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Group:
    """A group of ranks that a program has asked for."""

    key: str
    job: int
    ranks: tuple[int, ...]
    asked_ns: int  # when its first rank did, on CLOCK_MONOTONIC
    asking: set[int] = field(default_factory=set)  # ranks
    setup: JobSetup | None = None  # once it has a number
    hosts: list[HostProcess] = field(default_factory=list)  # of its machines
    opened_ns: int | None = None  # when its ranks were let in
    left: dict[int, int] = field(default_factory=dict)  # ranks -> collectives that they called


class Communicators:
    """All groups of a repetition's programs. `made`: those that got a communicator, in order."""

    def __init__(
        self,
        setup: Setup,
        hosts: HostGroup,
        switches: list[str],
        asked: Callable[[str], AbstractContextManager[Any]],
    ) -> None:
        """asked: the control client of a switch, as a context."""
        self._setup = setup
        self._hosts = hosts
        self._switches = switches
        self._asked = asked
        self._groups: dict[tuple[int, str], Group] = {}
        self._free = {
            number: iter(setup.platform.group_numbers(number))
            for number, job in enumerate(setup.listed)
            if job.is_program
        }
        self._tables: dict[str, JobTables] = {}
        self.made: list[Group] = []

    def tick(self, now_ns: int) -> None:
        """Take in what hosts say. Raises RunError when a switch does not answer."""
        for number in self._free:
            for host in self._hosts.of_job(number, "worker"):
                self._hear(number, host, now_ns)
        for group in [*self._groups.values()]:
            if group.setup is None and group.asking == set(group.ranks):
                self._make(group)
            if group.setup is None or group.opened_ns is not None:
                continue
            if all(group.key in host.made for host in group.hosts):
                group.opened_ns = time.monotonic_ns()
                for host in self._members(group):
                    host.send(opened=group.key)

    def configure(self, switch: str, client: Any) -> None:
        """Fill the groups' entries of a switch that has started again."""
        self._tables.pop(switch, None)
        for group in self._groups.values():
            if group.setup is not None:
                self._tables_of(switch, client).add(self._setup.platform, group.setup)

    def _hear(self, number: int, host: HostProcess, now_ns: int) -> None:
        rank = host.spec.number
        while host.wanted:
            wish = host.wanted.pop(0)
            key, ranks = wish["key"], tuple(wish["ranks"])
            group = self._groups.setdefault((number, key), Group(key, number, ranks, now_ns))
            workers = len(self._setup.jobs[number].group.workers)
            if group.ranks != ranks or rank not in ranks or not set(ranks) <= set(range(workers)):
                host.send(refused=f"the ranks disagree about group {key}", group=key)
            else:
                group.asking.add(rank)
        while host.left:
            key, calls = host.left.popitem()
            if (found := self._groups.get((number, key))) is not None:
                self._leave(found, rank, calls, now_ns)

    def _make(self, group: Group) -> None:
        """Give a group its number, entries and machines, or refuse it."""
        try:
            group.setup = self._set_up(group)
        except UserError as error:
            for host in self._members(group):
                host.send(refused=str(error), group=group.key)
            del self._groups[group.job, group.key]
            return
        setup = group.setup
        for switch in self._switches:
            with self._asked(switch) as client:
                self._tables_of(switch, client).add(self._setup.platform, setup)
        servers = self._hosts.of_job(group.job, "ps")
        specs = job_specs(self._setup, setup)
        group.hosts = [*self._members(group), *servers]
        for host, spec in zip(group.hosts, specs, strict=True):
            host.send(made=group.key, spec=spec.to_json())
        self.made.append(group)

    def _set_up(self, group: Group) -> JobSetup:
        """Raises UserError if the experiment has no communicator for the group."""
        platform, parent = self._setup.platform, self._setup.jobs[group.job]
        if why := why_no_groups(platform):
            raise UserError(why)
        number = next(self._free[group.job], None)
        if number is None:
            raise UserError(
                f"job {parent.name} has made all {platform.groups[group.job]} groups that its key"
                " `groups` allows"
            )
        for host in self._members(group):
            if sum(host in other.hosts for other in self._groups.values()) + 1 >= MACHINES:
                raise UserError(f"{host.title} is in {MACHINES} groups already; destroy some")
        placement = parent.job.fixed_placement
        workers = tuple(placement.workers[rank] for rank in group.ranks)
        servers = {"ps": placement.servers} if placement.servers else {}
        numbers = ", ".join(map(str, group.ranks))
        job = parent.job.started(0, Placement(workers=workers, **servers)).of_group(
            f"{parent.name}, ranks {numbers}",
            len(workers),
            round_trace(parent.trace.name, len(workers), platform.values),
        )
        return start_job(self._setup, number, job, number)

    def _leave(self, group: Group, rank: int, calls: int, now_ns: int) -> None:
        """A rank has left its group; the others learn how many collectives it has called."""
        assert group.setup is not None
        group.left[rank] = calls
        place = group.ranks.index(rank)
        for host in self._members(group):
            if host.spec.number not in group.left:
                host.send(left=[place, calls], group=group.key)
        if set(group.left) != set(group.ranks):
            return
        for host in group.hosts:
            host.send(dropped=group.key, number=group.setup.number)
        for switch in self._switches:
            with self._asked(switch) as client:
                self._tables_of(switch, client).remove(group.setup.number, now_ns)
                self._setup.platform.scheme.release(self._setup.platform, group.setup, client)
        del self._groups[group.job, group.key]

    def _members(self, group: Group) -> list[HostProcess]:
        """The workers' processes, in the order of the group's ranks."""
        of_rank = {host.spec.number: host for host in self._hosts.of_job(group.job, "worker")}
        return [of_rank[rank] for rank in group.ranks]

    def _tables_of(self, switch: str, client: Any) -> JobTables:
        if switch not in self._tables:
            self._tables[switch] = tables = JobTables(switch, client)
            for job in self._setup.jobs.values():
                tables.keep(self._setup.platform, job)
        return self._tables[switch]


def why_no_groups(platform: Platform) -> str:
    """Why an experiment has no communicators for groups; "" if it has."""
    if reason := platform.options.lossless_reason:
        return f"no switch's queue may overflow, which is checked before the run: {reason}"
    if platform.links_fail:
        return "links fail in this run, after which groups would have no paths"
    return ""
