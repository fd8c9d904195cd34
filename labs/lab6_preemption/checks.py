"""What lab 6 must do: preemption, downgrading, reminders; and what that does to the memory."""

from __future__ import annotations

from collections.abc import Sequence

from scapy.layers.l2 import Ether
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Failure, Switch
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import GRADIENT, NOTHING, REMINDER, Agg, agg
from testbed.labs.grader.values import numbers, total

VALUES, SLOTS, WORKERS = 8, 8, 3
SERVERS = {0: 4, 1: 8}  # job: port of its PS; its workers are at the three ports below that
EVERYONE = (1 << WORKERS) - 1
PARTIAL, COLLISION = 1, 2
LAB = Lab(
    title="Preemption",
    hand_in=("preemption.p4",),
    given=("packet.p4", "values.p4"),
    program="preemption.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)
OWNER = ("Agg.kind", "Agg.job", "Agg.number", "Agg.bitmap")
SUM = (*OWNER, "Agg.values")


def start(t: Bench, preemption: bool = True) -> Switch:
    switch = t.switch()
    for job in SERVERS:
        switch.table_add("job", "aggregate", [job], [EVERYONE, SLOTS, job + 1, int(preemption)])
        switch.table_add("server", "to_port", [job], [SERVERS[job]])
        switch.multicast_group(job + 1, [(port(job, w), w + 1) for w in range(WORKERS)])
    return switch


def port(job: int, worker: int) -> int:
    return SERVERS[job] - WORKERS + worker


def gradient(
    job: int, worker: int, values: Sequence[int], number: int = 0, slot: int = 0, priority: int = 10
) -> Packet:
    ends = port(job, worker), SERVERS[job]
    fields = {"job": job, "number": number, "slot": slot, "worker": worker, "priority": priority}
    return agg(*ends, kind=GRADIENT, bitmap=1 << worker, values=values, **fields)


def content(packet: Packet, job: int, number: int, bitmap: int, values: Sequence[int]) -> Packet:
    """A packet that leaves with a slot's content."""
    made = packet.copy()
    header = made[Agg]
    header.kind, header.job, header.number = GRADIENT, job, number
    header.bitmap, header.values = bitmap, list(values)
    return made


def flagged(packet: Packet, flags: int) -> Packet:
    made = packet.copy()
    made[Agg].flags = flags
    return made


def reminder(job: int, number: int, slot: int) -> Packet:
    return agg(SERVERS[job], "switch", kind=REMINDER, job=job, number=number, slot=slot)


def evict(t: Bench, switch: Switch) -> tuple[list[list[int]], Packet, Packet]:
    """Job 0 has two workers in slot 2; a more urgent gradient of job 1 is to come. Returns what job
    0 has sent, that gradient, and the partial that must leave."""
    old = [numbers(t, VALUES) for _ in range(2)]
    for worker in (0, 1):
        switch.send(port(0, worker), gradient(0, worker, old[worker], 11, 2, priority=20))
    new = gradient(1, 2, numbers(t, VALUES), 77, 2, priority=21)
    return old, new, content(new, 0, 11, 0b011, total(old))


@LAB.check(5, "A complete sum leaves, and its slot is free at once")
def complete(t: Bench) -> None:
    switch, sent = start(t), [numbers(t, VALUES) for _ in range(WORKERS)]
    for worker in (0, 1):
        packet = gradient(0, worker, sent[worker], 5, 3)
        switch.expect(port(0, worker), packet, {}, "not all workers are in")
    last = gradient(0, 2, sent[2], 5, 3)
    why = "the sum is complete and goes to the PS of job 0"
    want = content(last, 0, 5, EVERYONE, total(sent))
    switch.expect(port(0, 2), last, {SERVERS[0]: want}, why, only=SUM)
    why = "the slot is free"
    switch.expect(port(1, 0), gradient(1, 0, numbers(t, VALUES), 1, 3, 1), {}, why)


@LAB.check(15, "A more urgent fragment takes the slot, and its packet carries the old sum away")
def swap(t: Bench) -> None:
    switch = start(t)
    _, new, want = evict(t, switch)
    why = "what leaves is the evicted sum: its job, number, workers and values"
    switch.expect_one(port(1, 2), new, want, why, only=SUM)


@LAB.check(5, "An evicted sum is flagged PARTIAL")
def partial(t: Bench) -> None:
    switch = start(t)
    _, new, want = evict(t, switch)
    why = "the PS must know that workers are missing"
    switch.expect_one(port(1, 2), new, flagged(want, PARTIAL), why, only=["Agg.flags"])


@LAB.check(15, "An evicted sum goes to its own job's PS")
def home(t: Bench) -> None:
    switch = start(t)
    _, new, want = evict(t, switch)
    why = "the sum is job 0's, whoever's packet it travels in: port 4"
    switch.expect(port(1, 2), new, {SERVERS[0]: want}, why, only=["Agg.worker"])


@LAB.check(10, "After a swap the new fragment is in the slot, with its values and its worker's bit")
def newcomer(t: Bench) -> None:
    switch = start(t)
    _, new, _ = evict(t, switch)
    switch.send(port(1, 2), new)
    why = "worker 2 of job 1 came with the swap; it is in the sum"
    switch.expect(port(1, 2), new, {}, why)
    rest = [numbers(t, VALUES) for _ in range(2)]
    switch.expect(port(1, 0), gradient(1, 0, rest[0], 77, 2, 21), {}, "worker 1 is missing")
    last = gradient(1, 1, rest[1], 77, 2, 21)
    want = content(last, 1, 77, EVERYONE, total([*rest, new[Agg].values]))
    switch.expect_one(port(1, 1), last, want, "the sum has all three workers", only=SUM)


@LAB.check(10, "A fragment that is not more urgent goes to its own PS, and the slot stays")
def refused(t: Bench) -> None:
    for priority in (20, 5):
        switch = start(t)
        old, _, _ = evict(t, switch)
        packet = gradient(1, 0, numbers(t, VALUES), 9, 2, priority)
        want = {SERVERS[1]: flagged(packet, COLLISION)}
        why = f"priority {priority} is not higher than the slot's 20"
        switch.expect(port(1, 0), packet, want, why, ignore=["IP.chksum"])
        last = gradient(0, 2, numbers(t, VALUES), 11, 2, 20)
        full = content(last, 0, 11, EVERYONE, total([*old, last[Agg].values]))
        switch.expect_one(port(0, 2), last, full, "job 0's sum is untouched", only=SUM)


@LAB.check(5, "Every fragment that is refused halves the slot's priority")
def downgrade(t: Bench) -> None:
    switch = start(t)
    sent = numbers(t, VALUES)
    switch.send(port(0, 0), gradient(0, 0, sent, 1, 2, 200))
    for halved in (100, 50):
        packet = gradient(1, 0, numbers(t, VALUES), 2, 2, 60)
        want = {SERVERS[1]: flagged(packet, COLLISION)}
        why = f"60 is not above {2 * halved}; from now on the slot has priority {halved}"
        switch.expect(port(1, 0), packet, want, why, only=["Agg.flags", *OWNER])
    packet = gradient(1, 0, numbers(t, VALUES), 2, 2, 60)
    why = "the slot's priority has come down to 50, so 60 takes it"
    switch.expect_one(port(1, 0), packet, content(packet, 0, 1, 1, sent), why, only=SUM)


@LAB.check(10, "A reminder gets the slot's sum, or the answer that there is none")
def remind(t: Bench) -> None:
    switch = start(t)
    old, _, _ = evict(t, switch)
    for job, number in ((0, 12), (1, 11)):
        packet = reminder(job, number, 2)
        want = packet.copy()
        want[Agg].kind = NOTHING
        why = f"the slot holds nothing of job {job}'s fragment {number}"
        only = ["Agg.kind", "Agg.number", "Agg.job"]
        switch.expect(SERVERS[job], packet, {SERVERS[job]: want}, why, only=only)
    packet = reminder(0, 11, 2)
    want = flagged(content(packet, 0, 11, 0b011, total(old)), PARTIAL)
    why = "the PS has asked for this sum, and gets it as it is"
    only = ["Agg.flags", *SUM, "IP.len", "UDP.len"]
    switch.expect(SERVERS[0], packet, {SERVERS[0]: want}, why, only=only)
    switch.expect(port(1, 0), gradient(1, 0, numbers(t, VALUES), 2, 2, 1), {}, "the slot is free")


@LAB.check(5, "With preemption the memory completes more sums: a stalled job does not keep it")
def utilisation(t: Bench) -> None:
    shares = [_useful(t, start(t, preemption)) for preemption in (False, True)]
    t.note(f"slot-time spent on sums that were completed: {shares[0]:.0%} without preemption,")
    t.note(f"{shares[1]:.0%} with it")
    if shares[1] <= shares[0] + 0.2:
        raise Failure(
            "with preemption the slots should spend more of their time on sums that are completed:"
            f" {shares[0]:.0%} without it, {shares[1]:.0%} with it"
        )


def _useful(t: Bench, switch: Switch) -> float:
    """The share of slot-time that goes into sums which the switch completes.

    Job 0 has a worker that stands still, so its sums wait; job 1 is more urgent and goes on. The
    slots take turns, and time is counted in the packets of a turn.
    """
    since: dict[int, tuple[int, int, int]] = {}  # slot: (job, number, claimed at)
    useful = now = 0
    steps = 12
    for step in range(steps):
        for slot in range(SLOTS):
            for job, workers in ((0, 2), (1, WORKERS)):
                for worker in range(workers):
                    now += 1
                    packet = gradient(job, worker, [1] * VALUES, step, slot, 5 + 100 * job)
                    out = [Ether(data)[Agg] for _, data in switch.send(port(job, worker), packet)]
                    if not out and slot not in since:
                        since[slot] = (job, step, now)
                    for header in out:
                        owner = (int(header.job), int(header.number))
                        held = since.get(slot)
                        if header.bitmap == EVERYONE and held and owner == held[:2]:
                            useful += now - held[2]
                            del since[slot]
                        elif int(header.flags) & PARTIAL or header.job != job:  # swapped
                            since[slot] = (job, step, now)
        if step % 4 == 3:  # the PS of job 0 gives up waiting
            for slot in range(SLOTS):
                for number in range(step + 1):
                    for _, data in switch.send(SERVERS[0], reminder(0, number, slot)):
                        if Ether(data)[Agg].kind == GRADIENT:
                            since.pop(slot, None)
    return useful / now
