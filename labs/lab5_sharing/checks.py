"""Checks of lab 5: two jobs share a pool, first come first served, with a PS to fall back on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scapy.packet import Packet

from labs.grader.bench import PACKET_GAP_NS, Bench, Switch, total
from labs.grader.jobs import (
    COLLISION,
    PORTS,
    RESEND,
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
from labs.grader.packets import RESULT, Agg
from labs.grader.pools import Answer, Content, History, Model

LAB = Lab(
    title="Sharing",
    hand_in=("sharing.p4",),
    given=("packet.p4", "values.p4"),
    program="sharing.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
    ports=PORTS,
)
SAME = ("IP.chksum",)  # of a header that does not change
WHOLE = ((0, SLOTS), (0, SLOTS))
HALVES = ((0, SLOTS // 2), (SLOTS // 2, SLOTS // 2))


@dataclass
class Pool:
    """A switch and the two jobs that share it."""

    t: Bench
    switch: Switch
    jobs: list[Job]

    def give(self, job: Job, who: Sequence[int], number: int, slot: int) -> Sent:
        """These workers send a fragment's gradients, in this order."""
        sent = Sent(job, {n: draw_values(self.t) for n in who})
        for n, values in sent.values.items():
            self.switch.send(job.ports[n], job.gradient(n, values, number, slot))
        return sent

    def order(self, job: Job) -> list[int]:
        """All workers of a job, in any order."""
        return self.t.random.sample(range(len(job.workers)), len(job.workers))

    def finish(self, sent: Sent, who: int, number: int, slot: int, why: str) -> None:
        """The last worker's gradient makes the sum leave."""
        job = sent.job
        last = job.gradient(who, draw_values(self.t), number, slot)
        want = carrying(last, job.everyone, total([sent.sums, last["Agg"].values]))
        self.switch.expect_one(job.ports[who], last, want, why, ignore=SAME)


def start(
    t: Bench, parts: Sequence[tuple[int, int]] = WHOLE, fewest: int = 3, most: int = 5
) -> Pool:
    """A switch with two jobs; `parts` are (base, size) of theirs in the pool."""
    switch, jobs = t.switch(), draw_jobs(t, fewest, most)
    for job, (base, size) in zip(jobs, parts, strict=True):
        row = [job.everyone, base, size, job.server, job.group]
        switch.table_add("job", "aggregate", [job.number], row)
        switch.multicast_group(job.group, job.members)
    return Pool(t, switch, jobs)


def draw_slot(t: Bench) -> int:
    return t.random.randrange(SLOTS)


@LAB.check(10, "A complete sum goes to its job's PS, as one gradient of all workers")
def complete(t: Bench) -> None:
    pool, slots = start(t), t.random.sample(range(SLOTS), 2)
    for job, slot in zip(pool.jobs, slots, strict=True):
        sent = [draw_values(t) for _ in job.workers]
        *others, last = pool.order(job)
        for who in others:
            packet = job.gradient(who, sent[who], 0, slot)
            why = "not all workers are in, so it is absorbed"
            pool.switch.expect(job.ports[who], packet, {}, why)
        packet = job.gradient(last, sent[last], 0, slot)
        want = {job.server: carrying(packet, job.everyone, total(sent))}
        why = f"job {job.number}'s sum is complete and goes to port {job.server}, with all bits set"
        pool.switch.expect(job.ports[last], packet, want, why, ignore=SAME)


@LAB.check(10, "A fragment that finds its slot taken goes unchanged to its own PS")
def collision(t: Bench) -> None:
    pool = start(t)
    (ours, theirs), number, slot = pool.jobs, draw_number(t), draw_slot(t)
    *others, last = pool.order(ours)
    first = pool.give(ours, others, number, slot)
    strangers = [(theirs, 0, number, "another job, the same number")]
    others_of_ours = other_numbers(t, number)
    strangers += [(ours, last, n, "the same job, another number") for n in others_of_ours]
    for job, who, other, t.case in strangers:
        packet = job.gradient(who, draw_values(t), other, slot)
        why = f"the slot belongs to job {ours.number}'s fragment {number}; "
        why += f"job {job.number}'s PS takes care of this one"
        leaving = {job.server: flagged(packet, COLLISION)}
        pool.switch.expect(job.ports[who], packet, leaving, why, ignore=SAME)
    t.case = "the sum that was there first"
    pool.finish(first, last, number, slot, f"fragment {number}'s sum has nothing of the others")


