"""Checks of lab 4: exact sums although packets are lost, duplicated and late."""

from __future__ import annotations

from collections.abc import Sequence

from scapy.packet import Packet

from labs.grader.bench import Bench, Failure, draw_bits, first_number, numbers, total
from labs.grader.histories import Strangers, draw_numbers, draw_slots, leaving
from labs.grader.jobs import SLOTS, VALUES
from labs.grader.lab import Lab
from labs.grader.packets import (
    GRADIENT,
    RESULT,
    SWITCH_IP,
    SWITCH_MAC,
    agg,
    as_number,
    host_ip,
    host_mac,
    rows,
)
from labs.grader.slots import AGAIN, COMPLETE, SlotJob, Stream, place

LAB = Lab(
    title="Loss",
    hand_in=("loss.p4",),
    given=("packet.p4", "values.p4"),
    program="loss.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)
SUM = ("Agg.kind", "Agg.values")


class Job(SlotJob):
    """A job drawn at random, on a switch of its own."""

    def result(self, who: int, values: Sequence[int], fragment: int = 0) -> Packet:
        return agg(
            "switch",
            self.ports[who],
            kind=RESULT,
            job=self.number,
            number=self.first + fragment,
            slot=place(self.first + fragment),
            bitmap=self.everyone,
            values=values,
        )

    def results(self, values: Sequence[int], fragment: int = 0) -> dict[int, Packet]:
        return {p: self.result(w, values, fragment) for w, p in enumerate(self.ports)}

    def expect(
        self,
        who: int,
        values: Sequence[int],
        fragment: int,
        leaving: dict[int, Packet],
        why: str,
        only: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> None:
        packet = self.gradient(who, values, fragment)
        self.switch.expect(self.ports[who], packet, leaving, why, only, ignore)

    def complete(
        self, who: int, values: Sequence[int], fragment: int, sums: Sequence[int], why: str
    ) -> None:
        """The last worker's gradient makes this sum leave."""
        packet, want = self.gradient(who, values, fragment), self.result(who, sums, fragment)
        self.switch.expect_one(self.ports[who], packet, want, why, only=SUM)

    def whole(self, fragment: int) -> tuple[list[list[int]], list[int]]:
        """Send a fragment's gradients, each once; returns them and their sum."""
        sent = self.values()
        for who in self.order():
            self.send(who, sent[who], fragment)
        return sent, total(sent)


def start(t: Bench, fewest: int = 2, first: int | None = None, beside: Job | None = None) -> Job:
    """A job with a number of workers drawn at random, at any ports, with any bits. `first`: the
    number of its first fragment; None: drawn, too. `beside`: a job that the switch has already."""
    count = t.random.randrange(fewest, 7)
    workers = draw_bits(t, count)
    ports = t.random.sample(range(1, 9), count)
    group, number = t.random.randrange(1, 100), t.random.randrange(256) if first != 0 else 0
    first = first_number(t, SLOTS) if first is None else first
    switch = beside.switch if beside else t.switch()
    if beside:
        group, number = group + 100, (beside.number + t.random.randrange(1, 256)) % 256
    job = Job(t, switch, number, workers, ports, first)
    row = [job.everyone, count, group, as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    job.switch.table_add("job", "aggregate", [number], row)
    for port in [] if beside else range(1, 9):
        owner = [as_number(host_mac(port)), as_number(host_ip(port))]
        job.switch.table_add("receiver", "address", [port], owner)
    job.switch.multicast_group(group, [(port, port) for port in ports])
    return job


@LAB.check(10, "Without losses every sum is right, for every order of the workers")
def lossless(t: Bench) -> None:
    for case, first in (
        ("the first fragment has number 0", 0),
        ("the first fragment has another number", None),
    ):
        job = start(t, first=first)  # on a network one switch takes the place of the other
        t.case = case
        for fragment in range(3 * SLOTS):
            sent = job.values()
            *others, last = job.order()
            for who in others:
                job.expect(who, sent[who], fragment, {}, "not complete")
            sums = total(sent)
            why = f"fragment {job.first + fragment} is complete, and its sum goes to all workers"
            job.expect(last, sent[last], fragment, job.results(sums, fragment), why, only=SUM)


@LAB.check(10, "A gradient that comes twice is added once")
def doubled(t: Bench) -> None:
    job = start(t, 3)
    sent, fragment = job.values(), t.random.randrange(SLOTS)
    *others, last = job.order()
    order = [*others, *t.random.choices(others, k=3)]
    t.random.shuffle(order)
    for who in order:
        job.send(who, sent[who], fragment)
    why = "the sum has each worker's values once, however often they came"
    job.complete(last, sent[last], fragment, total(sent), why)


@LAB.check(10, "A copy of a gradient neither completes a sum nor leaves the switch")
def not_completed(t: Bench) -> None:
    job = start(t)
    who, sent = job.order(1)[0], numbers(t, VALUES)
    for _ in range(len(job.workers) + 1):
        why = f"one worker of {len(job.workers)} has sent, however often"
        job.expect(who, sent, 0, {}, why)


@LAB.check(10, "A worker that has lost the result gets it again, alone")
def retransmission(t: Bench) -> None:
    job = start(t)
    fragment = t.random.randrange(SLOTS)
    sent, sums = job.whole(fragment)
    for who in job.order(2):
        worker = job.workers[who]
        why = f"the sum is known, so worker {worker}'s copy is answered with it, to that port only"
        want = {job.ports[who]: job.result(who, sums, fragment)}
        job.expect(who, sent[who], fragment, want, why, ignore=["Agg.worker"])


@LAB.check(10, "The shadow copy: a result stays while others are one fragment ahead")
def shadow(t: Bench) -> None:
    job = start(t, 3)
    fragment = t.random.randrange(SLOTS)
    sent, sums = job.whole(fragment)
    ahead = job.values()
    *others, last = job.order()
    name = f"worker {job.workers[last]}"
    t.case = "others are one fragment ahead"
    for who in others:
        job.expect(who, ahead[who], fragment + SLOTS, {}, f"{name} is not in this sum yet")
    t.case = "the copy of a worker that has lost a result, when others are one fragment ahead"
    why = f"{name} has not got the last result, and it is still in the slot's other set"
    want = {job.ports[last]: job.result(last, sums, fragment)}
    job.expect(last, sent[last], fragment, want, why, only=SUM)
    t.case = "the sum after a result was sent again"
    why = f"what {name} asked for again does not disturb the sum that is being made"
    job.complete(last, ahead[last], fragment + SLOTS, total(ahead), why)


@LAB.check(10, "The shadow copy: it is for those workers alone that have not moved on")
def moved_on(t: Bench) -> None:
    job = start(t, 3)
    fragment = t.random.randrange(SLOTS)
    sent, _ = job.whole(fragment)
    ahead = job.values()
    *others, last = job.order()
    for who in others:
        job.send(who, ahead[who], fragment + SLOTS)
        t.case = "a late copy of a worker that has moved on"
        why = f"worker {job.workers[who]} has sent the slot's next fragment, so it has this result"
        job.expect(who, sent[who], fragment, {}, why)
    t.case = "the slot's next sum"
    why = "late copies do not disturb the sum that is being made"
    job.complete(last, ahead[last], fragment + SLOTS, total(ahead), why)
    t.case = "a late copy of the last worker that has moved on"
    for who in job.order():
        job.expect(who, sent[who], fragment, {}, "all workers are past this fragment")


@LAB.check(5, "A set that is used again starts from zero")
def again(t: Bench) -> None:
    job = start(t)
    slot = t.random.randrange(SLOTS)
    for turn in range(5):
        sent, fragment = job.values(), slot + turn * SLOTS
        *others, last = job.order()
        for who in others:
            job.send(who, sent[who], fragment)
        number = job.first + fragment
        why = f"fragment {number} is the next in its set, and has nothing of earlier ones"
        job.complete(last, sent[last], fragment, total(sent), why)


@LAB.check(5, "A late copy of an older fragment changes nothing")
def late(t: Bench) -> None:
    job = start(t)
    slot = t.random.randrange(SLOTS)
    old, _ = job.whole(slot)
    job.whole(slot + SLOTS)
    *others, last = job.order()
    why = f"all workers are past fragment {job.first + slot}; this copy was long on its way"
    sent, fragment = job.values(), slot + 2 * SLOTS
    for who in others:
        job.send(who, sent[who], fragment)
        t.case = "a late copy whose set is in use for a newer sum, in which its worker is"
        job.expect(who, old[who], slot, {}, why)
        t.case = "a late copy whose set is in use for a newer sum, in which its worker is not yet"
        job.expect(last, old[last], slot, {}, why)
    t.case = "the next sum in the set"
    why = f"fragment {job.first + fragment} has nothing of the late copies"
    job.complete(last, sent[last], fragment, total(sent), why)


@LAB.check(
    10, "Workers that retransmit get every sum through a network that loses and duplicates packets"
)
def lossy(t: Bench) -> None:
    """Workers with a window of SLOTS fragments; what they wait for they send again, in rounds."""
    job, fragments = start(t), 6 * SLOTS
    loss, copies = t.random.uniform(0.15, 0.25), t.random.uniform(0.1, 0.2)
    sent = [job.values() for _ in range(fragments)]
    missing = [set(range(fragments)) for _ in job.workers]
    lost = results = 0
    for _ in range(80):
        job.switch.nothing_astray()
        if not any(missing):
            t.note(
                f"{fragments} fragments came through; {lost} packets lost, {results} results sent"
            )
            return _history(t)
        for who in job.order():
            for fragment in sorted(missing[who]):
                if fragment - SLOTS in missing[who]:
                    break  # the window: a slot's next fragment waits for the last one's result
                for _ in range(1 + (t.random.random() < copies)):
                    if t.random.random() < loss:
                        lost += 1
                        continue
                    packet = job.gradient(who, sent[fragment][who], fragment)
                    for port, data in job.switch.send(job.ports[who], packet):
                        results += 1
                        if t.random.random() < loss:
                            lost += 1
                            continue
                        _receive(job, sent, missing, port, data, (job.ports[who], bytes(packet)))
    raise Failure(
        f"after 80 rounds of retransmissions {sum(map(len, missing))} results are missing",
        case="results are missing after many rounds of retransmissions",
    )


def _history(t: Bench) -> None:
    """Two jobs with slots of their own in one switch, packet by packet against a model."""
    rng, job = t.random, start(t, 3)
    jobs, slots = [job, job, start(t, beside=job)], draw_slots(rng, SLOTS, 3)
    streams = [Stream(j, slot, draw_numbers(rng)) for j, slot in zip(jobs, slots, strict=True)]
    kinds = (0, RESULT, 3, 5, 6, 7, 255)
    strange = Strangers(rng, kinds, [each.number for each in jobs], (GRADIENT,))
    while left := [s for s in streams if not s.done]:
        stream = rng.choice(left)
        port, packet = rng.choices((stream.natural, stream.older), (5, 1))[0]()
        for t.case, data in strange.before(packet, stream.is_new(packet)):
            job.switch.expect(port, data, {}, "this is no gradient of a job")
        for old in stream.stale(packet):
            t.case = "a gradient of an older fragment, with a number much like the set's"
            job.switch.expect(port, old, {}, "this is late")
        end, own = stream.take(packet)
        to = stream.job.ports if end == COMPLETE else [port] if end == AGAIN else []
        fields = {"kind": RESULT, "bitmap": stream.job.everyone, "values": list(own.values)}
        t.case = f"a gradient whose fate is: {end}"
        why = f"{t.case}: {'this should leave' if to else 'nothing should leave'}"
        want = {each: leaving(packet, each, True, **fields) for each in to}
        job.switch.expect(port, packet, want, why)


def _receive(
    job: Job,
    sent: list,
    missing: list[set[int]],
    port: int,
    data: bytes,
    cause: tuple[int, bytes],
) -> None:
    """A worker gets a packet: it must be a right sum."""
    fields = rows(data)
    fragment = int(fields.get("Agg.number", -1)) - job.first
    if port not in job.ports or not 0 <= fragment < len(sent):
        text = "this packet makes no sense"
        raise Failure(text, sent=cause, got=[(port, data)], case=text)
    who, right = job.ports.index(port), total(sent[fragment])
    values = [int(fields.get(f"Agg.values[{i}]", 0)) for i in range(VALUES)]
    if values != right:
        want = [(port, bytes(job.result(who, right, fragment)))]
        text = f"the sum of fragment {job.first + fragment} is wrong"
        raise Failure(text, sent=cause, expected=want, got=[(port, data)], case="a sum is wrong")
    missing[who].discard(fragment)
