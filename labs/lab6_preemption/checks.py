"""Checks of lab 6: preemption, downgrading, reminders; and what that does to the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scapy.layers.inet import UDP
from scapy.packet import Packet

from labs.grader.bench import Bench, Failure, Switch, total
from labs.grader.jobs import (
    COLLISION,
    PARTIAL,
    PORTS,
    SLOTS,
    VALUES,
    Job,
    Sent,
    carrying,
    draw_jobs,
    draw_number,
    draw_values,
    flagged,
    header,
    other_numbers,
)
from labs.grader.lab import Lab
from labs.grader.packets import GRADIENT, NOTHING, REMINDER, RESULT, Agg
from labs.grader.pools import Answer, Content, History, Model

LAB = Lab(
    title="Preemption",
    hand_in=("preemption.p4",),
    given=("packet.p4", "values.p4"),
    program="preemption.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
    ports=PORTS,
)
OWNER = ("Agg.kind", "Agg.job", "Agg.number", "Agg.bitmap")
SUM = (*OWNER, "Agg.values")
SAME = ("IP.chksum",)  # of a header that does not change
COMPLETE = (*SAME, "Agg.priority")  # what a complete sum has of its slot is open
SWAPPED = (*SUM, "Agg.priority", "Agg.flags")


@dataclass
class Pool:
    """A switch, two jobs, and a place in the pool for which they compete."""

    t: Bench
    switch: Switch
    ours: Job
    theirs: Job
    slot: int
    number: int  # of our fragment there

    def order(self, job: Job) -> list[int]:
        """All workers of a job, in any order."""
        return self.t.random.sample(range(len(job.workers)), len(job.workers))

    def gradient(
        self, job: Job, who: int, values: Sequence[int], number: int, priority: int
    ) -> Packet:
        return job.gradient(who, values, number, self.slot, 0, priority)

    def give(self, who: Sequence[int], priority: int) -> Sent:
        """Workers of our job send."""
        sent = Sent(self.ours, {n: draw_values(self.t) for n in who})
        for n, values in sent.values.items():
            packet = self.gradient(self.ours, n, values, self.number, priority)
            self.switch.send(self.ours.ports[n], packet)
        return sent


@dataclass
class Eviction:
    """Our job is in the slot without its `last` worker; `packet`, which is `new` to the slot and
    more urgent, is to come, and `partial` must leave for it."""

    old: Sent
    last: int
    priority: int
    new: int
    packet: Packet
    partial: Packet


def start(t: Bench, preemption: bool = True, most: int = 5, size: int = SLOTS) -> Pool:
    switch, jobs = t.switch(), draw_jobs(t, most=most)
    for job in jobs:
        row = [job.everyone, size, job.group, int(preemption)]
        switch.table_add("job", "aggregate", [job.number], row)
        switch.table_add("server", "to_port", [job.number], [job.server])
        switch.multicast_group(job.group, job.members)
    ours, theirs = jobs
    return Pool(t, switch, ours, theirs, t.random.randrange(size), draw_number(t))


def content(packet: Packet, job: Job, number: int, bitmap: int, values: Sequence[int]) -> Packet:
    """A packet that leaves with a slot's content."""
    made = carrying(packet, bitmap, values)
    made[Agg].kind, made[Agg].job, made[Agg].number = GRADIENT, job.number, number
    return made


def evict(t: Bench, pool: Pool, far: bool = False, more: int = 1, high: bool = False) -> Eviction:
    """All of our workers but one have sent; a gradient of the other job is to come, which is more
    urgent by `more`, or `far` more: its priority has the top bit, and ours has not. `high`: ours
    has it, too."""
    *others, last = pool.order(pool.ours)
    priority = t.random.randrange(128 if high else 2, 126 if far or more > 1 else 255)
    urgent = t.random.randrange(128, 256) if far else priority + more
    old = pool.give(others, priority)
    new = t.random.randrange(len(pool.theirs.workers))
    number = pool.number + t.random.randrange(2, 1000)
    packet = pool.gradient(pool.theirs, new, draw_values(t), number, urgent)
    partial = content(packet, pool.ours, pool.number, old.bitmap, old.sums)
    partial[Agg].priority = priority
    return Eviction(old, last, priority, new, packet, partial)


