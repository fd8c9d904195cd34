"""Checks of lab 16: sums to their owners, gathers by multicast, and receivers that recover what is
lost."""

from __future__ import annotations

import heapq
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from scapy.layers.inet import IP, UDP
from scapy.packet import Packet

from labs.grader.bench import (
    Bench,
    Failure,
    Python,
    draw_bits,
    first_number,
    numbers,
    total,
)
from labs.grader.fabric import Fabric, Link, P4Node
from labs.grader.histories import NUMBERS, Strangers, draw_numbers, draw_slots, dress, leaving
from labs.grader.jobs import SLOTS, VALUES
from labs.grader.lab import Lab
from labs.grader.packets import (
    DATA,
    GRADIENT,
    NOTHING,
    RECEIPT,
    REMINDER,
    RESULT,
    SWITCH_IP,
    SWITCH_MAC,
    Agg,
    agg,
    as_number,
    host_ip,
    host_mac,
)
from labs.grader.slots import AGAIN, COMPLETE, SlotJob, Stream
from labs.grader.timing import compare
from labs.lab16_sharding.hosts import GatherHost, ScatterHost, measured

LAB = Lab(
    title="Sharded training",
    hand_in=("shard.p4", "gather.py", "costs.py"),
    given=("packet.p4", "values.p4"),
    program="shard.p4",
    module="gather.py",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)
MS = 1_000_000
FIRST_NS, MOST_NS = 1 * MS, 64 * MS
SUM = ("Agg.kind", "Agg.values")
PORTS = 8
MOST_EVENTS = 30_000
# Numbers at which hosts' fragments begin: 0, below 2^31, below 2^32, and another one.
FIRST = (0, (1 << 31) - 6, (1 << 32) - 80, 1 << 20)


@dataclass
class Job(SlotJob):
    """A job whose fragments have owners.

    Args:
        shards: of each worker in the list, (its first fragment, how many), counted from 0.
        rival: number of another job with the same hosts. There the next worker in the list owns
            what a worker owns here.
    """

    shards: list[tuple[int, int]]
    rival: int

    @property
    def fragments(self) -> int:
        return sum(count for _, count in self.shards)

    def owner(self, fragment: int) -> int:
        """Place in the list of the owner of a fragment."""
        (who,) = [w for w, (at, n) in enumerate(self.shards) if at <= fragment < at + n]
        return who

    def bits(self, who: Sequence[int]) -> int:
        return sum(1 << self.workers[each] for each in who)

    def answer(self, who: int, fragment: int, sums: Sequence[int]) -> Packet:
        """A worker's share of a complete sum: all of it for the owner, and a receipt for others."""
        mine = self.owner(fragment) == who
        number = self.first + fragment
        return agg(
            "switch",
            self.ports[who],
            kind=RESULT if mine else RECEIPT,
            job=self.number,
            number=number,
            slot=self.gradient(who, [], fragment)[Agg].slot,
            bitmap=self.everyone,
            values=sums if mine else [],
        )

    def answers(self, fragment: int, sums: Sequence[int]) -> dict[int, Packet]:
        return {p: self.answer(w, fragment, sums) for w, p in enumerate(self.ports)}

    def expect(
        self, who: int, values: Sequence[int], fragment: int, leaving: dict[int, Packet], why: str
    ) -> None:
        packet = self.gradient(who, values, fragment)
        self.switch.expect(self.ports[who], packet, leaving, why, only=SUM)

    def whole(self, fragment: int) -> tuple[list[list[int]], list[int]]:
        """Send a fragment's gradients, each once; returns them and their sum."""
        sent = self.values()
        for who in self.order():
            self.send(who, sent[who], fragment)
        return sent, total(sent)

    def data(self, who: int, fragment: int, receivers: int, values: Sequence[int]) -> Packet:
        """New values of a fragment, from the worker that is `who` in the list."""
        fields = {"number": self.first + fragment, "worker": self.workers[who]}
        fields["bitmap"] = receivers
        ends = self.ports[who], "switch"
        made = agg(*ends, kind=DATA, job=self.number, values=values, **fields)
        made[UDP].chksum = None
        return made

    def request(self, who: int, fragment: int) -> Packet:
        """A worker asks for a fragment."""
        bit = self.workers[who]
        fields = {"number": self.first + fragment, "worker": bit, "bitmap": 1 << bit}
        made = agg(self.ports[who], "switch", kind=REMINDER, job=self.number, **fields)
        made[UDP].chksum = None
        return made

    def to(self, who: int, packet: Packet) -> Packet:
        """A packet as it comes to a worker."""
        made = packet.copy()
        made.dst, made[IP].dst = host_mac(self.ports[who]), host_ip(self.ports[who])
        made[UDP].chksum = 0
        return made