@LAB.check(5, "A slot is taken until its result has passed, not only until it is complete")
def held(t: Bench) -> None:
    pool = start(t)
    (ours, theirs), number, slot = pool.jobs, draw_number(t), draw_slot(t)
    pool.give(ours, pool.order(ours), number, slot)
    packet = theirs.gradient(1, draw_values(t), number, slot)
    want = {theirs.server: flagged(packet, COLLISION)}
    why = "the sum may be lost on its way to the PS, so the switch keeps it"
    pool.switch.expect(theirs.ports[1], packet, want, why, ignore=SAME)


@LAB.check(10, "A result goes to its job's workers and frees the slot")
def released(t: Bench) -> None:
    pool = start(t)
    (ours, theirs), number, slot = pool.jobs, draw_number(t), draw_slot(t)
    sent = pool.give(ours, pool.order(ours), number, slot)
    packet = ours.result(sent.sums, number, slot)
    want = dict.fromkeys(ours.ports, packet)
    why = (
        f"every worker of job {ours.number} waits for the result, and nobody of job {theirs.number}"
    )
    pool.switch.expect(ours.server, packet, want, why, ignore=SAME)
    packet = theirs.gradient(1, draw_values(t), number + 6, slot)
    why = f"the slot is free, so job {theirs.number} gets it"
    pool.switch.expect(theirs.ports[1], packet, {}, why)


@LAB.check(10, "A result frees no slot of another fragment")
def owner(t: Bench) -> None:
    for other_job in (False, True):
        t.case = "a result of another job" if other_job else "a result of another fragment"
        pool = start(t)
        (ours, theirs), number, slot = pool.jobs, draw_number(t), draw_slot(t)
        *others, last = pool.order(ours)
        sent = pool.give(ours, others, number, slot)
        job = theirs if other_job else ours
        for passed in [number] if other_job else other_numbers(t, number):
            pool.switch.send(job.server, job.result(draw_values(t), passed, slot))
        why = f"the slot is job {ours.number}'s fragment {number}'s, "
        why += f"not job {job.number}'s fragment {passed}'s"
        pool.finish(sent, last, number, slot, why)


@LAB.check(10, "A duplicate is not added; when the sum is complete, it is sent again")
def duplicate(t: Bench) -> None:
    pool = start(t)
    job, number, slot = pool.jobs[0], draw_number(t), draw_slot(t)
    *others, last = pool.order(job)
    sent = pool.give(job, others, number, slot)
    copied = t.random.choice(others)
    packet = job.gradient(copied, sent.values[copied], number, slot)
    t.case = "a duplicate before the sum is complete"
    why = f"worker {job.workers[copied]} is in the sum already"
    pool.switch.expect(job.ports[copied], packet, {}, why)
    sent.values[last] = draw_values(t)
    packet = job.gradient(last, sent.values[last], number, slot)
    want = carrying(packet, job.everyone, sent.sums)
    why = "each worker is in the sum once"
    pool.switch.expect_one(job.ports[last], packet, want, why, ignore=SAME)
    t.case = "a duplicate after the sum is complete"
    copied = t.random.choice(others)
    packet = job.gradient(copied, sent.values[copied], number, slot)
    why = "the PS has not got the sum, or its result was lost: it gets the sum again"
    leaving = {job.server: carrying(packet, job.everyone, sent.sums)}
    pool.switch.expect(job.ports[copied], packet, leaving, why, ignore=SAME)


@LAB.check(10, "A retransmission takes the slot's sum along to the PS, and claims no slot")
def resend(t: Bench) -> None:
    pool = start(t)
    (ours, theirs), number, slot = pool.jobs, draw_number(t), draw_slot(t)
    *others, last = pool.order(ours)
    sent = pool.give(ours, others, number, slot)

    def sends(
        job: Job, who: int, values: list[int], at: int, why: str, sum_of: Sent | None
    ) -> None:
        packet = job.gradient(who, values, at, slot, RESEND)
        want = carrying(packet, sum_of.bitmap, sum_of.sums) if sum_of else packet
        pool.switch.expect(job.ports[who], packet, {job.server: want}, why, ignore=SAME)

    t.case = "a retransmission of another job"
    sends(
        theirs, 2, draw_values(t), number, "there is nothing of this fragment in the switch", None
    )
    t.case = "a retransmission of a worker that is in the sum"
    why = "the worker is in the partial sum already; the sum leaves with all bits that it has"
    sends(ours, others[0], sent.values[others[0]], number, why, sent)
    t.case = "a retransmission that finds its slot free"
    why = "the slot is free, and a retransmission does not claim it"
    sends(ours, last, draw_values(t), number, why, None)
    t.case = "a retransmission of a worker that is not in the sum"
    new = pool.give(theirs, [0], number + 3, slot)
    new.values[1] = draw_values(t)
    why = "the worker is new; its values are added to the sum that leaves"
    sends(theirs, 1, new.values[1], number + 3, why, new)