@LAB.check(5, "A complete sum leaves, and its slot is free at once")
def complete(t: Bench) -> None:
    pool = start(t)
    t.case = "another fragment in another slot"
    number, other = pool.number + 1, (pool.slot + t.random.randrange(1, SLOTS)) % SLOTS
    packet = pool.theirs.gradient(0, draw_values(t), number, other, 0, 1)
    pool.switch.expect(pool.theirs.ports[0], packet, {}, "its slot is free")
    t.case = ""
    job, priority = pool.ours, t.random.randrange(2, 256)
    sent = [draw_values(t) for _ in job.workers]
    *others, last = pool.order(job)
    for who in others:
        packet = pool.gradient(job, who, sent[who], pool.number, priority)
        pool.switch.expect(job.ports[who], packet, {}, "not all workers are in")
    packet = pool.gradient(job, last, sent[last], pool.number, priority)
    why = f"the sum is complete and goes to the PS of job {job.number}"
    want = content(packet, job, pool.number, job.everyone, total(sent))
    pool.switch.expect(job.ports[last], packet, {job.server: want}, why, ignore=COMPLETE)
    packet = pool.gradient(pool.theirs, 0, draw_values(t), 1, 127)
    pool.switch.expect(pool.theirs.ports[0], packet, {}, "the slot is free")
    t.case = "results"
    for number in (*other_numbers(t, 1), 1):
        packet = pool.theirs.result(draw_values(t), number, pool.slot)
        leaving = dict.fromkeys(pool.theirs.ports, packet)
        why = f"every worker of job {pool.theirs.number} waits for the result"
        pool.switch.expect(pool.theirs.server, packet, leaving, why, ignore=SAME)
        packet = pool.gradient(job, 0, draw_values(t), pool.number + 1, 1)
        if number == 1:
            pool.switch.expect(job.ports[0], packet, {}, "the result has freed its slot")
        else:
            refused = {job.server: flagged(packet, COLLISION)}
            why = "the slot belongs to another fragment than the result's"
            pool.switch.expect(job.ports[0], packet, refused, why, ignore=SAME)


@LAB.check(10, "A more urgent fragment takes the slot, and its packet carries the old sum away")
def swap(t: Bench) -> None:
    for far in (False, True):
        t.case = "a priority that is much higher" if far else "a priority that is higher by one"
        pool = start(t)
        e = evict(t, pool, far)
        why = "what leaves is the evicted sum: its job, number, workers, priority and values"
        only = [*SUM, "Agg.priority"]
        pool.switch.expect_one(pool.theirs.ports[e.new], e.packet, e.partial, why, only=only)


@LAB.check(5, "An evicted sum is flagged PARTIAL")
def partial(t: Bench) -> None:
    pool = start(t)
    e = evict(t, pool)
    why, want = "the PS must know that workers are missing", flagged(e.partial, PARTIAL)
    pool.switch.expect_one(pool.theirs.ports[e.new], e.packet, want, why, only=["Agg.flags"])


@LAB.check(10, "An evicted sum goes to its own job's PS")
def home(t: Bench) -> None:
    pool = start(t)
    e = evict(t, pool)
    server = pool.ours.server
    why = f"the sum is job {pool.ours.number}'s, whoever's packet it travels in: port {server}"
    leaving = {server: e.partial}
    pool.switch.expect(pool.theirs.ports[e.new], e.packet, leaving, why, ignore=[*SAME, *SWAPPED])


@LAB.check(10, "After a swap the new fragment is in the slot, with its values and its worker's bit")
def newcomer(t: Bench) -> None:
    pool = start(t)
    e, job = evict(t, pool, more=2), pool.theirs
    number, priority = int(e.packet[Agg].number), int(e.packet[Agg].priority)
    pool.switch.send(job.ports[e.new], e.packet)
    t.case = "the same gradient again"
    why = f"worker {job.workers[e.new]} of job {job.number} came with the swap; it is in the sum"
    pool.switch.expect(job.ports[e.new], e.packet, {}, why)
    t.case = "a fragment that is more urgent than the old one, and less than the new one"
    ours, urgent = pool.ours, pool.gradient(pool.ours, 0, draw_values(t), number + 1, priority - 1)
    leaving = {ours.server: flagged(urgent, COLLISION)}
    why = f"the slot has the new fragment's priority, {priority}"
    pool.switch.expect(ours.ports[0], urgent, leaving, why, ignore=SAME)
    t.case = "the other workers' gradients"
    *others, last = [who for who in pool.order(job) if who != e.new]
    values = [e.packet[Agg].values]
    for who in others:
        values.append(draw_values(t))
        packet = pool.gradient(job, who, values[-1], number, priority)
        pool.switch.expect(job.ports[who], packet, {}, "a worker is missing")
    values.append(draw_values(t))
    packet = pool.gradient(job, last, values[-1], number, priority)
    want = content(packet, job, number, job.everyone, total(values))
    pool.switch.expect_one(
        job.ports[last], packet, want, "the sum has all workers", ignore=COMPLETE
    )


