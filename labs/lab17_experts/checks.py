"""Checks of lab 17: tokens that go to their experts, and answers that come back as one packet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scapy.layers.inet import IP, UDP
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Switch, numbers, total
from testbed.labs.grader.jobs import VALUES
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import (
    DATA,
    GRADIENT,
    NOTHING,
    RESULT,
    SWITCH_IP,
    SWITCH_MAC,
    Agg,
    agg,
    as_number,
    host_ip,
    host_mac,
)
from testbed.labs.grader.slots import draw_bits
from testbed.labs.grader.timing import compare
from testbed.labs.lab17_experts.hosts import exchange, incast, measured
from testbed.labs.lab17_experts.model import KINDS, SLOTS, Combiner, Message

LAB = Lab(
    title="Mixture of experts",
    hand_in=("experts.p4", "costs.py"),
    given=("packet.p4", "values.p4"),
    program="experts.p4",
    module="costs.py",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)
PORTS = 8
LOOKED_AT = ("Agg.kind", "Agg.number", "Agg.slot", "Agg.bitmap", "Agg.values")


@dataclass
class Job:
    """A job on a switch of its own. Each worker has an expert. Host n is at port n.

    Args:
        number: of the job, in packets.
        workers: their numbers, which are bits of the bitmap.
        ports: of the workers, in the same order.
        rival: number of another job, whose workers have the same numbers at other ports.
    """

    t: Bench
    switch: Switch
    number: int
    workers: list[int]
    ports: list[int]
    rival: int

    def bits(self, who: Sequence[int]) -> int:
        return sum(1 << self.workers[each] for each in who)

    def port(self, worker: int) -> int:
        return self.ports[self.workers.index(worker)]

    def experts(self, fewest: int = 1) -> list[int]:
        """Experts of a token, by their places in the list."""
        count = self.t.random.randrange(fewest, len(self.workers) + 1)
        return self.t.random.sample(range(len(self.workers)), count)

    def draw(self, who: int, experts: Sequence[int], slot: int = -1) -> Message:
        """A token of a worker. Slots are drawn if none is given."""
        draw = self.t.random.randrange
        slot = draw(SLOTS) if slot < 0 else slot
        values = numbers(self.t, VALUES)
        bits = self.bits(experts)
        return Message(DATA, draw(1 << 32), slot, self.workers[who], bits, values)

    def answer(self, token: Message, expert: int, values: Sequence[int] | None) -> Message:
        """An expert's answer; None: it has dropped the token."""
        kind, bit = (NOTHING, GRADIENT)[values is not None], 1 << self.workers[expert]
        return Message(kind, token.number, token.slot, token.worker, bit, list(values or []))

    def result(self, token: Message, values: Sequence[int]) -> Message:
        m = token
        return Message(RESULT, m.number, m.slot, m.worker, m.bitmap, list(values))

    def packet(self, port: int, m: Message) -> Packet:
        """A packet from the host at a port."""
        fields = {"number": m.number, "slot": m.slot, "worker": m.worker, "bitmap": m.bitmap}
        ends = port, "switch"
        made = agg(*ends, kind=m.kind, job=self.number, values=m.values, **fields)
        made[UDP].chksum = None  # the right one, which does not fit what the switch sends
        return made

    def leaving(self, came: Packet, port: int, m: Message) -> Packet:
        """A packet as it leaves at a port: a result is the switch's, others are as they came."""
        made = self.packet(port, m)
        made.dst, made[IP].dst, made[UDP].chksum = host_mac(port), host_ip(port), 0
        result = m.kind == RESULT
        made.src, made[IP].src = (SWITCH_MAC, SWITCH_IP) if result else (came.src, came[IP].src)
        return made

    def answers(self, came: Packet, m: Message | None) -> dict[int, Packet]:
        """What has to leave, by port."""
        if m is None:
            return {}
        ports = [self.port(m.worker)]
        if m.kind == DATA:
            ports = [p for w, p in zip(self.workers, self.ports, strict=True) if m.bitmap >> w & 1]
        return {port: self.leaving(came, port, m) for port in ports}

    def expect(
        self,
        port: int,
        m: Message,
        want: Message | None,
        why: str,
        only: Sequence[str] = LOOKED_AT,
        ignore: Sequence[str] = (),
    ) -> None:
        packet = self.packet(port, m)
        self.switch.expect(port, packet, self.answers(packet, want), why, only, ignore)

    def send(self, port: int, m: Message) -> None:
        self.switch.send(port, self.packet(port, m))

    def home(self, m: Message) -> int:
        return self.port(m.worker)