class Sharing(Model):
    """The table of the hand-out, as a model."""

    def take(self, job: Job, packet: Packet, slot: int | None, mine: bool) -> Answer:
        header, own = packet[Agg], self.own(slot)
        if header.kind == RESULT:
            return self.take_result(job, packet, slot, mine)
        if int(header.flags) & RESEND:
            if slot is None or own is None or not mine:
                return Answer({job.server: packet})
            if not own.bitmap & header.bitmap:
                own.add(packet)
            del self.slots[slot]
            return Answer({job.server: carrying(packet, own.bitmap, own.values)})
        if slot is None or own is not None and not mine:
            return Answer({job.server: flagged(packet, COLLISION)})
        if own is None:
            bitmap, values = int(header.bitmap), list(header.values)
            self.slots[slot] = Content(job, header.number, bitmap, values)
            return Answer()
        if not own.bitmap & header.bitmap:
            own.add(packet)
        elif not own.held:
            return Answer()
        own.held = own.bitmap == job.everyone
        want = {job.server: carrying(packet, own.bitmap, own.values)}
        return Answer(want if own.held else {})


@LAB.check(10, "In long histories every field of every packet that leaves is right")
def histories(t: Bench) -> None:
    first = t.random.randrange(1, SLOTS)
    for parts in (WHOLE, ((0, first), (first, SLOTS - first))):
        pool = start(t, parts)
        numbers = [job.number for job in pool.jobs]
        model = Sharing(dict(zip(numbers, parts, strict=True)))
        History(t, pool.switch, pool.jobs, model, RESEND).play(250)


@LAB.check(5, "With a static partition no job touches the other's part")
def partition(t: Bench) -> None:
    pool = start(t, HALVES)
    number, slot = draw_number(t), t.random.randrange(SLOTS // 2)
    last = {job.number: pool.order(job) for job in pool.jobs}
    sent = [pool.give(job, last[job.number][:-1], number, slot) for job in pool.jobs]
    t.case = "a slot outside of the job's part"
    for job in pool.jobs:
        for outside in (SLOTS // 2, SLOTS // 2 + slot, slot | 1 << t.random.randrange(8, 16)):
            packet = job.gradient(1, draw_values(t), number + 4, outside)
            leaving = {job.server: flagged(packet, COLLISION)}
            why = f"slot {outside} is beyond the {SLOTS // 2} slots of job {job.number}"
            pool.switch.expect(job.ports[1], packet, leaving, why, ignore=SAME)
            packet = job.gradient(1, draw_values(t), number + 4, outside, RESEND)
            why += ", and a retransmission brings no flag COLLISION"
            leaving = {job.server: packet}
            pool.switch.expect(job.ports[1], packet, leaving, why, ignore=SAME)
    t.case = "the same slot of both parts"
    for each in sent:
        why = f"job {each.job.number} has a slot {slot} of its own"
        pool.finish(each, last[each.job.number][-1], number, slot, why)
    for text, parts in (("shared", WHOLE), ("partitioned", HALVES)):
        share = _completed(start(t, parts, most=3), shared=text == "shared")
        t.note(f"{text} pool: {share:.0%} of the sums in the switch")


def _completed(pool: Pool, shared: bool) -> float:
    """The share of fragments that the switch completes when each job has 6 fragments on their way
    at a time, and the second job pauses half of the time."""
    done = count = 0
    for step in range(12):
        active = (0, 1) if step % 2 else (0,)
        packets: list[tuple[int, Packet | bytes]] = []
        results: list[tuple[int, Packet | bytes]] = []
        for number, job in ((n, pool.jobs[n]) for n in active):
            for k in range(6):
                count += 1
                slot, fragment = (k + 6 * number) % SLOTS if shared else k, 6 * step + k
                for who, port in enumerate(job.ports):
                    packets.append((port, job.plain(who, fragment, slot)))
                results.append((job.server, job.result([3] * VALUES, fragment, slot)))
        everyone = {job.number: job.everyone for job in pool.jobs}
        for data in _send(pool.switch, packets):
            _, _, job_number, _, bitmap = header(data)
            done += bitmap == everyone.get(job_number)
        _send(pool.switch, results)
    return done / count


def _send(switch: Switch, packets: list[tuple[int, Packet | bytes]]) -> list[bytes]:
    """Send packets one after the other; what leaves."""
    begin = switch.now_ns
    timed = [(begin + PACKET_GAP_NS * (n + 1), *each) for n, each in enumerate(packets)]
    return [data for _, _, data in switch.burst(timed)]