@LAB.check(10, "A fragment that is not more urgent goes to its own PS, and the slot stays")
def refused(t: Bench) -> None:
    for t.case in ("equal priority", "lower priority", "a priority that is much lower"):
        pool, far = start(t), "much" in t.case
        e, theirs, ours = evict(t, pool, high=far), pool.theirs, pool.ours
        priority = t.random.randrange(1, 128 if far else e.priority)
        if "equal" in t.case:
            priority = e.priority
        packet = pool.gradient(theirs, 0, draw_values(t), pool.number + 1, priority)
        leaving = {theirs.server: flagged(packet, COLLISION)}
        why = f"priority {priority} is not higher than the slot's {e.priority}"
        pool.switch.expect(theirs.ports[0], packet, leaving, why, ignore=SAME)
        values = draw_values(t)
        packet = pool.gradient(ours, e.last, values, pool.number, e.priority)
        sums = total([e.old.sums, values])
        full = content(packet, ours, pool.number, ours.everyone, sums)
        why = f"job {ours.number}'s sum is untouched"
        pool.switch.expect_one(ours.ports[e.last], packet, full, why, ignore=COMPLETE)
    pool = start(t)
    e, theirs = evict(t, pool), pool.theirs
    t.case = "a slot outside of the pool"
    for slot in (SLOTS, pool.slot | 1 << t.random.randrange(8, 16)):
        packet = theirs.gradient(0, draw_values(t), pool.number + 1, slot, 0, 255)
        leaving = {theirs.server: flagged(packet, COLLISION)}
        why = f"there is no slot {slot} among {SLOTS}"
        pool.switch.expect(theirs.ports[0], packet, leaving, why, ignore=SAME)
    t.case = "a higher priority, with a control plane that has switched preemption off"
    pool = start(t, preemption=False)
    e, theirs = evict(t, pool), pool.theirs
    leaving = {theirs.server: flagged(e.packet, COLLISION)}
    why = f"job {theirs.number}'s policy is not to take slots"
    pool.switch.expect(theirs.ports[e.new], e.packet, leaving, why, ignore=SAME)