def start(t: Bench, fewest: int = 3) -> Job:
    """A job with workers drawn at random, on a switch that knows another job, too, whose workers
    have the same numbers at other ports."""
    count = t.random.randrange(fewest, 8)
    ports, workers = t.random.sample(range(1, PORTS + 1), count), draw_bits(t, count)
    number, other = t.random.sample(range(256), 2)
    job = Job(t, t.switch(), number, workers, ports, other)
    groups = t.random.sample(range(1, 100), 2)
    addresses = [as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    homes = [ports, [*ports[1:], ports[0]]]
    for name, group, at in zip((number, other), groups, homes, strict=True):
        job.switch.table_add("job", "member", [name], [group, *addresses])
        for worker, port in zip(workers, at, strict=True):
            job.switch.table_add("home", "lives_at", [name, worker], [port])
        job.switch.multicast_group(group, [(port, port) for port in ports])
    for port, worker in zip(ports, workers, strict=True):
        owner = [as_number(host_mac(port)), as_number(host_ip(port)), 1 << worker]
        job.switch.table_add("receiver", "address", [port], owner)
    return job


def strangers(job: Job) -> list[tuple[str, int, bytes]]:
    """Packets with which the switch has nothing to do: what they are, their port, the packet."""
    draw, made = job.t.random.randrange, []
    for what in (
        "a result",
        "of another kind",
        "of no job",
        "of no worker",
        "for another UDP port",
    ):
        token = job.draw(0, job.experts())
        packet = job.packet(job.home(token), token)
        if what == "a result":
            packet[Agg].kind = RESULT
        elif what == "of another kind":
            packet[Agg].kind = draw(DATA + 1, 256)
        elif what == "of no job":
            packet[Agg].job = job.t.random.choice([*{*range(256)} - {job.number, job.rival}])
        elif what == "of no worker":
            packet[Agg].worker = draw(32, 1 << 16)
        else:
            packet[UDP].dport = draw(1024, 18767)
        made.append((f"a packet that is {what}", job.home(token), bytes(packet)))
    for kind, name in ((DATA, "a token"), (GRADIENT, "an answer")):
        token = job.draw(0, job.experts(), draw(SLOTS, 1 << 16))
        token.kind = kind
        whole = bytes(job.packet(job.home(token), token))
        cut = whole[: len(whole) - draw(1, 4 * VALUES)]
        made.append((f"{name} that is cut off", job.home(token), cut))
    return made


@LAB.check(10, "A token goes to its experts, and to nobody else")
def dispatch(t: Bench) -> None:
    job = start(t)
    for t.case, port, packet in strangers(job):
        job.switch.expect(port, packet, {}, "the switch has nothing to do with this")
    for slot in range(SLOTS):
        who = t.random.randrange(len(job.workers))
        token = job.draw(who, job.experts(), slot)
        t.case = "a token from a port that is not its worker's"
        other = t.random.choice([p for p in job.ports if p != job.home(token)])
        job.expect(other, token, None, "a worker sends its tokens itself")
        t.case = "a token"
        why = "the token goes unchanged to each host whose bit is in the bitmap"
        job.expect(job.home(token), token, token, why, ("Ether", "IP", "UDP", "Agg"))


def answered(job: Job, token: Message, experts: Sequence[int], silent: Sequence[int] = ()) -> None:
    """The answers of all experts in any order, and the result. `silent`: experts that drop the
    token."""
    values = {e: numbers(job.t, VALUES) for e in experts if e not in silent}
    *others, last = job.t.random.sample(list(experts), len(experts))
    for expert in others:
        m = job.answer(token, expert, values.get(expert))
        job.expect(job.ports[expert], m, None, "answers of other experts are missing")
    m = job.answer(token, last, values.get(last))
    sums = total([[0] * VALUES, *values.values()])
    why = "the token's worker gets the sum of all answers, in one packet"
    job.expect(job.ports[last], m, job.result(token, sums), why)


@LAB.check(10, "The answers of all experts become one packet for the token's worker")
def combine(t: Bench) -> None:
    for _ in range(2):
        job = start(t)
        slots = t.random.sample(range(SLOTS), 4)
        tokens = []
        for slot in slots:
            experts = job.experts()
            token = job.draw(t.random.randrange(len(job.workers)), experts, slot)
            job.send(job.home(token), token)
            tokens.append((token, experts))
        for token, experts in tokens:
            answered(job, token, experts)
        for token, experts in tokens:
            t.case = "the next token in a slot"
            token.number = (1 << 32) - t.random.randrange(1, 1 << 8)
            token.bitmap = job.bits(experts)
            job.send(job.home(token), token)
            answered(job, token, experts)
        t.case = ""


@LAB.check(10, "An expert that drops a token answers without values")
def dropped(t: Bench) -> None:
    job = start(t)
    *slots, fresh = t.random.sample(range(SLOTS), 11)
    for slot in slots:
        experts = job.experts(2)
        silent = t.random.sample(experts, t.random.randrange(1, len(experts) + 1))
        t.case = "some experts drop the token" if len(silent) < len(experts) else "all drop it"
        token = job.draw(t.random.randrange(len(job.workers)), experts, slot)
        job.send(job.home(token), token)
        answered(job, token, experts, silent)
    t.case = "the last answer has no values: the result is a whole packet"
    experts = job.experts(2)
    token = job.draw(0, experts, fresh)
    job.send(job.home(token), token)
    *others, last = experts
    values = {e: numbers(t, VALUES) for e in others}
    for expert in others:
        job.send(job.ports[expert], job.answer(token, expert, values[expert]))
    want = job.result(token, total(values.values()))
    why = "lengths, checksum and addresses are right"
    m = job.answer(token, last, None)
    job.expect(job.ports[last], m, want, why, only=(), ignore=["Agg.worker", "Agg.flags"])


@LAB.check(10, "A token that is sent again goes to the missing experts, or is answered")
def again(t: Bench) -> None:
    job = start(t, 4)
    for slot in t.random.sample(range(SLOTS), 6):
        experts = job.experts(2)
        token = job.draw(t.random.randrange(len(job.workers)), experts, slot)
        job.send(job.home(token), token)
        values = [numbers(t, VALUES) for _ in experts]
        for n, expert in enumerate(experts):
            t.case = "a token that is sent again when answers are missing"
            rest = job.bits(experts[n:])
            want = Message(DATA, token.number, slot, token.worker, rest, token.values)
            why = "its answers so far are in the sum, so only the other experts get it again"
            job.expect(job.home(token), token, want, why)
            m = job.answer(token, expert, values[n])
            job.send(job.ports[expert], m)
            t.case = "an answer that comes twice"
            job.expect(job.ports[expert], m, None, "it is in the sum already")
        t.case = "a token that is sent again when its sum is complete"
        why = "the result is lost, and the switch has it"
        job.expect(job.home(token), token, job.result(token, total(values)), why)


@LAB.check(5, "Without a slot, tokens and answers are passed on")
def passed(t: Bench) -> None:
    job = start(t)
    for slot in (SLOTS, t.random.randrange(SLOTS, 1 << 16), 0xFFFF):
        experts = job.experts(2)
        token = job.draw(t.random.randrange(len(job.workers)), experts, slot)
        home = job.home(token)
        for _ in range(2):
            t.case = "a token without a slot"
            job.expect(home, token, token, "it goes to its experts, also again")
            for expert in experts:
                values = t.random.choice((None, numbers(t, VALUES)))
                m = job.answer(token, expert, values)
                t.case = "an answer to a token without a slot"
                why = "it goes to the token's worker as it is"
                job.expect(job.ports[expert], m, m, why, ("Ether", "IP", "UDP", "Agg"))


@LAB.check(10, "Copies and late packets change nothing")
def histories(t: Bench) -> None:
    """Random packets, one by one against a model, until some sums of several answers are
    complete."""
    job, model = start(t), Combiner()
    base = t.random.choice((0, (1 << 31) - 8))
    slots = {
        slot: t.random.randrange(len(job.workers)) for slot in t.random.sample(range(SLOTS), 3)
    }
    bitmaps: dict[tuple[int, int], int] = {}
    answers: Counter[tuple[int, int]] = Counter()
    now = sent = sums = 0
    while sent < 400 or sums < 3:
        sent, now = sent + 1, now + (t.random.random() < 0.05)
        slot = t.random.choice(list(slots))
        number = base + max(0, now - t.random.choice((0, 0, 0, 0, 1, 2)))
        experts = bitmaps.setdefault((slot, number), job.bits(job.experts()))
        worker, bit = job.workers[slots[slot]], 1 << t.random.choice(job.workers)
        kind = t.random.choices((DATA, GRADIENT, NOTHING), (3, 8, 2))[0]
        values = [] if kind == NOTHING else numbers(t, VALUES)
        m = Message(kind, number, slot, worker, experts if kind == DATA else bit, values)
        home = job.home(m)
        port = home if kind == DATA else t.random.choice(job.ports)
        own = model.slot(slot)
        if kind == GRADIENT and number == own.number:
            answers[slot, number] += bool(bit & own.wanted & ~own.seen)
        age = "late" if number < own.number else "new" if number > own.number else "current"
        t.case = f"{KINDS[kind]} ({age}), where the slot {own.state}"
        want = model.take(port == home, m)
        if want is not None and want.kind == RESULT and kind == GRADIENT:
            sums += answers[slot, number] > 1
        why = f"{t.case}: {'nothing' if want is None else 'this'} should leave"
        job.expect(port, m, want, why)


@LAB.check(10, "Over links that lose and double packets every worker gets every sum", virtual=True)
def lossy(t: Bench) -> None:
    exchange(t, start(t, 4))


@LAB.check(5, "A burst of answers does not fill a queue", virtual=True)
def burst(t: Bench) -> None:
    incast(t, start(t, 5))


@LAB.check(10, "An alpha-beta model predicts what is measured")
def costs(t: Bench) -> None:
    compare(t.python(), measured(t.random), 0.05)
