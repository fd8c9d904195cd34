"""Actions of the control plane during a run: links go down and come up, and routes follow; and the
manager of trees is asked again about jobs that are about to start.

The same for every runtime. A runtime says what time it is, how a switch is asked, which jobs have
ended, and takes what hosts have to be told. A link of two switches goes down at both; a host's
link at its switch, which models both directions.

Where a runtime on a real clock is late with a change, what follows from it is as late: a link stays
down, and the control plane takes to follow, as long as the experiment says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.dataplane.switch_entries import SwitchEntries
from testbed.experiment.planned_faults import NEVER, LinkChange, title
from testbed.results.schema import FaultRow
from testbed.setup.host_specs import with_members
from testbed.setup.job_setups import Control, NewPart
from testbed.setup.late_trees import asked_again, communicators_of, late_jobs
from testbed.setup.rerouting import Rerouting

if TYPE_CHECKING:
    from testbed.protocols.host_spec import HostSpec
    from testbed.setup.job_setups import Setup

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Followed:
    """One new computation of routes, that took effect at `at_ns` and was planned for `planned_ns`:
    `entries` were written into all switches together. `rates_bps`: by job with a plan, from now
    on; `roots`: by job with new trees, where these have their roots."""

    planned_ns: int
    at_ns: int
    entries: int
    rates_bps: dict[int, int]
    roots: dict[int, str]


class Failover:
    """The links and routes of one repetition. `done`: the changes that have taken place, with their
    times; `followed`: the steps of the control plane so far."""

    def __init__(
        self,
        setup: Setup,
        asked: Callable[[str], AbstractContextManager[Control]],
        tell: Callable[[Sequence[NewPart]], None],
        begin: Callable[[int, Setup, list[HostSpec]], None],
        clock: Callable[[], int] | None = None,
    ) -> None:
        """asked: the control interface of a switch, for calls. tell: passes new parts of a plan on
        to running hosts. begin: lets the hosts begin of a job that has been asked about, with their
        specifications in the Setup, if these are other ones now. clock: the time, where it goes on
        while `tick` works. Times are ns from the run's start."""
        self._setup = setup  # before any link has failed
        self._asked, self._tell, self._clock = asked, tell, clock
        self._rerouting = Rerouting(setup)
        self._begin = begin
        self._steps = _steps(setup)
        self._late_ns: dict[int, int] = {}  # of each fault's last change
        switches = setup.platform.topology.switches if self._steps else ()
        self._entries = {name: SwitchEntries(setup, name) for name in switches}
        self.done: list[tuple[LinkChange, int]] = []
        self.followed: list[Followed] = []

    def compute_ahead(self) -> None:
        """Compute the new routes of planned failures for jobs that go on until then, so that
        following them takes no longer than their failover time. A job that ends before costs a
        computation during the run."""
        rerouting = Rerouting(self._setup)
        for step in self._steps:
            if step.change is not None:
                rerouting.change(step.change)
            elif step.job is None:
                rerouting.reroute()

    def next_ns(self) -> int:
        """Time of the next step of `tick`; NEVER: no more."""
        if not self._steps:
            return NEVER
        step = self._steps[0]
        return step.at_ns + max((self._late_ns.get(each, 0) for each in step.faults), default=0)

    def tick(self, now_ns: int, ended: Collection[int] = ()) -> None:
        """Do the steps that are due. ended: jobs that have."""
        while self.next_ns() <= now_ns:
            step = self._steps.pop(0)
            if step.job is not None:
                self._ask(step.job, ended)
            elif step.change is None:
                self._follow(step.at_ns, now_ns, ended)
            else:
                self._change(step.change, now_ns)

    @property
    def setup(self) -> Setup:
        """With the routes and trees that there are now."""
        return self._rerouting.setup

    def roots(self) -> dict[int, list[str]]:
        """By job, the roots of its trees after each change of them, in words."""
        found: dict[int, list[str]] = {}
        for each in self.followed:
            for job, roots in each.roots.items():
                found.setdefault(job, []).append(roots)
        return found

    def cut_off(self, job: int) -> str:
        """The links that are down and without which the job's hosts have no path to each other, in
        words; ""."""
        return self._rerouting.cut_off(job)

    def returns(self) -> bool:
        """True if a link comes up again later."""
        return any(step.change is not None and step.change.up for step in self._steps)

    def install(self, switch: str, client: Control) -> None:
        """Fill the tables of a switch that has begun anew, and take its links down that are."""
        self._entries[switch].install(client)
        if ports := self._ports(switch, self._rerouting.down):
            client.batch([("port_up", port, False) for port in ports])

    @property
    def last_ns(self) -> int:
        """Time of the network's last change; -1: not yet."""
        times = [at_ns for _, at_ns in self.done] + [each.at_ns for each in self.followed]
        return max(times, default=-1)

    def rows(self, end_ns: int) -> list[FaultRow]:
        """Rows of table faults: of the planned faults of links, and behind all planned faults one
        for each new computation of routes, and for each job that was planned again. end_ns: when
        the run ended."""
        rows = []
        for number, fault in enumerate(self._setup.faults):
            if fault.of_link:
                target = title(fault).partition(" of ")[2]
                times = self._times_of(number, end_ns)
                rows.append(_row(number, fault.kind, target, fault.at_ns, times))
        number = len(self._setup.faults)
        for each in self.followed:
            times = each.at_ns, each.at_ns
            rows.append(_row(number, "reroute", "all switches", each.planned_ns, times))
            rows[-1]["entries"] = each.entries
            number += 1
            for job in sorted({*each.rates_bps, *each.roots}):
                name = f"job {self._setup.jobs[job].name}"
                rows.append(_row(number, "replan", name, each.planned_ns, times))
                rows[-1]["job"] = job
                rows[-1]["rate_bps"] = each.rates_bps.get(job)
                number += 1
        return rows

    def _times_of(self, number: int, end_ns: int) -> tuple[int | None, int | None]:
        """Time of a fault of links, and time at which the last of its links was up again: `end_ns`
        if one stays down. None: no link has changed yet."""
        mine = [(change, at_ns) for change, at_ns in self.done if change.fault == number]
        if not mine:
            return None, None
        change, begun_ns = mine[0]
        if change.up:
            return begun_ns, begun_ns
        down, ended_ns = change.links, begun_ns
        for later, at_ns in self.done:
            if later.up and at_ns >= begun_ns and down & later.links:
                down, ended_ns = down - later.links, at_ns
        return begun_ns, end_ns if down else ended_ns

    def _change(self, change: LinkChange, now_ns: int) -> None:
        begun_ns = self._time(now_ns)
        self._rerouting.change(change)
        for name in self._entries:
            if ports := self._ports(name, change.links):
                with self._asked(name) as client:
                    client.batch([("port_up", port, change.up) for port in ports])
        at_ns = self._time(now_ns) if change.up else begun_ns
        self._late_ns[change.fault] = at_ns - change.at_ns
        self.done.append((change, at_ns))

    def _ports(self, switch: str, links: Collection[int]) -> list[int]:
        ports = self._setup.platform.topology.ports(switch)
        return [port for port, (_, link, _) in ports.items() if link in links]

    def _follow(self, due_ns: int, now_ns: int, ended: Collection[int]) -> None:
        before = self._rerouting.setup
        made = self._rerouting.reroute(ended)
        entries = 0
        for name, held in self._entries.items():
            with self._asked(name) as client:
                entries += held.follow(made.setup, made.jobs, client)
                for job in made.jobs:
                    old, new = before.jobs[job], made.setup.jobs[job]
                    new.platform.scheme.forget(old, new, name, client)
        self._tell(made.parts)  # now that every switch knows the new tags
        at_ns = self._time(now_ns)
        self.followed.append(Followed(due_ns, at_ns, entries, made.rates_bps, made.roots))

    def _ask(self, number: int, ended: Collection[int]) -> None:
        """Ask the manager of trees again about a job, and free what ended ones have held."""
        before = self._rerouting.setup
        self._rerouting.setup = made = asked_again(before, number, ended)
        assert before.platform.forest is not None
        owners = {*before.platform.forest.owners.values()}
        gone = [each for job in owners & {*ended} for each in communicators_of(before, job)]
        job = made.jobs[number]
        new = job.group.trees != before.jobs[number].group.trees
        for name, held in self._entries.items() if gone or new else ():
            with self._asked(name) as client:
                for each in gone:
                    each.platform.scheme.release(made.platform, each, name, client)
                if new:
                    held.follow(made, [number], client)
                    former = communicators_of(before, number)
                    for old, now in zip(former, communicators_of(made, number), strict=True):
                        now.platform.scheme.forget(old, now, name, client)
        carried = job.platform.system.name, job.refused or f"root {job.group.tree_roots}"
        _log.info("job %s: %s, %s", job.name, *carried)
        self._begin(number, made, with_members(made, job) if new else [])

    def _time(self, now_ns: int) -> int:
        """The time by now, in a `tick` that began at `now_ns`."""
        return self._clock() if self._clock else now_ns


@dataclass(frozen=True)
class _Step:
    """A step planned for `at_ns`: a change of links; a job to ask the manager of trees about; or
    neither, where routes follow all changes before. `faults`: the faults from which it follows."""

    at_ns: int
    change: LinkChange | None
    faults: tuple[int, ...]
    job: int | None = None


def _steps(setup: Setup) -> list[_Step]:
    """All steps, in their order."""
    found = [_Step(each.at_ns, each, (each.fault,)) for each in setup.link_changes]
    found += [_Step(at_ns, None, (), number) for number, at_ns in late_jobs(setup).items()]
    for at_ns in {each.followed_ns for each in setup.link_changes}:
        faults = tuple(each.fault for each in setup.link_changes if each.followed_ns == at_ns)
        found.append(_Step(at_ns, None, faults))
    return sorted(found, key=lambda step: (step.at_ns, step.change is None))


def _row(
    number: int, kind: str, target: str, at_ns: int, times: tuple[int | None, int | None]
) -> FaultRow:
    return {
        "fault": number,
        "kind": kind,
        "target": target,
        "job": None,
        "at_ns": at_ns,
        "begun_ns": times[0],
        "ended_ns": times[1],
        "factor": None,
        "entries": None,
        "rate_bps": None,
    }
