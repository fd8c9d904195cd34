"""Common code of systems with a shared pool of aggregators and a parameter server (p4/pool.p4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from p4fabric.base.hops import next_hop
from p4fabric.base.topology import Topology, switch_ip

from testbed.dataplane.path_tables import job_over
from testbed.dataplane.table_calls import addresses, copy_to, deliver, send_up, send_up_tree
from testbed.protocols.host_spec import (
    AggregatingSwitch,
    PoolSpec,
    ServerStripes,
    WindowPositions,
)
from testbed.routing.job_tree import job_tree
from testbed.schemes.ps import ServerScheme
from testbed.setup.job_setups import Control, JobSetup, NewPart, Platform, Setup
from testbed.systems.statistics import Statistics

if TYPE_CHECKING:
    from testbed.systems.options import PoolOptions

# Nobody knows how long a program will run, so its work so far counts.
PRIORITY_OF_PROGRAMS = {"esa": "esa_attained", "remaining": "attained"}
PREEMPTION = {"priority": 0, "always": 1, "coin": 2}  # p4/esa.p4
WHOLE_INDEX = 0xFFFFFFFF
# p4/pool_types.p4
EMPTY = 0  # state of an aggregator
POOL_EVENTS = (
    "allocations",
    "additions",
    "completions",
    "duplicates",
    "re_emissions",
    "overlaps",
    "preemptions",
    "preemptions_held",
    "collisions",
    "downgrades",
    "ghosts",
    "flushes",
    "flush_additions",
    "reminders",
    "reminders_empty",
    "releases",
    "results_passed",
    "passes",
    "outside",
)
STATISTICS = Statistics(
    events=POOL_EVENTS,
    claims=("allocations", "preemptions", "preemptions_held", "ghosts"),
    endings={0: "completed", 1: "evicted", 2: "pulled", 3: "discarded"},
)


def _options(platform: Platform) -> PoolOptions:
    return cast("PoolOptions", platform.options)


class PoolScheme(ServerScheme):
    """A shared pool: gradients meet in the switches of the tree towards the server."""

    def definitions(self, platform: Platform) -> dict[str, int]:
        return {"DELIVERY": 1} if platform.delivers else {}

    def pool_options(
        self,
        setup: Setup,
        job: JobSetup,
        index: str,
        priority: str = "constant",
        positions: WindowPositions | None = None,
    ) -> PoolSpec:
        """Specification for all hosts of a job."""
        platform, tree = setup.platform, job.group.tree
        options = _options(platform)
        if job.job.is_program:
            priority = PRIORITY_OF_PROGRAMS.get(priority, priority)
        first = len(tree.switches) if tree is not None else 0
        if job.group.over is not None:
            first = len(job.group.reminded)
        switches = tuple(
            replace(each, later=place >= first)
            for place, each in enumerate(numbered(platform.topology, job.group.reminded))
        )
        return PoolSpec.of(
            super().host_options(setup, job),
            aggregators=platform.aggregators,
            whole_pool=platform.full_size.aggregators if platform.full_size else 0,
            reminder=options.reminder,
            reminder_delay_ns=options.reminder_delay_ns or 0,
            switches=switches,
            delivered=platform.delivers,
            index="position" if positions else index,
            priority=priority,
            positions=positions,
            window_rule=self.window_rule(platform, job),
        )

    def window_rule(self, platform: Platform, job: JobSetup) -> str:
        """Rule for the fragments that count against the window. Programs and ranks make their calls
        in an order of their own, so positions say nothing, and fragments in flight count."""
        if job.job.is_program or job.job.has_ranks:
            return "in_flight"
        return _options(platform).window_rule

    def may_hold(self, platform: Platform) -> bool:
        """True with the option `release: on_result`: a sum stays until its result comes."""
        return getattr(platform.options, "release", "on_completion") == "on_result"

    def tables(self, setup: Setup, switch: str, calls: list[tuple]) -> None:
        """Add the switch's parameters and policies to `calls`."""
        platform = setup.platform
        options, topology = _options(platform), platform.topology
        mac, ip = addresses(topology, switch)
        max_age = -(-options.max_age_ns // platform.timestamp_unit_ns)
        parameters = [
            topology.number(switch),
            mac,
            ip,
            int(self.may_hold(platform)),
            int(getattr(options, "downgrading", False)),  # ATP has neither
            PREEMPTION[getattr(options, "preempt", "priority")],
            max_age,
        ]
        calls.append(("table_set_default", "node", "set_node", parameters))

    def job_tables(
        self, platform: Platform, switch: str, job: JobSetup, calls: list[tuple]
    ) -> None:
        """Add to `calls` the workers that complete a sum here, and the next hops of sums and
        results."""
        topology, number, tree = platform.topology, job.group.number, job.group.routed_tree
        over = job.group.over
        adding = tree.switches if over is None else over.aggregating
        below = tree.below if over is None else over.below
        if switch in adding:  # else gradients are only forwarded, and results are copied
            complete = sum(1 << worker for worker in below[switch])
            whole = [complete, 0, WHOLE_INDEX, platform.aggregators, job.last_fragment]
            calls.append(("table_add", "job", "aggregate", [number], whole))
        if over is not None:
            job_over(platform, switch, job, over, calls)
            return
        if switch in tree.former:  # its remaining sums go to the server on request
            hop = next_hop(topology, switch, tree.target)
            if hop is not None:
                send_up(topology, number, hop, tree.target, calls)
        if switch not in tree.below:
            return
        if switch in adding:
            send_up_tree(topology, switch, number, tree, calls)
            if platform.delivers and not job.of_tokens:
                deliver(platform, switch, job, calls)
        copy_to(platform, switch, job, tree.children[switch], tree.below, calls)

    def statistics(self, platform: Platform) -> Statistics:
        return STATISTICS

    def release(self, platform: Platform, job: JobSetup, switch: str, client: Control) -> None:
        """Mark the job as gone. From then on its aggregators count as empty for any fragment that
        arrives (event `ghosts`). The control plane does not clear them itself, because another job
        may take an aggregator between its read and its write."""
        client.register_write("job_gone", job.group.number, 1)

    def renew(self, platform: Platform, job: JobSetup, switch: str, client: Control) -> bool:
        """False while an aggregator has a sum of the job, which only its next owner clears."""
        number = job.group.number
        states, jobs = client.batch([("register_read", f"slot_{of}") for of in ("state", "job")])
        if (np.asarray(states)[np.asarray(jobs) == number] != EMPTY).any():
            return False
        client.register_write("job_gone", number, 0)
        return True

    def reroute(self, setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
        """Gradients meet on the new paths to the server, which reminds the switches there."""
        groups, parts = {}, []
        for number, job in setup.jobs.items():
            group, tree = job.group, job.group.routed_tree
            if number in going_on:
                tree = job_tree(setup.platform.topology, group.workers, group.ps)
            group = groups[number] = group.on_tree(tree)
            if number in going_on:
                held = {*tree.switches, *group.routed_tree.former}
                reached = tuple(int(name in held) for name in group.reminded)
                told = ServerStripes((job.fragments,), (reached,))
                parts.append(NewPart(number, len(group.workers), told))
        return setup.with_groups(groups), parts


def numbered(topology: Topology, names: Iterable[str]) -> tuple[AggregatingSwitch, ...]:
    """Switches as hosts know them."""
    numbers = [topology.number(name) for name in names]
    return tuple(AggregatingSwitch(number, switch_ip(number)) for number in numbers)
