"""Communicators of groups of ranks that a program makes while it runs.

When all ranks of a group have asked for it, the group gets a number, a tree through the network,
and entries in the switches on its way; each member's host process, and the parameter server's,
makes a machine for it; then the ranks are let in. When all have left, the entries and machines go.
Its number goes to another group only when nobody has had the others, and when nothing can be taken
for the other group's: no host has its machine, no packet of it can be on its way, and no switch has
a sum of it. A group that comes before that time waits.
Groups that a job declares (`parallel`) get all that at the start, and are let in at once.
A group that the experiment has no communicator for is refused, to all of its ranks alike.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError

from testbed.dataplane.job_tables import LAST_PACKETS_NS, JobTables
from testbed.emulate.host_group import HostGroup, HostProcess
from testbed.experiment.program_jobs import round_trace
from testbed.hosts.progress_board import MACHINES
from testbed.setup.build import group_placement, start_job
from testbed.setup.host_specs import job_specs
from testbed.setup.job_setups import Control, JobSetup, Platform, Setup

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
    gone_ns: int | None = None  # after its end: when no packet of it is on its way any more


class Communicators:
    """All groups of a repetition's programs."""

    def __init__(
        self,
        setup: Setup,
        hosts: HostGroup,
        switches: list[str],
        asked: Callable[[str], AbstractContextManager[Control]],
    ) -> None:
        """asked: the control client of a switch, as a context."""
        self._setup = setup
        self._hosts = hosts
        self._switches = switches
        self._asked = asked
        self._wishes: dict[tuple[int, str], _Wish] = {}
        self._groups: dict[int, Group] = {}  # by number
        self.made: list[JobSetup] = []  # the groups so far, also those that have ended
        self._unused = {
            number: iter(setup.platform.group_numbers(number))
            for number, job in enumerate(setup.listed)
            if job.is_program
        }
        self._former: dict[int, list[Group]] = {number: [] for number in self._unused}
        self._way_ns = longest_way_ns(setup.platform)
        self._tables: dict[str, JobTables] = {}
        self._begun = False

    def tick(self, now_ns: int) -> None:
        """Take in what hosts say. Raises RunError when a switch does not answer."""
        if not self._begun:
            self._begun = True
            self._make_declared(now_ns)
        for number in self._unused:
            for host in self._hosts.of_job(number, "worker"):
                self._hear(number, host, now_ns)
        for (number, key), wish in [*self._wishes.items()]:
            if len(wish.members) == wish.size and not wish.refused:
                members = [wish.members[place] for place in range(wish.size)]
                if self._grant(number, key, members, now_ns):
                    del self._wishes[number, key]
        for group in self._groups.values():
            own = group.setup.number
            made = all(own in host.made for host in group.hosts)
            if group.key is not None and made and not group.opened:
                group.opened = True
                for host in group.members:
                    host.send(opened=own, key=group.key)

    def configure(self, switch: str, client: Control) -> None:
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
            self._leave(number, self._groups[communicator], host, calls, now_ns)

    def _make_declared(self, now_ns: int) -> None:
        """Make the groups that jobs declare, before their ranks ask for them."""
        for number in self._unused:
            parallel = self._setup.listed[number].parallel
            workers = self._hosts.of_job(number, "worker")
            for ranks in parallel.groups if parallel is not None else ():
                members = [workers[rank] for rank in ranks]
                setup = self._set_up(number, members, now_ns)
                assert setup is not None, "its number is unused"
                self._make(number, None, members, setup)

    def _grant(self, number: int, key: str, members: list[HostProcess], now_ns: int) -> bool:
        """Give a group what it needs, unless it has that already, or refuse it. False: it has to
        wait."""
        for group in self._groups.values():
            if group.key is None and [*map(id, group.members)] == [*map(id, members)]:
                group.key = key
                return True
        try:
            setup = self._set_up(number, members, now_ns)
        except UserError as error:
            for host in members:
                host.send(refused=str(error), key=key)
            return True
        if setup is not None:
            self._make(number, key, members, setup)
        return setup is not None

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
        self.made.append(setup)

    def _set_up(self, job: int, members: list[HostProcess], now_ns: int) -> JobSetup | None:
        """None: there will be a number for the group later. Raises UserError if the experiment has
        no communicator for it."""
        platform, parent = self._setup.platform, self._setup.jobs[job]
        if why := why_no_groups(platform):
            raise UserError(why)
        for host in members:
            if sum(host in other.hosts for other in self._groups.values()) + 1 >= MACHINES:
                raise UserError(f"{host.title} is in {MACHINES} groups already; destroy some")
        number = self._number(job, now_ns)
        if number is None:
            return None
        ranks = [host.spec.number for host in members]
        placement = group_placement(platform, parent, ranks)
        described = parent.job.started(0, placement).of_group(
            f"{parent.name}, ranks {', '.join(map(str, ranks))}",
            len(ranks),
            round_trace(parent.trace.name, len(ranks), platform.values),
        )
        return start_job(self._setup, number, described, number, owner=job)

    def _number(self, job: int, now_ns: int) -> int | None:
        """A number for a group; None: there will be one later. Raises UserError if there is none,
        or none of which nothing is left."""
        unused = next(self._unused[job], None)
        if unused is not None:
            return unused
        waits = False
        for former in self._former[job]:
            setup = former.setup
            if former.gone_ns is None and not any(setup.number in h.made for h in former.hosts):
                former.gone_ns = now_ns + LAST_PACKETS_NS + self._way_ns
            if former.gone_ns is None or now_ns < former.gone_ns:
                waits = True
            elif all(self._is_renewed(setup, switch) for switch in self._switches):
                self._former[job].remove(former)
                return setup.number
        if waits:
            return None
        raise UserError(
            f"job {self._setup.jobs[job].name} has made all {self._setup.platform.groups[job]}"
            " groups that its key `groups` allows"
        )

    def _is_renewed(self, setup: JobSetup, switch: str) -> bool:
        with self._asked(switch) as client:
            return setup.platform.scheme.renew(self._setup.platform, setup, switch, client)

    def _leave(self, job: int, group: Group, host: HostProcess, calls: int, now_ns: int) -> None:
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
        self._former[job].append(group)

    def _tables_of(self, switch: str, client: Control) -> JobTables:
        if switch not in self._tables:
            self._tables[switch] = tables = JobTables(switch, client)
            for job in self._setup.jobs.values():
                tables.keep(self._setup.platform, job)
        return self._tables[switch]


def longest_way_ns(platform: Platform) -> int:
    """The longest that a packet can be on its way: through the fullest queue at each switch."""
    stays = [
        way.delay_ns
        + way.jitter_ns
        + way.reorder_delay_ns
        + (way.queue_packets * platform.longest_frame_bits * 10**9 // (way.bandwidth_bps or 10**12))
        for both in platform.directions
        for way in both
    ]
    return (1 + len(platform.topology.switches)) * max(stays, default=0)


def why_no_groups(platform: Platform) -> str:
    """Why an experiment has no communicators for groups; "" if it has."""
    if reason := platform.options.lossless_reason:
        return f"no switch's queue may overflow, which is checked before the run: {reason}"
    if platform.links_fail:
        return "links fail in this run, after which groups would have no paths"
    return ""