@LAB.check(5, "Every fragment that is refused halves the slot's priority")
def downgrade(t: Bench) -> None:
    pool = start(t)
    ours, theirs = pool.ours, pool.theirs
    first = t.random.randrange(80, 128)
    urgent = t.random.randrange(first // 4 + 1, first // 2 + 1)
    old = pool.give([0], first)
    number = pool.number + 5
    for halved in (first // 2, first // 4):
        packet = pool.gradient(theirs, 0, draw_values(t), number, urgent)
        leaving = {theirs.server: flagged(packet, COLLISION)}
        why = f"{urgent} is not above {2 * halved}; from now on the slot has priority {halved}"
        pool.switch.expect(theirs.ports[0], packet, leaving, why, ignore=SAME)
    packet = pool.gradient(theirs, 0, draw_values(t), number, urgent)
    why = f"the slot's priority has come down to {first // 4}, so {urgent} takes it"
    want = content(packet, ours, pool.number, old.bitmap, old.sums)
    pool.switch.expect_one(theirs.ports[0], packet, want, why, only=SUM)


@LAB.check(10, "A reminder gets the slot's sum, or the answer that there is none")
def remind(t: Bench) -> None:
    pool = start(t)
    e, ours = evict(t, pool), pool.ours
    t.case = "a reminder of what is not in the slot"
    absent = [(ours, n, pool.slot) for n in other_numbers(t, pool.number)]
    absent += [(pool.theirs, pool.number, pool.slot), (ours, pool.number, SLOTS)]
    absent.append((ours, pool.number, pool.slot | 1 << t.random.randrange(8, 16)))
    empty = (pool.slot + t.random.randrange(1, SLOTS)) % SLOTS
    absent += [(job, 0, empty) for job in (ours, pool.theirs)]
    for job, number, slot in absent:
        packet = job.reminder(number, slot)
        want = packet.copy()
        want[Agg].kind = NOTHING
        why = f"slot {slot} holds nothing of job {job.number}'s fragment {number}"
        pool.switch.expect(
            job.server, packet, {job.server: want}, why, ignore=[*SAME, "UDP.chksum"]
        )
    t.case = "a reminder of the slot's fragment"
    packet = ours.reminder(pool.number, pool.slot)
    want = content(packet, ours, pool.number, e.old.bitmap, e.old.sums)
    why = "the PS has asked for this sum, and gets it as it is"
    want[UDP].chksum = 0
    leaving = {ours.server: flagged(want, PARTIAL)}
    pool.switch.expect(ours.server, packet, leaving, why, ignore=["Agg.priority"])
    packet = pool.gradient(pool.theirs, 0, draw_values(t), 2, 1)
    pool.switch.expect(pool.theirs.ports[0], packet, {}, "the slot is free")


class Preemption(Model):
    """The table of the hand-out, as a model."""

    def __init__(self, jobs: Sequence[Job], size: int, preemption: bool) -> None:
        super().__init__({job.number: (0, size) for job in jobs})
        self.preemption = preemption

    def take(self, job: Job, packet: Packet, slot: int | None, mine: bool) -> Answer:
        header, own = packet[Agg], self.own(slot)
        if header.kind == RESULT:
            return self.take_result(job, packet, slot, mine)
        if header.kind == REMINDER:
            if slot is None or own is None or not mine:
                nothing = packet.copy()
                nothing[Agg].kind = NOTHING
                return Answer({job.server: nothing}, ("UDP.chksum", "IP.chksum"))
            del self.slots[slot]
            made = flagged(content(packet, job, own.number, own.bitmap, own.values), PARTIAL)
            made[UDP].chksum = 0
            return Answer({job.server: made}, _open(header, own))
        if slot is None:
            return Answer({job.server: flagged(packet, COLLISION)})
        new = Content(job, header.number, int(header.bitmap), header.values, header.priority)
        if own is None:
            self.slots[slot] = new
        elif mine and not own.bitmap & header.bitmap:
            own.add(packet)
            if own.bitmap == job.everyone:
                del self.slots[slot]
                want = content(packet, job, own.number, own.bitmap, own.values)
                return Answer({job.server: want}, _open(header, own))
        elif not mine and self.preemption and header.priority > own.priority:
            self.slots[slot] = new
            made = content(packet, own.job, own.number, own.bitmap, own.values)
            made[Agg].priority = own.priority
            return Answer({own.job.server: flagged(made, PARTIAL)})
        elif not mine:
            own.priority >>= self.preemption
            return Answer({job.server: flagged(packet, COLLISION)})
        return Answer()


def _open(header: Agg, own: Content) -> tuple[str, ...]:
    """The priority of a sum is that of the packet or of the slot: open if they differ."""
    return () if header.priority == own.priority else ("Agg.priority",)


@LAB.check(10, "In long histories every field of every packet that leaves is right")
def histories(t: Bench) -> None:
    for preemption, steps in ((True, 400), (False, 100)):
        size = t.random.randrange(3, SLOTS + 1)
        pool = start(t, preemption, size=size)
        jobs = [pool.ours, pool.theirs]
        model = Preemption(jobs, size, preemption)
        History(t, pool.switch, jobs, model, REMINDER).play(steps)


@LAB.check(5, "With preemption the memory completes more sums: a stalled job does not keep it")
def utilisation(t: Bench) -> None:
    shares = [_useful(t, start(t, preemption, most=3)) for preemption in (False, True)]
    t.note(f"slot-time spent on sums that were completed: {shares[0]:.0%} without preemption,")
    t.note(f"{shares[1]:.0%} with it")
    if shares[1] <= shares[0] + 0.2:
        raise Failure(
            "with preemption the slots should spend more of their time on sums that are completed:"
            f" {shares[0]:.0%} without it, {shares[1]:.0%} with it",
            case="the slots spend too little of their time on sums that are completed",
        )


def _useful(t: Bench, pool: Pool) -> float:
    """The share of slot-time that goes into sums which the switch completes.

    One of our workers stands still, so our sums wait; the other job is more urgent and goes on. The
    slots take turns, and time is counted in the packets of a turn.
    """
    since: dict[int, tuple[int, int, int]] = {}  # slot: (job, number, claimed at)
    useful = now = 0
    low = t.random.randrange(1, 50)
    high = low + t.random.randrange(20, 78)
    pairs = [(pool.ours, low, pool.order(pool.ours)[1:])]
    pairs.append((pool.theirs, high, pool.order(pool.theirs)))
    everyone = {job.number: job.everyone for job, _, _ in pairs}
    for step in range(12):
        for slot in range(SLOTS):
            for job, priority, workers in pairs:
                for who in workers:
                    now += 1
                    frame = job.plain(who, step, slot, priority)
                    out = [header(data) for _, data in pool.switch.send(job.ports[who], frame)]
                    if not out and slot not in since:
                        since[slot] = (job.number, step, now)
                    for _, flags, name, number, bitmap in out:
                        held = since.get(slot)
                        whole = bitmap == everyone.get(name) and not flags & PARTIAL
                        if whole and held and (name, number) == held[:2]:
                            useful += now - held[2]
                            del since[slot]
                        elif flags & PARTIAL or name != job.number:  # swapped
                            since[slot] = (job.number, step, now)
        if step % 4 == 3:  # our PS gives up waiting
            for slot in range(SLOTS):
                for number in range(step + 1):
                    packet = pool.ours.reminder(number, slot)
                    for _, data in pool.switch.send(pool.ours.server, packet):
                        if header(data)[0] == GRADIENT:
                            since.pop(slot, None)
    return useful / now
