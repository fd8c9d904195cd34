"""Releasing a job's switch memory when the job has been killed or has ended.

Nobody completes a dead job's sums, and with ATP nobody frees them either. So the control plane
tells the switch. With a shared pool it marks the job as gone. From then on its aggregators count as
empty for any fragment that arrives (event `ghosts`). The control plane does not clear them itself,
because another job may take an aggregator between its read and its write. If each job has its own
part (SwitchML), nobody else can, and the part is cleared at once.

If jobs come and go, this is done for each job that ends, since a duplicate may have come after its
sum had left. The part of the memory then goes to another job, whose chunks have other numbers, so
the old numbers are cleared, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed.dataplane.read_registers import ENDINGS_PER_JOB, FILLING, HELD, statistics

if TYPE_CHECKING:
    from testbed.setup.records import JobSetup, Platform

DISCARDED = 3  # p4/pool_types.p4, p4/switchml.p4
EMPTY = 0  # p4/switchml.p4: nothing has been in this set
RELEASED = 3  # p4/switchml.p4: a set that is free


def release(platform: Platform, job: JobSetup, client: Any) -> None:
    """Free a job's aggregators in one switch. Its processes must be dead; with `arrivals` it must
    have no entry in the switch's tables.

    `client` is the switch's control interface."""
    if platform.system.memory:
        platform.system.require("release")(platform, job, client)


def mark_gone(platform: Platform, job: JobSetup, client: Any) -> None:
    """For a shared pool (p4/pool.p4): what the job left counts as empty."""
    client.register_write("job_gone", job.group.number, 1)


def _aggregate_no_more(job: int, client: Any) -> None:
    """Remove the job from the switch's table: packets that are still on their way must change no
    slot between what is read of it and what is written."""
    entries = [entry for entry in client.table_dump("job") if entry["match"]]
    mine = [entry["handle"] for entry in entries if entry["match"] == [job]]
    client.batch([("table_delete", "job", handle) for handle in mine])


def empty_part(platform: Platform, job: JobSetup, client: Any) -> None:
    """For SwitchML's registers (p4/switchml.p4): the job's part is empty."""
    number, part = job.group.number, job.group.slots
    assert part is not None, "the system divides its memory"
    if not platform.arrivals and platform.switch != "bmv2":
        _aggregate_no_more(number, client)
    ending = number * ENDINGS_PER_JOB + DISCARDED
    kept = statistics(platform)
    states, times = kept.registers("state"), kept.registers("since")
    slots = part.base, part.slots
    *read, stats = client.batch(
        [
            *(("register_read", name, *slots) for name in (*states, *times)),
            *(("register_read", name, ending, 1) for name in ("endings", "filling_time")),
            *(("register_read", name, number, 1) for name in ("releases", "held_time")),
            ("stats",),  # at the end: on BMv2 time goes on within a batch
        ]
    )
    sets, totals = len(states), read[2 * len(states) :]
    found = [
        (state, since)
        for each in range(sets)
        for state, since in zip(read[each], read[sets + each], strict=True)
    ]
    place = part.base, part.base + part.slots
    again = platform.arrivals
    calls: list[tuple] = [
        ("register_write", name, place, EMPTY if again else RELEASED) for name in states
    ]
    if again:
        calls += [("register_write", name, place, 0) for name in kept.registers("bitmap")]
    sums = (
        (FILLING, ending, totals[:2], "endings", "filling_time"),
        (HELD, number, totals[2:], "releases", "held_time"),
    )
    for which, where, (counted, timed), count, time in sums:
        spent = [int(stats["timestamp"]) - int(since) for state, since in found if state == which]
        calls.append(("register_write", count, where, int(counted[0]) + len(spent)))
        calls.append(("register_write", time, where, int(timed[0]) + sum(spent)))
    client.batch(calls)
