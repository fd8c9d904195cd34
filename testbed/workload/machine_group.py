"""Several machines of one host as one machine: a host is in several communicators, with a machine
for each.

Packets say by their job number whose they are. The machines take turns in being first, and share
one pacer: what one of them sends takes the link's time from the others. A host process has them in
a table whose places are filled while it runs (testbed/hosts/machine_table.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.machine import STEPS, Batch, Machine
from p4fabric.simulate.native import copy, peek
from p4fabric.simulate.placed_machine import Placed, Stepper, call_step
from p4fabric.simulate.records import offset

from testbed.protocols import wire

NEVER = (1 << 62) - 1
_FAILED = offset("failed")


class Group(NamedTuple):
    """M machines, of which the first one's status and counters stand for all."""

    used: np.ndarray  # int64[3]: machines; -, the next one to be first
    steps: np.ndarray  # int64[M, 2], addresses of the step function and of the machine
    jobs: np.ndarray  # int64[M], the job number of its packets
    first: np.ndarray  # int64[M], place of its first destination among the host's
    pacers: np.ndarray  # int64[M], address of the time from which it may send, in ps
    pace_ps: np.ndarray  # int64[1], the same of the link
    statuses: np.ndarray  # int64[M], addresses
    owners: np.ndarray  # int64[rows], of each packet that has arrived: its machine
    batches: np.ndarray  # int64[2], addresses of `picked` and `sent`, placed
    deadline: np.ndarray  # int64[1]
    sent_words: np.ndarray  # int64[11], of `sent`, placed: its rows are in places 1, 6 and 9
    picked: Batch  # what has arrived for one machine
    sent: Batch  # by one machine
    status: np.ndarray
    counters: np.ndarray


def grouped(
    placed: Sequence[Placed],
    jobs: Sequence[int],
    first: Sequence[int],
    arrived: Batch,
    out: Batch,
) -> tuple[Group, list[Any]]:
    """The group of these machines, whose counters must be the same array, and what must live as
    long as it does. arrived, out: batches like those that the group will be stepped with."""
    # Other than zeros_like, zeros touches no memory of rows that are never used.
    picked, sent = (
        Batch(*(np.zeros(each.shape, each.dtype) for each in batch)) for batch in (arrived, out)
    )
    batches = [Placed(picked), Placed(sent)]
    machines = [each.part for each in placed]
    steppers = [Stepper(each, picked, sent) for each in machines]
    unpaced = np.zeros(1, np.int64)
    pacers = [pacer if (pacer := pacer_of(each)) is not None else unpaced for each in machines]
    group = Group(
        used=np.array([len(machines), 0, 0], np.int64),
        steps=np.array(
            [[s.address, p.address] for s, p in zip(steppers, placed, strict=True)], np.int64
        ),
        jobs=np.array(jobs, np.int64),
        first=np.array(first, np.int64),
        pacers=np.array([each.ctypes.data for each in pacers], np.int64),
        pace_ps=np.zeros(1, np.int64),
        statuses=np.array([each.status.ctypes.data for each in machines], np.int64),
        owners=np.zeros(arrived.lengths.size, np.int64),
        batches=np.array([each.address for each in batches], np.int64),
        deadline=np.zeros(1, np.int64),
        sent_words=batches[1].words,
        picked=picked,
        sent=sent,
        status=machines[0].status,
        counters=machines[0].counters,
    )
    return group, [batches, placed, steppers, pacers]


def pacer_of(machine: Machine) -> np.ndarray | None:
    """The time from which a machine may send next, int64[1] in its own memory; None if it does not
    pace itself."""
    part = machine.protocol
    part = getattr(part, "links", part)
    while not hasattr(part, "state"):
        part = getattr(part, "worker", None)
        if part is None:
            return None
    if "next_send_ps" not in (part.state.dtype.names or ()):
        return None
    return np.asarray(part.state).reshape(1)["next_send_ps"]


@njit(cache=True)
def find_owners(table, arrived, count):
    """Note whose each packet is; a packet of nobody goes to the first machine, which counts it.
    Returns the machine whose all of them are, or -1."""
    one = np.int64(-1)
    for i in range(count):
        job = wire.job(arrived.packets[i])
        owner = np.int64(0)
        for m in range(table.used[0]):
            if table.jobs[m] == job:
                owner = np.int64(m)
        table.owners[i] = owner
        one = owner if i == 0 or owner == one else np.int64(-2)
    return max(one, np.int64(-1))


@njit(cache=True)
def pick(table, machine, arrived, count, picked):
    """Copy a machine's packets into another batch; returns how many there are."""
    row_bytes = 4 * arrived.packets.shape[1]
    kept = 0
    for i in range(count):
        if table.owners[i] == machine:
            copy(
                picked.packets.ctypes.data + kept * row_bytes,
                arrived.packets.ctypes.data + i * row_bytes,
                row_bytes,
            )
            picked.lengths[kept] = arrived.lengths[i]
            kept += 1
    return kept


@njit(cache=True)
def give_pace(table, machine):
    """Before its step: the link's time, if that is later than the machine's own."""
    if peek(table.pacers[machine]) < table.pace_ps[0]:
        copy(table.pacers[machine], table.pace_ps.ctypes.data, 8)


@njit(cache=True)
def take_pace(table, machine):
    """After its step."""
    table.pace_ps[0] = max(table.pace_ps[0], peek(table.pacers[machine]))


@njit(cache=True)
def step(group, now, arrived, count, out):
    """Step all machines, each with its packets; see machine.step. Where the batch has no room for
    what a machine has sent, the group is stepped once more at once."""
    find_owners(group, arrived, count)
    machines, rows = group.used[0], out.lengths.shape[0]
    row_bytes = 4 * out.packets.shape[1]
    filled = np.int64(0)
    left = np.int64(count)
    due = np.int64(NEVER)
    for i in range(machines):
        m = (group.used[2] + i) % machines
        own = pick(group, m, arrived, count, group.picked)
        left -= own
        room = rows - filled - left  # each packet that arrives needs a row
        if room == 0:
            due = np.int64(0)
            continue
        group.sent_words[1] = group.sent_words[6] = group.sent_words[9] = room
        give_pace(group, m)
        sent = call_step(
            group.steps[m, 0],
            (
                group.steps[m, 1],
                group.batches[0],
                group.batches[1],
                now,
                own,
                group.deadline.ctypes.data,
            ),
        )
        if sent < 0:
            return sent, due
        take_pace(group, m)
        due = min(due, group.deadline[0])
        copy(
            out.packets.ctypes.data + filled * row_bytes,
            group.sent.packets.ctypes.data,
            sent * row_bytes,
        )
        for j in range(sent):
            out.lengths[filled + j] = group.sent.lengths[j]
            out.destinations[filled + j] = group.sent.destinations[j] + group.first[m]
        filled += sent
        if peek(group.statuses[m] + _FAILED) == 1:
            group.status[0].failed = 1
    group.used[2] = (group.used[2] + 1) % machines
    return filled, due


STEPS[Group] = step
