"""SwitchML: each job has its own slots, and no parameter server (p4/switchml.p4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from testbed.dataplane.table_calls import addresses, copy_to, hop_to, send_up_tree
from testbed.protocols.host_spec import HostSpec, SlotsSpec
from testbed.protocols.sizes import Part
from testbed.routing.job_tree import JobTree, job_tree
from testbed.setup import Communicator, Control, JobSetup, NewPart, Platform, Scheme, Setup
from testbed.systems.statistics import ENDINGS_PER_JOB, FILLING, HELD, Statistics

if TYPE_CHECKING:
    from testbed.systems.options import StreamOptions, SwitchmlOptions

# p4/switchml.p4
EMPTY = 0  # nothing has been in this set
RELEASED = 3  # a set that is free
DISCARDED = 3
TWO_SETS = Statistics(
    events=(
        "allocations",
        "additions",
        "completions",
        "duplicates",
        "re_emissions",
        "overlaps",
        "stale_chunks",
        "outside",
        "results_passed",
    ),
    claims=("allocations",),
    endings={0: "completed", 3: "discarded"},
    sets=("first", "second"),
)
ONE_SET = replace(TWO_SETS, sets=TWO_SETS.sets[:1])


def _options(platform: Platform) -> SwitchmlOptions:
    return cast("SwitchmlOptions", platform.options)


def stream_options(platform: Platform) -> StreamOptions:
    """The options of a platform whose system has a stream."""
    return cast("StreamOptions", platform.options)


class Switchml(Scheme):
    """SwitchML, with one or two sets per slot."""

    def host_options(self, setup: Setup, job: JobSetup) -> SlotsSpec:
        """Specification whose window is the job's number of slots."""
        own, common = _options(setup.platform), self.common_options(setup, job)
        return SlotsSpec.of(common, sets=own.sets, follows_marks=own.follows_marks)

    def peers(self, group: Communicator, worker: int) -> tuple[str, ...]:
        """The switch where a job's sums come together."""
        return (group.routed_tree.target,)

    def machine(self, spec: HostSpec) -> tuple:
        from testbed.protocols import slot_worker
        from testbed.workload import blocks, worker

        return worker.worker_machine(slot_worker.new_worker(spec, blocks.of_worker(spec)), spec)

    def definitions(self, platform: Platform) -> dict[str, int]:
        """The number of sets per slot."""
        return {"SETS": _options(platform).sets}

    def tables(self, setup: Setup, switch: str, calls: list[tuple]) -> None:
        """Add the switch's addresses to `calls`."""
        mac, ip = addresses(setup.platform.topology, switch)
        calls.append(("table_set_default", "node", "set_node", [mac, ip]))

    def job_tables(
        self, platform: Platform, switch: str, job: JobSetup, calls: list[tuple]
    ) -> None:
        """The job's slots, the workers of a switch's sums, and where these and results go."""
        group = job.group
        if switch in group.routed_tree.former:  # it adds nothing more
            calls.append(("table_add", "job", "do_not_aggregate", [group.number], []))
        assert group.slots is not None, "the system divides its memory"
        add_on_tree(platform, switch, job, group.routed_tree, group.slots, calls)

    def may_hold(self, platform: Platform) -> bool:
        """A complete sum stays in its set until all workers use the other one."""
        return True

    def statistics(self, platform: Platform) -> Statistics:
        return TWO_SETS if _options(platform).sets == 2 else ONE_SET

    def release(self, platform: Platform, job: JobSetup, switch: str, client: Control) -> None:
        """Clear the job's part of the memory at once: no other job has it. If jobs or groups come
        and go, the part then goes to another one, whose chunks have other numbers, so the old
        numbers are cleared, too. A duplicate may have come after its sum had left."""
        number = job.group.number
        if not platform.arrivals and platform.switch != "bmv2":
            _stop_aggregating(number, client)
        for part in self.parts(job, switch):
            again = platform.arrivals or job.job.is_program
            self._clear(platform, number, part, client, again)

    def parts(self, job: JobSetup, switch: str) -> tuple[Part, ...]:
        """The job's parts of a switch's memory."""
        assert job.group.slots is not None, "the system divides its memory"
        return (job.group.slots,)

    def _clear(
        self, platform: Platform, number: int, part: Part, client: Control, again: bool
    ) -> None:
        """Clear a part of the memory, whose sums end with it: each counts for the communicator that
        owns its slot, which is `number` where slots have no owners."""
        kept = self.statistics(platform)
        states, times = kept.registers("state"), kept.registers("since")
        names = (*states, *times, *((kept.owners,) if kept.owners else ()))
        *read, stats = client.batch(
            [
                *(("register_read", name, part.base, part.slots) for name in names),
                ("stats",),  # at the end: on BMv2 time goes on within a batch
            ]
        )
        owners = read.pop() if kept.owners else [number] * part.slots
        spent: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for which, since in zip(read[: len(states)], read[len(states) :], strict=True):
            for owner, state, begun in zip(owners, which, since, strict=True):
                if state in (FILLING, HELD):
                    spent[int(state), int(owner)].append(int(stats["timestamp"]) - int(begun))
        place = part.base, part.base + part.slots
        calls: list[tuple] = [
            ("register_write", name, place, EMPTY if again else RELEASED) for name in states
        ]
        if again:
            calls += [("register_write", name, place, 0) for name in kept.registers("bitmap")]
        for (state, owner), lasted in spent.items():
            filling = state == FILLING
            at = owner * ENDINGS_PER_JOB + DISCARDED if filling else owner
            totals = ("endings", "filling_time") if filling else ("releases", "held_time")
            counted = client.batch([("register_read", name, at, 1) for name in totals])
            for name, (total,), more in zip(
                totals, counted, (len(lasted), sum(lasted)), strict=True
            ):
                calls.append(("register_write", name, at, int(total) + more))
        client.batch(calls)

    def reroute(self, setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
        """A job whose tree has changed is aggregated by its root alone from then on.

        The root stays, since results exist only there. What a switch below it has added up would be
        wrong for other workers, and a worker that has its result would never send it again to a
        switch that begins anew. The root knows every worker by itself, so nothing is lost for
        good."""
        groups, topology = {}, setup.platform.topology
        for number, job in setup.jobs.items():
            group = job.group
            tree = old = group.routed_tree
            if number in going_on:
                root = old.target
                tree = job_tree(topology.only_forwarding(old.forwarding), group.workers, root)
                if replace(tree, former=old.former) != old:
                    others = set(topology.switches) - {root}
                    tree = job_tree(topology.only_forwarding(others), group.workers, root)
            groups[number] = group.on_tree(tree)
        return setup.with_groups(groups), []


def add_on_tree(
    platform: Platform,
    switch: str,
    job: JobSetup,
    tree: JobTree,
    part: Part,
    calls: list[tuple],
    *numbers: int,
) -> None:
    """Add to `calls` what a switch does for a tree of a job, with its slots there. numbers: that of
    the tree, where a job has several."""
    topology, group = platform.topology, job.group
    number, root = group.number, tree.target
    if switch not in tree.switches:  # a switch that only forwards needs no entries for jobs
        return
    complete = sum(1 << worker for worker in tree.below[switch])
    step = job.window * _options(platform).sets
    if job.of_tokens:  # a switch sees some of the chunks
        step = job.last_fragment
    parameters = [complete, int(switch == root), part.base, part.slots, job.last_fragment, step]
    calls.append(("table_add", "job", "aggregate", [number, *numbers], parameters))
    receivers = tree.receivers(switch)
    copy_to(platform, switch, job, receivers, tree.below, calls, *numbers, tree=sum(numbers))
    if switch != root:
        send_up_tree(topology, switch, number, tree, calls, *numbers)
        return
    for worker, host in enumerate(group.workers):
        port, neighbour = hop_to(topology, switch, host)
        mac, _ = addresses(topology, neighbour)
        _, ip = addresses(topology, host)
        calls.append(("table_add", "worker_route", "to_worker", [number, worker], [port, mac, ip]))


def _stop_aggregating(job: int, client: Control) -> None:
    """Remove the job from the switch's table: packets that are still on their way must change no
    slot between the read and the write."""
    (dumped,) = client.batch([("table_dump", "job")])
    entries = [entry for entry in dumped if entry["match"]]
    mine = [entry["handle"] for entry in entries if entry["match"][0] == job]
    client.batch([("table_delete", "job", handle) for handle in mine])


SCHEME = Switchml()
