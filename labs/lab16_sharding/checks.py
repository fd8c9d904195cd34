"""Checks of lab 16: sums to their owners, gathers by multicast, and receivers that recover what is
lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from scapy.layers.inet import IP, UDP
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Failure, first_number, numbers, total
from testbed.labs.grader.fabric import Fabric, Link, P4Node
from testbed.labs.grader.jobs import SLOTS, VALUES
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import (
    DATA,
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
from testbed.labs.grader.slots import AGAIN, COMPLETE, SlotJob, Slots, draw_bits
from testbed.labs.grader.timing import compare
from testbed.labs.lab16_sharding.hosts import GatherHost, ScatterHost, measured

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


def start(t: Bench, fewest: int = 2, most: int = 6, first: int | None = None) -> Job:
    """A job with workers and shards drawn at random, on a switch that knows of another job, too,
    whose fragments have the same numbers and other owners."""
    count = t.random.randrange(fewest, most + 1)
    ports = t.random.sample(range(1, PORTS + 1), count)
    workers = draw_bits(t, count)
    number, other = t.random.sample(range(256), 2)
    at, shards = 0, [(0, 0)] * count
    for who in t.random.sample(range(count), count):
        size = t.random.randrange(SLOTS, 3 * SLOTS)
        shards[who], at = (at, size), at + size
    first = first_number(t, SLOTS) if first is None else first
    job = Job(t, t.switch(), number, workers, ports, first, shards, other)
    groups = t.random.sample(range(1, 100), 2)
    addresses = [as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    owners = [shards, [shards[-1], *shards[:-1]]]
    for name, group, parts in zip((number, other), groups, owners, strict=True):
        job.switch.table_add("job", "member", [name], [job.everyone, group, *addresses])
        for port, (begin, size) in zip(ports, parts, strict=True):
            key = [name, [first + begin, first + begin + size - 1]]
            job.switch.table_add("shard", "owned", key, [port], priority=1)
        job.switch.multicast_group(group, [(port, port) for port in ports])
    for port, worker in zip(ports, workers, strict=True):
        owner = [as_number(host_mac(port)), as_number(host_ip(port)), 1 << worker]
        job.switch.table_add("receiver", "address", [port], owner)
    return job


def strangers(job: Job) -> list[tuple[str, int, bytes]]:
    """Packets with which the switch has nothing to do: what they are, their port, the packet."""
    draw, made = job.t.random.randrange, []
    fragment = draw(job.fragments)
    who = draw(len(job.workers))
    for what in ("a result", "of another kind", "of no job", "outside of the pool", "of no shard"):
        packet = job.gradient(who, job.values()[0], fragment)
        if what == "a result":
            packet[Agg].kind = RESULT
        elif what == "of another kind":
            packet[Agg].kind = draw(DATA + 1, 256)
        elif what == "of no job":
            packet[Agg].job = job.t.random.choice([*{*range(256)} - {job.number, job.rival}])
        elif what == "outside of the pool":
            packet[Agg].slot = job.t.random.choice((SLOTS, SLOTS | 1 << draw(4, 15))) | 1 << 15
        else:
            number = job.first + job.t.random.choice((-1, job.fragments))
            packet[Agg].number = number % (1 << 32)
        made.append((f"a packet that is {what}", job.ports[who], bytes(packet)))
    whole = bytes(job.gradient(who, job.values()[0], fragment))
    short = whole[: len(whole) - 4 * VALUES + draw(4 * VALUES)]
    made.append(("a gradient that is cut off", job.ports[who], short))
    tcp = job.gradient(who, job.values()[0], fragment)
    tcp[UDP].dport = draw(1024, 18767)
    made.append(("a packet for another UDP port", job.ports[who], bytes(tcp)))
    return made


@LAB.check(10, "Sums go to the owner, and receipts to all others")
def scatter(t: Bench) -> None:
    for case, first in (
        ("the first fragment has number 0", 0),
        ("the first fragment has another number", None),
    ):
        job = start(t, first=first)
        for t.case, port, packet in strangers(job):
            job.switch.expect(port, packet, {}, "this is no gradient of a shard of the job's")
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
    """Random histories, packet by packet against a model of the slots."""
    job = start(t)
    model, count = Slots(job.everyone), job.fragments
    sent = [job.values() for _ in range(count)]
    missing = [set(range(count)) for _ in job.workers]
    loss, copies = t.random.uniform(0.15, 0.25), t.random.uniform(0.1, 0.2)
    tried: list[tuple[int, int]] = []
    for _ in range(80):
        for who in job.order():
            for fragment in sorted(missing[who]):
                if fragment - SLOTS in missing[who]:
                    break
                tried.append((who, fragment))
                _arrives(job, model, sent, missing, (who, fragment), loss)
                if t.random.random() < copies:  # of any gradient that there was
                    _arrives(job, model, sent, missing, t.random.choice(tried[-200:]), loss)
        if not any(missing):
            return
    raise Failure("after 80 rounds results are missing", case="results are missing at the end")


def _arrives(
    job: Job, model: Slots, sent: list, missing: list[set[int]], what: tuple[int, int], loss: float
) -> None:
    """A gradient comes to the switch, or is lost; what the switch sends comes to the workers, or is
    lost."""
    who, fragment = what
    if job.t.random.random() < loss:
        return
    values, bit = sent[fragment][who], 1 << job.workers[who]
    end, own = model.take(job.first + fragment, bit, values)
    receivers = range(len(job.workers)) if end == COMPLETE else [who] if end == AGAIN else []
    want = {job.ports[w]: job.answer(w, fragment, list(own.values)) for w in receivers}
    job.t.case = f"a gradient whose fate is: {end}"
    job.expect(who, values, fragment, want, f"this gradient is: {end}")
    for w in receivers:
        if job.t.random.random() >= loss:
            missing[w].discard(fragment)


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
    """Shards that come in turn, with gaps, and then silence."""
    p, draw = t.python(), t.random.randrange
    base = draw(1 << 30)
    sizes = [draw(6, 20) for _ in range(draw(2, 5))]
    shards = [[base + 100 * i, size] for i, size in enumerate(sizes)]
    t.random.shuffle(shards)
    r = p.make("Receiver", shards)
    come = [n for row in zip(*(range(s, s + 6) for s, _ in shards), strict=True) for n in row]
    come += [n for s, size in shards for n in range(s + 6, s + size)]
    lost = {n for s, size in shards for n in t.random.sample(range(s, s + size - 1), draw(2, 4))}
    ends = {s + size - 1 for s, size in t.random.sample(shards, draw(1, len(shards)))}
    now = draw(1, MS // 2)
    last: dict[int, int] = {}  # by the first fragment of a shard
    asked: dict[int, tuple[int, int]] = {}  # when a fragment is due, and the wait before it

    def step(at_ns: int, want: list[int], number: int | None = None) -> None:
        calls = [(r, "requests", [at_ns]), (r, "wake_ns", [])]
        if number is not None:
            calls.insert(0, (r, "arrived", [number, at_ns]))
        *_, got, wake = p.methods(calls)
        if type(got) is not list or sorted(got) != sorted(want):
            told = f"at {at_ns} ns: it asks for {got!r}, expected {want}"
            text = "the receiver asks for the wrong fragments"
            raise Failure(text, details=[told[:300]], case=f"{t.case}: {text}")
        left = {n for n in lost | ends if n not in done}
        times = [when for n, (when, _) in asked.items() if n in left]
        times += [
            last.get(s, 0) + MS for s, size in shards if {*range(s, s + size)} - done - {*asked}
        ]
        right = min(times, default=None)
        if wake != right:
            told = f"at {at_ns} ns: wake_ns is {wake!r}, expected {right}"
            text = "the receiver wakes at the wrong time"
            raise Failure(text, details=[told], case=f"{t.case}: {text}")

    done: set[int] = set()
    for n in come:
        if n in lost | ends:
            continue
        now += draw(1, 2000)
        s, _ = next(each for each in shards if each[0] <= n < each[0] + each[1])
        gap = [m for m in range(s, n) if m in lost and m not in asked]
        done.add(n)
        last[s] = now
        asked |= {m: (now + FIRST_NS, FIRST_NS) for m in gap}
        t.case = "fragments come with gaps"
        step(now, gap, n)
        if draw(4) == 0:
            t.case = "what has come comes again, or is of no shard"
            again = t.random.choice([n, base - 1, base + 100 * len(shards) + 50])
            last[s] = now if again == n else last[s]
            step(now, [], again)
    for n in t.random.sample(sorted(lost), len(lost) // 2):
        now += draw(1, 2000)
        s, _ = next(each for each in shards if each[0] <= n < each[0] + each[1])
        done.add(n)
        last[s] = now
        t.case = "what was asked for comes"
        step(now, [], n)
    for _ in range(150):
        times = [when for n, (when, _) in asked.items() if n not in done]
        times += [last[s] + MS for s, size in shards if {*range(s, s + size)} - done - {*asked}]
        now = min(times)
        quiet = [range(s, s + size) for s, size in shards if last[s] + MS <= now]
        silent = [n for shard in quiet for n in shard if n not in done | {*asked}]
        due = [n for n, (when, _) in asked.items() if n not in done and when <= now]
        for n in due:
            wait = min(2 * asked[n][1], MOST_NS)
            asked[n] = now + wait, wait
        asked |= {n: (now + FIRST_NS, FIRST_NS) for n in silent}
        t.case = "silence: what is missing is asked for, and again after a wait that doubles"
        step(now, due + silent)
    for n in t.random.sample(sorted((lost | ends) - done), len((lost | ends) - done)):
        now += 1
        done.add(n)
        last[next(s for s, z in shards if s <= n < s + z)] = now
        t.case = "everything has come"
        step(now, [], n)


@LAB.check(5, "An owner sends each fragment once, and answers all that ask in one packet")
def owner(t: Bench) -> None:
    p, draw = t.python(), t.random.randrange
    first, count, bits = draw(1 << 30), draw(8, 20), t.random.sample(range(32), draw(3, 7))
    everyone = sum(1 << bit for bit in bits)
    o = p.make("Owner", first, count, everyone)
    sent = 0
    wanted: dict[int, int] = {}
    while sent < count or wanted:
        asks = [first + draw(-1, count + 1) for _ in range(draw(3) if sent < count else 0)]
        for number in [*asks, *asks, *t.random.sample([*wanted], draw(len(wanted) + 1))]:
            bitmap = 1 << t.random.choice([*bits, draw(32)]) | 1 << draw(32)
            p.method(o, "asked", number, bitmap)
            if first <= number < first + sent and bitmap & everyone:
                wanted[number] = wanted.get(number, 0) | bitmap & everyone
        got = p.method(o, "next")
        if wanted:
            number = next(iter(wanted))
            want = [number, wanted.pop(number)]
            why = "who waits longest is answered first, with all others that wait for the same"
        else:
            want, sent = [first + sent, everyone], sent + 1
            why = "the shard's fragments go to all receivers, in order"
        if got != want:
            told = f"next() is {got!r}, expected {want}"
            raise Failure(f"the owner sends the wrong packet: {why}", details=[told], case=why)
    if p.method(o, "next") is not None:
        text = "next() is not None although there is nothing to send"
        raise Failure(text, case=text)


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