def drawn(t: Bench, fewest: int, most: int) -> Job:
    """A job with workers and shards drawn at random, on a switch that knows the workers' addresses.
    There is a rival's number, too."""
    count = t.random.randrange(fewest, most + 1)
    ports = t.random.sample(range(1, PORTS + 1), count)
    workers = draw_bits(t, count)
    number, other = t.random.sample([0, t.random.randrange(1, 256)], 2)
    at, shards = 0, [(0, 0)] * count
    for who in t.random.sample(range(count), count):
        size = t.random.randrange(SLOTS, 3 * SLOTS)
        shards[who], at = (at, size), at + size
    job = Job(t, t.switch(), number, workers, ports, 0, shards, other)
    for port, worker in zip(ports, workers, strict=True):
        owner = [as_number(host_mac(port)), as_number(host_ip(port)), 1 << worker]
        job.switch.table_add("receiver", "address", [port], owner)
    return job


def tell(job: Job, group: int, owned: Sequence[tuple[int, int, int]]) -> None:
    """The control plane's facts of a job. `owned`: first and last number of fragments, and the
    place in the list of their owner."""
    row = [job.everyone, group, as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    job.switch.table_add("job", "member", [job.number], row)
    for first, last, who in owned:
        key = [job.number, [first, last]]
        job.switch.table_add("shard", "owned", key, [job.ports[who]], priority=1)
    job.switch.multicast_group(group, [(port, port) for port in job.ports])


def start(t: Bench, fewest: int = 2, most: int = 6, first: int | None = None) -> Job:
    """A job on a switch that knows of another job, too, whose fragments have the same numbers and
    other owners."""
    job = drawn(t, fewest, most)
    job.first = first_number(t, SLOTS) if first is None else first
    theirs = replace(job, number=job.rival, shards=[job.shards[-1], *job.shards[:-1]])
    for each, group in zip((job, theirs), t.random.sample(range(1, 100), 2), strict=True):
        shards = [(each.first + at, size, who) for who, (at, size) in enumerate(each.shards)]
        tell(each, group, [(at, at + size - 1, who) for at, size, who in shards])
    return job


@LAB.check(10, "Sums go to the owner, and receipts to all others")
def scatter(t: Bench) -> None:
    for case, first in (
        ("the first fragment has number 0", 0),
        ("the first fragment has another number", None),
    ):
        job = start(t, first=first)
        t.case = case
        for fragment in range(job.fragments):
            sent = job.values()
            *others, last = job.order()
            for who in others:
                job.expect(who, sent[who], fragment, {}, "not complete")
            why = "the sum goes to the owner of the fragment, and a receipt to each other worker"
            job.expect(last, sent[last], fragment, job.answers(fragment, total(sent)), why)


@LAB.check(5, "A receipt is a right packet without values")
def receipts(t: Bench) -> None:
    job = start(t)
    fragment = t.random.randrange(job.fragments)
    sent = job.values()
    *others, last = job.order()
    for who in others:
        job.send(who, sent[who], fragment)
    packet, want = job.gradient(last, sent[last], fragment), job.answers(fragment, total(sent))
    why = "lengths, checksum and addresses of a receipt are right, as those of a sum are"
    job.switch.expect(job.ports[last], packet, want, why, ignore=["Agg.worker"])


@LAB.check(10, "Who has lost a sum or a receipt gets it again, alone")
def again(t: Bench) -> None:
    job = start(t)
    begin = t.random.randrange(job.fragments - 2 * SLOTS + 1)
    for fragment in range(begin, begin + 2 * SLOTS):  # each slot has both of its sets
        _again(t, job, fragment)


def _again(t: Bench, job: Job, fragment: int) -> None:
    sent = job.values()
    *others, last = job.order()
    for who in [*others, *others]:
        t.case = "a copy before the sum is complete"
        job.expect(who, sent[who], fragment, {}, "the sum is not complete")
    sums = total(sent)
    t.case = "the sum after copies"
    why = "the sum has each worker's values once"
    job.expect(last, sent[last], fragment, job.answers(fragment, sums), why)
    for who in job.order():
        owner = job.owner(fragment) == who
        t.case = "the owner asks again" if owner else "another worker asks again"
        why = f"a copy is answered with {'the sum' if owner else 'a receipt'}, to this worker alone"
        want = {job.ports[who]: job.answer(who, fragment, sums)}
        job.expect(who, sent[who], fragment, want, why)


@LAB.check(5, "A sum waits for its owner, and late copies change nothing")
def late(t: Bench) -> None:
    for _ in range(3):
        _late(t, start(t, 3))


def _late(t: Bench, job: Job) -> None:
    fragment = t.random.randrange(job.fragments - 2 * SLOTS)
    owner = job.owner(fragment)
    old, sums = job.whole(fragment)
    ahead, others = job.values(), [who for who in job.order() if who != owner]
    for who in others:
        job.expect(who, ahead[who], fragment + SLOTS, {}, "the owner is not in this sum yet")
        t.case = "a late copy of a worker that has moved on"
        job.expect(who, old[who], fragment, {}, "this worker has the receipt")
    t.case = "the owner has lost its sum, and all others are one fragment ahead"
    want = {job.ports[owner]: job.answer(owner, fragment, sums)}
    job.expect(owner, old[owner], fragment, want, "the sum is still in the slot's other set")
    t.case = "the next sum in the slot"
    want = job.answers(fragment + SLOTS, total(ahead))
    job.expect(owner, ahead[owner], fragment + SLOTS, want, "it has nothing of the copies")
    new = job.values()
    for who in others:
        job.send(who, new[who], fragment + 2 * SLOTS)
    t.case = "a late copy in a set that is in use for a newer sum"
    job.expect(owner, old[owner], fragment, {}, "all workers are past this fragment")


@LAB.check(10, "Every sum is right although packets are lost, doubled and late")
def lossy(t: Bench) -> None:
    """Two jobs with slots of their own in one switch, packet by packet against a model."""
    streams, rng = _streams(t), t.random
    kinds, jobs = (0, RESULT, NOTHING, RECEIPT, 7, 255), {s.job.number for s in streams}
    more = {"of no shard": partial(_of_no_shard, rng, streams[0].owners)}
    strange = Strangers(rng, kinds, [*jobs], (GRADIENT,), more)
    while left := [s for s in streams if not s.done]:
        stream = rng.choice(left)
        draw = rng.choices((Stream.natural, Stream.older, _data, _request), (20, 3, 3, 3))[0]
        port, packet = draw(stream)
        switch, kind = stream.job.switch, packet[Agg].kind
        for t.case, data in strange.before(packet, kind != GRADIENT or stream.is_new(packet)):
            switch.expect(port, data, {}, "this is nothing for the switch")
        if kind == DATA:
            t.case = "values from a port that is not the owner's"
            other = rng.choice([p for p in range(1, PORTS + 1) if p != port])
            switch.expect(other, packet, {}, "a fragment has one owner, at one port")
        for old in stream.stale(packet) if kind == GRADIENT else []:
            t.case = "a gradient of an older fragment, with a number much like the set's"
            switch.expect(port, old, {}, "this is late")
        t.case, want = stream.takes(port, packet)
        why = f"{t.case}: {'this should leave' if want else 'nothing should leave'}"
        switch.expect(port, packet, want, why)


def _of_no_shard(rng: random.Random, owners: Collection[int], packet: Packet) -> None:
    """Give it a number beside those that there are, or one that differs in one bit."""
    beside = [n % (1 << 32) for place in NUMBERS for n in (place[0] - 1, place[-1] + 1)]
    bits = [packet[Agg].number ^ 1 << bit for bit in range(32)]
    packet[Agg].number = rng.choice([n for n in beside + bits if n not in owners])


@dataclass
class ShardStream(Stream):
    """Fragments with owners. `owners`: of each number, the place in the list of its owner."""

    job: Job
    owners: dict[int, int] = field(default_factory=dict)

    def takes(self, port: int, packet: Packet) -> tuple[str, dict[int, Packet]]:
        """A packet that comes at a port: what it is, and what leaves."""
        job, header = self.job, packet[Agg]
        if header.number not in self.owners:
            return "a packet of no shard", {}
        owner = job.ports[self.owners[header.number]]
        if header.kind == REMINDER:
            return "a request", {owner: leaving(packet, owner, False)}
        if header.kind == DATA:
            ends = zip(job.ports, job.workers, strict=True)
            to = [p for p, worker in ends if header.bitmap >> worker & 1]
            return "an owner's values", {p: leaving(packet, p, False) for p in to}
        end, own = self.take(packet)
        receivers = job.ports if end == COMPLETE else [port] if end == AGAIN else []
        receipt = {"kind": RECEIPT, "bitmap": job.everyone, "values": []}
        sums = receipt | {"kind": RESULT, "values": list(own.values)}
        answers = {p: sums if p == owner else receipt for p in receivers}
        made = {p: leaving(packet, p, True, **fields) for p, fields in answers.items()}
        return f"a gradient whose fate is: {end}", made


def _streams(t: Bench) -> list[ShardStream]:
    """Those of two jobs on one switch. The other one has all workers but one, the same numbers and
    other owners."""
    rng, job = t.random, drawn(t, 3, 6)
    rival = replace(job, number=job.rival, workers=job.workers[1:], ports=job.ports[1:])
    jobs, owners = (job, rival), list[dict[int, int]]()
    for each, group in zip(jobs, rng.sample(range(1, 100), 2), strict=True):
        owned = []
        for place in NUMBERS:
            cuts = sorted(rng.sample(range(1, len(place)), len(each.ports) - 1))
            ends = zip([0, *cuts], [*cuts, len(place)], each.order(), strict=True)
            owned += [(place[begin], place[end - 1], who) for begin, end, who in ends]
        tell(each, group, owned)
        owners.append({n: who for a, b, who in owned for n in range(a, b + 1)})
    made = []
    for which, slot in zip((0, 0, 1), draw_slots(rng, SLOTS, 3), strict=True):
        made.append(ShardStream(jobs[which], slot, draw_numbers(rng), owners[which]))
    return made


def _data(s: ShardStream) -> tuple[int, Packet]:
    """An owner's values, for any hosts."""
    rng, job, (number, slot) = s.job.t.random, s.job, _any_place(s)
    receivers = rng.choice((0, (1 << 32) - 1, rng.getrandbits(32), rng.getrandbits(32)))
    packet = job.data(s.owners[number], 0, receivers, numbers(job.t, VALUES))
    packet[Agg].number, packet[Agg].slot = number, slot
    return job.ports[s.owners[number]], dress(rng, packet)


def _request(s: ShardStream) -> tuple[int, Packet]:
    """A request for a fragment that somebody owns, from any hosts or none."""
    rng, job, who = s.job.t.random, s.job, s.job.t.random.randrange(len(s.at))
    packet = job.request(who, 0)
    packet[Agg].bitmap = rng.choice((packet[Agg].bitmap, 0, rng.getrandbits(32)))
    packet[Agg].number, packet[Agg].slot = _any_place(s)
    return job.ports[who], dress(rng, packet)


def _any_place(s: ShardStream) -> tuple[int, int]:
    """Number and slot of a packet that has no slot: those of a set in use, or any."""
    rng = s.job.t.random
    used = [(own.number, slot) for slot, own in s.model.sets.items() if own.number in s.owners]
    slot = rng.choice((s.slot | rng.getrandbits(1) << 15, rng.getrandbits(16)))
    return rng.choice([*used, (rng.choice([*s.owners]), slot)])


@LAB.check(10, "An owner's values go to the hosts in the bitmap, and to no other")
def gather(t: Bench) -> None:
    job = start(t, 3)
    for who in job.order():
        fragment = job.shards[who][0] + t.random.randrange(job.shards[who][1])
        others = [w for w in job.order() if w != who]
        some = others[: t.random.randrange(1, len(others))]
        for t.case, to in (("for all others", others), ("for some", some), ("for one", some[:1])):
            packet = job.data(who, fragment, job.bits(to), numbers(t, VALUES))
            want = {job.ports[w]: job.to(w, packet) for w in to}
            why = "the packet goes unchanged to each host whose bit is in the bitmap"
            job.switch.expect(job.ports[who], packet, want, why)
        t.case = "values from a host that does not own the fragment"
        packet = job.data(others[0], fragment, job.bits(others[1:]), numbers(t, VALUES))
        why = "a fragment has one owner, at one port"
        job.switch.expect(job.ports[others[0]], packet, {}, why)
    t.case = "values that are cut off"
    whole = bytes(job.data(who, fragment, job.bits(others), numbers(t, VALUES)))
    job.switch.expect(job.ports[who], whole[:-1], {}, "this packet is not whole")


@LAB.check(5, "A request goes to the owner of its fragment")
def requests(t: Bench) -> None:
    job = start(t, 3)
    for fragment in t.random.sample(range(job.fragments), min(24, job.fragments)):
        owner = job.owner(fragment)
        who = t.random.choice([w for w in range(len(job.workers)) if w != owner])
        packet = job.request(who, fragment)
        want = {job.ports[owner]: job.to(owner, packet)}
        why = "the request goes to the owner, alone"
        job.switch.expect(job.ports[who], packet, want, why)
    t.case = "a request of another job"
    packet[Agg].job = job.rival
    owner = (owner + 1) % len(job.workers)
    want = {job.ports[owner]: job.to(owner, packet)}
    job.switch.expect(job.ports[who], packet, want, "there the fragment has another owner")
    t.case = "a request for a fragment of no shard"
    packet = job.request(0, job.fragments + t.random.randrange(9))
    job.switch.expect(job.ports[0], packet, {}, "nobody has this fragment")


@LAB.check(10, "A receiver asks for what is missing, once in time, and for nothing else")
def receiver(t: Bench) -> None:
    """Shards that come in turn, with gaps, copies, numbers of no shard and silence; what is asked
    for comes late or not at all. Shards touch each other, have one fragment, or do not come."""
    p = t.python()
    for n in range(10):
        _receives(t, p, FIRST[n % 4], touching=n % 3 == 0)


def _receives(t: Bench, p: Python, begin: int, touching: bool) -> None:
    rng, draw = t.random, t.random.randrange
    begin, shards = begin + draw(9) * (begin > 0), list[list[int]]()
    for size in rng.sample((1, draw(2, 5), draw(6, 20), draw(6, 20)), 4):
        shards.append([begin, size])
        begin += size + (0 if touching else draw(2, 5))
    of = {n: at for at, size in shards for n in range(at, at + size)}
    outside = [n for n in range(max(shards[0][0] - 2, 0), begin + 3) if n not in of]
    rng.shuffle(shards)
    r = p.make("Receiver", [list(shard) for shard in shards])
    coming = _arrivals(rng, shards, outside)
    last, missing = dict.fromkeys(of.values(), 0), set(of)
    asked: dict[int, list[int]] = {}  # the next time, the wait before it, how often so far
    never, now, right = {*of} - {n for _, n in coming}, 0, MS
    stubborn = rng.choice(sorted(never))
    t.case = "nothing has come"
    while missing or coming:
        calls: list = [(r, "requests", [now]), (r, "wake_ns", [])]
        gap: set[int] = set()
        if coming and coming[0][0] <= right:
            now, n = heapq.heappop(coming)
            calls = [(r, "arrived", [n, now]), (r, "requests", [now]), (r, "wake_ns", [])]
            shard = of.get(n)
            known = "a fragment comes" if n in missing else "a fragment comes again"
            t.case = "a number of no shard comes" if shard is None else known
            if shard is not None:
                last[shard] = now
                missing.discard(n)
                gap = {m for m in missing if of[m] == shard and m < n and m not in asked}
        else:
            now = right
            calls[0] = r, "requests", [now]
            t.case = "silence: what is missing is asked for, and again after a wait that doubles"
        quiet = {m for m in missing if m not in asked and last[of[m]] + MS <= now}
        again = {m for m in missing if m in asked and asked[m][0] <= now}
        for m in again:
            wait = min(2 * asked[m][1], MOST_NS)
            asked[m] = [now + wait, wait, asked[m][2] + 1]
        asked |= {m: [now + FIRST_NS, FIRST_NS, 1] for m in gap | quiet}
        *_, got, wake = p.methods(calls)
        want = sorted(gap | quiet | again)
        whole = type(got) is list and all(type(m) is int for m in got)
        if not whole or sorted(got) != want:
            text = "the receiver asks for the wrong fragments"
            told = f"at {now} ns: requests() gave {got!r}, expected {want} in any order"
            raise Failure(text, details=[told[:300]], case=f"{t.case}: {text}")
        times = [asked[m][0] if m in asked else last[of[m]] + MS for m in missing]
        if wake != min(times, default=None):
            told = f"at {now} ns: wake_ns() gave {wake!r}, expected {min(times, default=None)}"
            text = "the receiver wakes at the wrong time"
            raise Failure(text, details=[told], case=f"{t.case}: {text}")
        right = min(times, default=1 << 62)
        for m in want:
            if asked[m][2] > 12 or m != stubborn and rng.random() < 0.5:
                heapq.heappush(coming, (now + draw(1, 3 * MS), m))


def _arrivals(
    rng: random.Random, shards: Sequence[list[int]], outside: Sequence[int]
) -> list[tuple[int, int]]:
    """Times at which numbers come to a receiver, a heap; nothing of one shard. A shard pauses
    once."""
    made: set[tuple[int, int]] = set()
    for at, size in rng.sample(list(shards), len(shards) - 1):
        now, pause = rng.randrange(2 * MS), rng.randrange(at, at + 2 * size)
        near = [n for n in outside if at - 5 <= n < at + size + 5] or outside
        made.add((rng.randrange(1, MS), rng.choice(near)))  # before any silence
        for n in range(at, at + size):
            now += 2 * MS if n == pause else rng.randrange(1, rng.choice((9000, MS // 2)))
            if rng.random() < 0.7:
                made.add((now, n))
            if rng.random() < 0.3:  # a copy of any one of the shard, which is late
                made.add((now + rng.randrange(1, MS), rng.randrange(at, n + 1)))
            if rng.random() < 0.3:
                made.add((now + rng.randrange(1, MS // 2), rng.choice(near)))
    return sorted(made)


@LAB.check(5, "An owner sends each fragment once, and answers all that ask in one packet")
def owner(t: Bench) -> None:
    p = t.python()
    for begin in FIRST:
        _owns(t, p, begin)


def _owns(t: Bench, p: Python, first: int) -> None:
    draw = t.random.randrange
    count, bits = draw(8, 20), draw_bits(t, draw(3, 7))
    everyone = sum(1 << bit for bit in bits)
    o = p.make("Owner", first, count, everyone)
    sent, ends = 0, {1: first, count: first + count - 1}  # by how many have been sent
    wanted: dict[int, int] = {}
    while sent < count or wanted or ends:
        asks = [
            (first + draw(-1, count + 1)) % (1 << 32) for _ in range(draw(2) if sent < count else 0)
        ]
        asks += [first + draw(sent) for _ in asks if sent]
        calls: list = []
        for number in [*asks, *asks, *t.random.sample([*wanted], draw(len(wanted) + 1))]:
            bitmap = 1 << t.random.choice([*bits, draw(32)]) | 1 << draw(32)
            calls.append((o, "asked", [number, bitmap]))
            if first <= number < first + sent and bitmap & everyone:
                wanted[number] = wanted.get(number, 0) | bitmap & everyone
        if sent in ends:  # the first and the last fragment are asked for in any case
            number = ends.pop(sent)
            calls.append((o, "asked", [number, 1 << bits[0]]))
            wanted[number] = wanted.get(number, 0) | 1 << bits[0]
        *_, got = p.methods([*calls, (o, "next", [])])
        if wanted:
            number = next(iter(wanted))
            want = [number, wanted.pop(number)]
            why = "who waits longest is answered first, with all others that wait for the same"
        else:
            want, sent = [first + sent, everyone], sent + 1
            why = "the shard's fragments go to all receivers, in order"
        if got != want:
            told = f"next() gave {got!r}, expected {want}"
            raise Failure(f"the owner sends the wrong packet: {why}", details=[told], case=why)
    got = p.method(o, "next")
    if got is not None:
        text = "next() is not None although there is nothing to send"
        raise Failure(text, details=[f"next() gave {got!r}"[:200]], case=text)


@LAB.check(
    5, "Your switch, receivers and owners exchange all shards over links with losses", virtual=True
)
def together(t: Bench) -> None:
    """A reduce-scatter and then an all-gather: without losses, for bytes to compare with those of a
    ring, and with losses."""
    count, delay_ns = t.random.randrange(4, 6), t.random.randrange(5, 20) * 1000
    loss = t.random.uniform(0.2, 0.3)
    pythons = [t.python() for _ in range(count)]
    for t.case, link in (
        ("without losses", Link(delay_ns, 8.0)),
        ("with losses", Link(delay_ns, 8.0, loss, 0.1, 8 * delay_ns)),
    ):
        job = start(t, count, count)
        up, down, size = _exchange(t, job, pythons, link)
        ring = 2 * (count - 1) * job.fragments * size // count
        t.note(f"{t.case} a host sends {up} and gets {down} bytes; in a ring without losses {ring}")


def _exchange(t: Bench, job: Job, pythons: Sequence, link: Link) -> tuple[int, int, int]:
    """Bytes that a host has sent and got on average, and those of a gradient. Raises Failure."""
    values = [[numbers(t, VALUES) for _ in range(job.fragments)] for _ in job.ports]
    sums = [total(rows) for rows in zip(*values, strict=True)]
    new = [numbers(t, VALUES) for _ in range(job.fragments)]
    everybody, up, down = range(len(job.ports)), 0, 0
    scattering = [ScatterHost(job, who, values[who], sums) for who in everybody]
    gathering = [GatherHost(pythons[who], job, who, new, link) for who in everybody]
    for name, hosts in (("reduce-scatter", scattering), ("all-gather", gathering)):
        made = Fabric(t.random)
        made.add("switch", P4Node(job.switch))
        for who, port in enumerate(job.ports):
            made.add(f"host {who}", hosts[who])
            made.join((f"host {who}", 0), ("switch", port), link)
        if not made.run(partial(_done, hosts), 3000 * MS, MOST_EVENTS):
            text = f"the {name} does not end"
            raise Failure(f"{text} in three seconds", case=f"{t.case}: {text}")
        up += sum(made.counts[f"host {who}", 0].bytes for who in everybody)
        down += sum(made.counts["switch", port].bytes for port in job.ports)
    size = len(bytes(job.gradient(0, values[0][0])))
    return up // len(everybody), down // len(everybody), size


def _done(hosts: Sequence[ScatterHost] | Sequence[GatherHost]) -> bool:
    return all(host.done for host in hosts)


@LAB.check(5, "An alpha-beta model predicts what is measured")
def costs(t: Bench) -> None:
    compare(t.python("costs.py"), measured(t.random), 0.04)
