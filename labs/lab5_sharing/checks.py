"""What lab 5 must do: two jobs share a pool, first come first served, with a PS to fall back on."""

from __future__ import annotations

from collections.abc import Sequence

from scapy.layers.l2 import Ether
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Switch
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import GRADIENT, RESULT, Agg, agg
from testbed.labs.grader.values import numbers, total

VALUES, SLOTS, WORKERS = 8, 8, 3
SERVERS = {0: 4, 1: 8}  # job: port of its PS; its workers are at the three ports below that
EVERYONE = (1 << WORKERS) - 1
LAB = Lab(
    title="Sharing",
    hand_in=("sharing.p4",),
    given=("packet.p4", "values.p4"),
    program="sharing.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)
SUM = ("Agg.kind", "Agg.job", "Agg.number", "Agg.bitmap", "Agg.values")


def start(t: Bench, parts: Sequence[tuple[int, int]] = ((0, SLOTS), (0, SLOTS))) -> Switch:
    """A switch with jobs 0 and 1; `parts` are (base, size) of theirs in the pool."""
    switch = t.switch()
    for job, (base, size) in enumerate(parts):
        row = [EVERYONE, base, size, SERVERS[job], job + 1]
        switch.table_add("job", "aggregate", [job], row)
        switch.multicast_group(job + 1, [(port(job, w), w + 1) for w in range(WORKERS)])
    return switch


def port(job: int, worker: int) -> int:
    return SERVERS[job] - WORKERS + worker


def gradient(
    job: int, worker: int, values: Sequence[int], number: int = 0, slot: int = 0, flags: int = 0
) -> Packet:
    return agg(
        port(job, worker),
        SERVERS[job],
        kind=GRADIENT,
        flags=flags,
        job=job,
        number=number,
        slot=slot,
        worker=worker,
        bitmap=1 << worker,
        values=values,
    )


def merged(packet: Packet, bitmap: int, values: Sequence[int]) -> Packet:
    """The packet with the slot's content."""
    made = packet.copy()
    made[Agg].bitmap, made[Agg].values = bitmap, list(values)
    return made


def flagged(packet: Packet, flags: int) -> Packet:
    made = packet.copy()
    made[Agg].flags = int(made[Agg].flags) | flags
    return made


def result(job: int, values: Sequence[int], number: int = 0, slot: int = 0) -> Packet:
    fields = {"job": job, "number": number, "slot": slot, "bitmap": EVERYONE}
    return agg(SERVERS[job], "switch", kind=RESULT, values=values, **fields)


COLLISION, RESEND = 2, 4


def give(t: Bench, switch: Switch, job: int, workers: Sequence[int], **at: int) -> list[list[int]]:
    """These workers send a fragment's gradients; returns what they sent."""
    sent = [numbers(t, VALUES) for _ in workers]
    for worker, values in zip(workers, sent, strict=True):
        switch.send(port(job, worker), gradient(job, worker, values, **at))
    return sent


@LAB.check(10, "A complete sum goes to its job's PS, as one gradient of all workers")
def complete(t: Bench) -> None:
    switch = start(t)
    for job in (0, 1):
        slot = 2 * job + 1
        sent = [numbers(t, VALUES) for _ in range(WORKERS)]
        for worker in (2, 0):
            packet = gradient(job, worker, sent[worker], 0, slot)
            switch.expect(
                port(job, worker), packet, {}, "not all workers are in, so it is absorbed"
            )
        last = gradient(job, 1, sent[1], 0, slot)
        want = {SERVERS[job]: merged(last, EVERYONE, total(sent))}
        why = f"the sum of job {job} is complete and goes to port {SERVERS[job]}, with all bits set"
        switch.expect(port(job, 1), last, want, why, only=SUM)


@LAB.check(15, "A fragment that finds its slot taken goes unchanged to its own PS")
def collision(t: Bench) -> None:
    switch = start(t)
    first = give(t, switch, 0, [0, 1], number=7, slot=4)
    others = [
        gradient(1, 0, numbers(t, VALUES), 7, 4),  # another job, the same number
        gradient(0, 2, numbers(t, VALUES), 8, 4),  # the same job, another number
    ]
    for packet in others:
        job = packet[Agg].job
        leaving = {SERVERS[job]: flagged(packet, COLLISION)}
        why = f"the slot belongs to job 0's fragment 7; job {job}'s PS takes care of this one"
        ignore = ["IP.chksum"]
        switch.expect(port(job, packet[Agg].worker), packet, leaving, why, ignore=ignore)
    last = gradient(0, 2, numbers(t, VALUES), 7, 4)
    want = merged(last, EVERYONE, total([*first, last[Agg].values]))
    why = "fragment 7's sum has nothing of the others"
    switch.expect_one(port(0, 2), last, want, why, only=SUM)


@LAB.check(5, "A slot is taken until its result has passed, not only until it is complete")
def held(t: Bench) -> None:
    switch = start(t)
    give(t, switch, 0, [0, 1, 2], number=3)
    packet = gradient(1, 1, numbers(t, VALUES), 3)
    want = {SERVERS[1]: flagged(packet, COLLISION)}
    why = "the sum may be lost on its way to the PS, so the switch keeps it"
    switch.expect(port(1, 1), packet, want, why, only=["Agg.flags", *SUM])


@LAB.check(15, "A result goes to its job's workers and frees the slot")
def released(t: Bench) -> None:
    switch = start(t)
    sums = total(give(t, switch, 0, [0, 1, 2], number=3, slot=6))
    packet = result(0, sums, 3, 6)
    want = {port(0, worker): packet for worker in range(WORKERS)}
    why = "every worker of job 0 waits for the result, and nobody of job 1"
    switch.expect(SERVERS[0], packet, want, why, only=SUM)
    packet = gradient(1, 1, numbers(t, VALUES), 9, 6)
    why = "the slot is free, so job 1 gets it"
    switch.expect(port(1, 1), packet, {}, why)


@LAB.check(10, "A result frees no slot of another fragment")
def owner(t: Bench) -> None:
    for job, number in ((0, 4), (1, 3)):
        switch = start(t)
        sent = give(t, switch, 0, [0, 1], number=3, slot=6)
        switch.send(SERVERS[job], result(job, numbers(t, VALUES), number, 6))
        last = gradient(0, 2, numbers(t, VALUES), 3, 6)
        want = merged(last, EVERYONE, total([*sent, last[Agg].values]))
        why = f"the slot is job 0's fragment 3's, not job {job}'s fragment {number}'s"
        switch.expect_one(port(0, 2), last, want, why, only=SUM)


@LAB.check(10, "A duplicate is not added; when the sum is complete, it is sent again")
def duplicate(t: Bench) -> None:
    switch = start(t)
    sent = [numbers(t, VALUES) for _ in range(WORKERS)]
    for worker in (0, 1):
        switch.send(port(0, worker), gradient(0, worker, sent[worker]))
    switch.expect(port(0, 1), gradient(0, 1, sent[1]), {}, "worker 1 is in the sum already")
    last = gradient(0, 2, sent[2])
    why = "each worker is in the sum once"
    want = merged(last, EVERYONE, total(sent))
    switch.expect_one(port(0, 2), last, want, why, only=SUM)
    again = gradient(0, 0, sent[0])
    why = "the PS has not got the sum, or its result was lost: it gets the sum again"
    leaving = {SERVERS[0]: merged(again, EVERYONE, total(sent))}
    switch.expect(port(0, 0), again, leaving, why, only=SUM)


@LAB.check(10, "A retransmission takes the slot's sum along to the PS, and claims no slot")
def resend(t: Bench) -> None:
    switch = start(t)
    sent = give(t, switch, 0, [0, 1], number=5, slot=1)
    stranger = gradient(1, 2, numbers(t, VALUES), 5, 1, RESEND)
    why = "there is nothing of this fragment in the switch"
    switch.expect(port(1, 2), stranger, {SERVERS[1]: stranger}, why, ignore=["IP.chksum"])
    packet = gradient(0, 0, sent[0], 5, 1, RESEND)
    why = "worker 0 is in the partial sum already; the sum leaves with both bits"
    switch.expect(port(0, 0), packet, {SERVERS[0]: merged(packet, 3, total(sent))}, why, only=SUM)
    third = gradient(0, 2, numbers(t, VALUES), 5, 1, RESEND)
    why = "the slot is free, and a retransmission does not claim it"
    switch.expect(port(0, 2), third, {SERVERS[0]: third}, why, only=SUM)
    new = give(t, switch, 1, [0], number=8, slot=1)
    packet = gradient(1, 1, numbers(t, VALUES), 8, 1, RESEND)
    why = "worker 1 is new; its values are added to the sum that leaves"
    want = merged(packet, 3, total([*new, packet[Agg].values]))
    switch.expect(port(1, 1), packet, {SERVERS[1]: want}, why, only=SUM)


@LAB.check(5, "With a static partition no job touches the other's part")
def partition(t: Bench) -> None:
    switch = start(t, [(0, 4), (4, 4)])
    sent = {job: give(t, switch, job, [0, 1], number=2, slot=3) for job in (0, 1)}
    packet = gradient(0, 1, numbers(t, VALUES), 6, 4)
    leaving = {SERVERS[0]: flagged(packet, COLLISION)}
    why = "slot 4 is beyond the 4 slots of job 0; the PS takes care of it"
    switch.expect(port(0, 1), packet, leaving, why, only=["Agg.flags", *SUM])
    for job in (0, 1):
        last = gradient(job, 2, numbers(t, VALUES), 2, 3)
        want = merged(last, EVERYONE, total([*sent[job], last[Agg].values]))
        why = f"job {job} has a slot 3 of its own"
        switch.expect_one(port(job, 2), last, want, why, only=SUM)
    for text, parts in (("shared", [(0, SLOTS)] * 2), ("partitioned", [(0, 4), (4, 4)])):
        share = _completed(t, start(t, parts), shared=text == "shared")
        t.note(f"{text} pool: {share:.0%} of the sums in the switch")


def _completed(t: Bench, switch: Switch, shared: bool) -> float:
    """The share of fragments that the switch completes when each job has 6 fragments on their way
    at a time, and job 1 pauses half of the time."""
    done = count = 0
    for step in range(12):
        active = (0, 1) if step % 2 else (0,)
        places = [
            (job, k, (k + 6 * job) % SLOTS if shared else k) for job in active for k in range(6)
        ]
        for job, k, slot in places:
            count += 1
            for worker in range(WORKERS):
                packet = gradient(job, worker, [1] * VALUES, 6 * step + k, slot)
                for _, data in switch.send(port(job, worker), packet):
                    done += Ether(data)[Agg].bitmap == EVERYONE
        for job, k, slot in places:
            switch.send(SERVERS[job], result(job, [3] * VALUES, 6 * step + k, slot))
    return done / count
