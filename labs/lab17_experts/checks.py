"""Checks of lab 17: tokens that go to their experts, and answers that come back as one packet."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from scapy.layers.inet import UDP
from scapy.packet import Packet

from labs.grader.bench import Bench, Switch, draw_bits, numbers, total
from labs.grader.histories import Strangers, alike, draw_numbers, draw_slots, dress, leaving
from labs.grader.jobs import VALUES
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
from labs.grader.timing import compare
from labs.lab17_experts.hosts import exchange, incast, measured
from labs.lab17_experts.model import KINDS, SLOTS, Combiner, Message

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
        turned: so many places further in the list is the home of a worker.
    """

    t: Bench
    switch: Switch
    number: int
    workers: list[int]
    ports: list[int]
    rival: int
    turned: int = 0

    def other(self) -> Job:
        """The rival."""
        return replace(self, number=self.rival, turned=1)

    def bits(self, who: Sequence[int]) -> int:
        return sum(1 << self.workers[each] for each in who)

    def port(self, worker: int) -> int:
        return self.ports[(self.workers.index(worker) + self.turned) % len(self.ports)]

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

    def answers(self, came: Packet, m: Message | None) -> dict[int, Packet]:
        """Packets that have to leave, by port."""
        if m is None:
            return {}
        ports = [self.port(m.worker)]
        if m.kind == DATA:
            ports = [p for w, p in zip(self.workers, self.ports, strict=True) if m.bitmap >> w & 1]
        fields = {"kind": m.kind, "bitmap": m.bitmap, "values": m.values}
        return {port: leaving(came, port, m.kind == RESULT, **fields) for port in ports}

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
    number, other = t.random.sample([0, t.random.randrange(1, 256)], 2)
    job = Job(t, t.switch(), number, workers, ports, other)
    groups = t.random.sample(range(1, 100), 2)
    addresses = [as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    for each, group in zip((job, job.other()), groups, strict=True):
        job.switch.table_add("job", "member", [each.number], [group, *addresses])
        for worker in workers:
            home = [each.number, worker]
            job.switch.table_add("home", "lives_at", home, [each.port(worker)])
        job.switch.multicast_group(group, [(port, port) for port in ports])
    for port, worker in zip(ports, workers, strict=True):
        owner = [as_number(host_mac(port)), as_number(host_ip(port)), 1 << worker]
        job.switch.table_add("receiver", "address", [port], owner)
    return job


@LAB.check(10, "A token goes to its experts, and to nobody else")
def dispatch(t: Bench) -> None:
    job = start(t)
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
    """Two jobs with slots of their own in one switch, packet by packet against a model."""
    rng, job = t.random, start(t)
    rival, streams = job.other(), list[Stream]()
    for slot, each in zip(draw_slots(rng, SLOTS, 4), (job, job, rival, rival), strict=True):
        streams.append(Stream(each, slot, draw_numbers(rng)))
    models = {job.number: Combiner(), rival.number: Combiner()}
    kinds, more = (0, RESULT, REMINDER, RECEIPT, 7, 255), {"of no worker": partial(_nobody, rng)}
    strange = Strangers(rng, kinds, [*models], more=more)
    while left := [s for s in streams if s.left or not s.complete(models[s.job.number])]:
        stream = rng.choice(left)
        each, model = stream.job, models[stream.job.number]
        draw = rng.choices((_token, _answer, _late, _no_slot), (4, 8, 4, 2))[0]
        port, m = draw(stream, model)
        packet = dress(rng, each.packet(port, m))
        own = model.slot(m.slot)
        matters = m.kind == DATA and (not own.wanted or m.number > own.number)
        matters |= m.kind != DATA and m.bitmap & own.wanted & ~own.seen != 0
        for name, data in strange.before(packet, matters):
            t.case = f"{name}, which looks like {KINDS[m.kind]}"
            job.switch.expect(port, data, {}, "the switch has nothing to do with this")
        if m.kind == DATA and rng.random() < 0.3:
            t.case = f"{KINDS[m.kind]} from a port that is not its worker's"
            other = rng.choice([p for p in range(1, PORTS + 1) if p != port])
            another = replace(m, bitmap=rng.getrandbits(32), values=numbers(t, VALUES))
            strange_token = dress(rng, each.packet(other, another))
            job.switch.expect(other, strange_token, {}, "a worker sends its tokens itself")
        age = "late" if m.number < own.number else "new" if m.number > own.number else "current"
        where = "without a slot" if m.slot >= SLOTS else f"({age}), where the slot {own.state}"
        want = model.take(True, m)
        t.case = f"{KINDS[m.kind]} {where}"
        why = f"{t.case}: {'nothing' if want is None else 'this'} should leave"
        job.switch.expect(port, packet, each.answers(packet, want), why)


class Stream:
    """The tokens of a worker that use one slot, one after the other. `left`: numbers of those to
    come."""

    def __init__(self, job: Job, slot: int, left: list[int]) -> None:
        self.job, self.slot, self.left = job, slot, left
        self.who = job.t.random.randrange(len(job.workers))
        self.token = self.draw(left.pop(0))

    def draw(self, number: int) -> Message:
        made = self.job.draw(self.who, self.job.experts(), self.slot)
        made.number = number
        return made

    def complete(self, model: Combiner) -> bool:
        slot = model.slot(self.slot)
        return slot.number == self.token.number and slot.wanted == slot.seen != 0


def _token(s: Stream, model: Combiner) -> tuple[int, Message]:
    """The token, or the next one if its worker may go on; at times with other experts or of another
    worker, because a token is known by its number alone."""
    rng, job = s.job.t.random, s.job
    if s.left and s.complete(model) and rng.random() < 0.5:
        s.token = s.draw(s.left.pop(0))
    m = replace(s.token, values=numbers(job.t, VALUES))
    if rng.random() < 0.2:
        m.bitmap, m.worker = job.bits(job.experts()), rng.choice(job.workers)
    return job.home(m), m


def _answer(s: Stream, model: Combiner) -> tuple[int, Message]:
    """An expert's answer, mostly one that is missing."""
    rng, job = s.job.t.random, s.job
    slot, every = model.slot(s.slot), range(len(job.workers))
    missing = [e for e in every if slot.wanted & ~slot.seen & 1 << job.workers[e]]
    expert = rng.choice(missing if missing and rng.random() < 0.6 else every)
    values = None if rng.random() < 0.2 else numbers(job.t, VALUES)
    m = job.answer(s.token, expert, values)
    if rng.random() < 0.1:  # a token is known by its number alone
        m.worker = rng.choice(job.workers)
    return job.ports[expert], m


def _late(s: Stream, model: Combiner) -> tuple[int, Message]:
    """An older token or an answer to it; or an answer to one that has not come."""
    rng = s.job.t.random
    port, m = rng.choice((_token, _answer, _answer))(s, model)
    if not model.slot(s.slot).wanted:
        return port, m
    number = alike(rng, m.number)
    if m.kind != DATA and rng.random() < 0.7:
        number = m.number ^ 1 << rng.randrange(32)
    if m.kind == GRADIENT and rng.random() < 0.5:
        m.kind, m.values = NOTHING, []
    return port, replace(m, number=number)


def _no_slot(s: Stream, model: Combiner) -> tuple[int, Message]:
    """A token without a slot, whose place is much like that of the slot, or an answer to it."""
    port, m = s.job.t.random.choice((_token, _answer))(s, model)
    slot = s.slot | 1 << s.job.t.random.randrange(5, 16)
    return port, replace(m, slot=s.job.t.random.choice((slot, slot, SLOTS, 0xFFFF)))


def _nobody(rng: random.Random, packet: Packet) -> None:
    packet[Agg].worker |= 1 << rng.randrange(5, 16)


@LAB.check(10, "Over links that lose and double packets every worker gets every sum", virtual=True)
def lossy(t: Bench) -> None:
    exchange(t, start(t, 4))


@LAB.check(5, "A burst of answers does not fill a queue", virtual=True)
def burst(t: Bench) -> None:
    incast(t, start(t, 5))


@LAB.check(10, "An alpha-beta model predicts what is measured")
def costs(t: Bench) -> None:
    compare(t.python(), measured(t.random), 0.05)
