"""Communicators of groups of ranks that a program makes while it runs.

When all ranks of a group have asked for it, the group gets a number, a tree through the network,
and entries in the switches on its way; each member's host process, and the parameter server's,
makes a machine for it; then the ranks are let in. When all have left, the entries and machines go.
Groups that a job declares (`parallel`) get all that at the start, and are let in at once.
A group that the experiment has no communicator for is refused, to all of its ranks alike.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from testbed.dataplane.job_tables import JobTables
from testbed.emulate.host_group import HostGroup, HostProcess
from testbed.errors import UserError
from testbed.experiment.program_jobs import round_trace
from testbed.hosts.progress_board import MACHINES
from testbed.setup.build import group_placement, start_job
from testbed.setup.host_specs import job_specs
from testbed.setup.records import JobSetup, Platform, Setup

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class _Wish:
    """A group that ranks have asked for. `members`: those that have, by their place in it."""

    size: int
    ranks: list[int] | None
    refused: bool = False  # True: the ranks disagree, and all who ask are told so
    members: dict[int, HostProcess] = field(default_factory=dict)


@dataclass
class Group:
    """A group of ranks with its communicator."""

    key: str | None  # None: the experiment declares it, and its ranks have not asked for it yet
    setup: JobSetup
    members: list[HostProcess]  # the workers, in the order of the group's ranks
    hosts: list[HostProcess]  # and the parameter server
    opened: bool = False  # True: its ranks have been let in
    left: dict[int, int] = field(default_factory=dict)  # places -> collectives that they called


class Communicators:
    """All groups of a repetition's programs."""

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
        self._wishes: dict[tuple[int, str], _Wish] = {}
        self._groups: dict[int, Group] = {}  # by number
        self.made: dict[int, JobSetup] = {}  # the groups so far, also those that have ended
        self._free = {
            number: iter(setup.platform.group_numbers(number))
            for number, job in enumerate(setup.listed)
            if job.is_program
        }
        self._tables: dict[str, JobTables] = {}
        self._begun = False

    def tick(self, now_ns: int) -> None:
        """Take in what hosts say. Raises RunError when a switch does not answer."""
        if not self._begun:
            self._begun = True
            self._make_declared()
        for number in self._free:
            for host in self._hosts.of_job(number, "worker"):
                self._hear(number, host, now_ns)
        for (number, key), wish in [*self._wishes.items()]:
            if len(wish.members) == wish.size and not wish.refused:
                del self._wishes[number, key]
                self._grant(number, key, [wish.members[place] for place in range(wish.size)])
        for group in self._groups.values():
            own = group.setup.number
            made = all(own in host.made for host in group.hosts)
            if group.key is not None and made and not group.opened:
                group.opened = True
                for host in group.members:
                    host.send(opened=own, key=group.key)

    def configure(self, switch: str, client: Any) -> None:
        """Fill the groups' entries of a switch that has started again."""
        self._tables.pop(switch, None)
        for group in self._groups.values():
            self._tables_of(switch, client).add(self._setup.platform, group.setup)

    def _hear(self, number: int, host: HostProcess, now_ns: int) -> None:
        while host.withdrawn:
            wish = self._wishes.get((number, host.withdrawn.pop(0)))
            for place, other in [*wish.members.items()] if wish else []:
                if wish is not None and other is host:
                    del wish.members[place]
        while host.wanted:
            said = host.wanted.pop(0)
            key, place, size, ranks = (said[name] for name in ("key", "rank", "size", "ranks"))
            wish = self._wishes.setdefault((number, key), _Wish(size, ranks))
            agreed = (wish.size, wish.ranks) == (size, ranks)
            all_ranks = range(len(self._setup.jobs[number].group.workers))
            if ranks is not None:
                named = ranks[place : place + 1] == [host.spec.number]
                agreed &= named and set(ranks) <= set(all_ranks)
            taken = wish.members.get(place, host) is not host
            wish.refused |= not agreed or taken or size > len(all_ranks)
            if not wish.refused:
                wish.members[place] = host
                continue
            for each in (host, *wish.members.values()):
                each.send(refused=f"the ranks disagree about group {key}", key=key)
            wish.members.clear()
        while host.left:
            communicator, calls = host.left.popitem()
            self._leave(self._groups[communicator], host, calls, now_ns)

    def _make_declared(self) -> None:
        """Make the groups that jobs declare, before their ranks ask for them."""
        for number in self._free:
            parallel = self._setup.listed[number].parallel
            workers = self._hosts.of_job(number, "worker")
            for ranks in parallel.groups if parallel is not None else ():
                members = [workers[rank] for rank in ranks]
                self._make(number, None, members, self._set_up(number, members))

    def _grant(self, number: int, key: str, members: list[HostProcess]) -> None:
        """Give a group what it needs, unless it has that already, or refuse it."""
        for group in self._groups.values():
            if group.key is None and [*map(id, group.members)] == [*map(id, members)]:
                group.key = key
                return
        try:
            setup = self._set_up(number, members)
        except UserError as error:
            for host in members:
                host.send(refused=str(error), key=key)
            return
        self._make(number, key, members, setup)

    def _make(
        self, number: int, key: str | None, members: list[HostProcess], setup: JobSetup
    ) -> None:
        """Give a group its number, entries and machines."""
        for switch in self._switches:
            with self._asked(switch) as client:
                self._tables_of(switch, client).add(self._setup.platform, setup)
        own = setup.group.servers
        servers = [host for host in self._hosts.of_job(number, "ps") if host.spec.host in own]
        hosts = [*members, *servers]
        ranks = [host.spec.number for host in members]
        for host, spec in zip(hosts, job_specs(self._setup, setup), strict=True):
            host.send(made=spec.to_json(), ranks=ranks)
        self._groups[setup.number] = Group(key, setup, members, hosts)
        self.made[setup.number] = setup

    def _set_up(self, job: int, members: list[HostProcess]) -> JobSetup:
        """Raises UserError if the experiment has no communicator for the group."""
        platform, parent = self._setup.platform, self._setup.jobs[job]
        if why := why_no_groups(platform):
            raise UserError(why)
        for host in members:
            if sum(host in other.hosts for other in self._groups.values()) + 1 >= MACHINES:
                raise UserError(f"{host.title} is in {MACHINES} groups already; destroy some")
        number = next(self._free[job], None)
        if number is None:
            raise UserError(
                f"job {parent.name} has made all {platform.groups[job]} groups that its key"
                " `groups` allows"
            )
        ranks = [host.spec.number for host in members]
        placement = group_placement(platform, parent, ranks)
        described = parent.job.started(0, placement).of_group(
            f"{parent.name}, ranks {', '.join(map(str, ranks))}",
            len(ranks),
            round_trace(parent.trace.name, len(ranks), platform.values),
        )
        return start_job(self._setup, number, described, number, owner=job)

    def _leave(self, group: Group, host: HostProcess, calls: int, now_ns: int) -> None:
        """A rank has left its group; the others learn how many collectives it has called."""
        place, number = group.members.index(host), group.setup.number
        group.left[place] = calls
        for other, member in enumerate(group.members):
            if other not in group.left:
                member.send(left=[place, calls], group=number)
        if len(group.left) < len(group.members):
            return
        for each in group.hosts:
            each.send(dropped=number)
        for switch in self._switches:
            with self._asked(switch) as client:
                self._tables_of(switch, client).remove(number, now_ns)
                scheme = group.setup.platform.scheme
                scheme.release(self._setup.platform, group.setup, switch, client)
        del self._groups[number]

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
