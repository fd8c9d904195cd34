"""Checks of lab 18: sums of bf16 in a tree of switches that are the same bits whatever comes first,
and that survive a switch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scapy.layers.inet import UDP
from scapy.packet import Packet

from labs.grader.bench import Bench, Switch, draw_bits, first_number
from labs.grader.histories import (
    Message,
    Set,
    Strangers,
    alike,
    draw_numbers,
    draw_slots,
    dress,
    leaving,
)
from labs.grader.jobs import SLOTS, VALUES
from labs.grader.lab import Lab
from labs.grader.packets import (
    DATA,
    GRADIENT,
    KINDS,
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
    wrapped,
)
from labs.grader.slots import place
from labs.grader.timing import compare
from labs.lab18_trees.model import (
    BACK,
    DONE,
    DOWN,
    FILLING,
    FREE,
    LEAST,
    MOST,
    PARTIAL,
    REACH,
    RESEND,
    SENT,
    UP,
    TreeSwitch,
    draw_code,
    draw_codes,
    draw_units,
    rounded,
    to_fixed,
    total,
)
from labs.lab18_trees.network import fails, measured

LAB = Lab(
    title="Reduction trees",
    hand_in=("tree.p4", "costs.py"),
    given=("packet.p4", "values.p4", "bf16.p4"),
    program="tree.p4",
    module="costs.py",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)
PORTS = 8
LOOKED_AT = ("Agg.kind", "Agg.flags", "Agg.number", "Agg.bitmap", "Agg.values")
SUM = ("Agg.kind", "Agg.values")


@dataclass
class Tier:
    """A switch of a tree and its job.

    Args:
        bits: of its children, in bitmaps.
        ports: of its children, in the same order.
        parent: port of its parent; 0: it is the root.
        own_bit: its bit at its parent.
        first: number of the job's first fragment.
        base: of the fragments' values (field `priority`).
    """

    t: Bench
    switch: Switch
    job: int
    bits: list[int]
    ports: list[int]
    parent: int
    own_bit: int
    first: int
    base: int

    @property
    def everyone(self) -> int:
        return sum(1 << bit for bit in self.bits)

    def model(self) -> TreeSwitch:
        return TreeSwitch(self.everyone, self.parent, 1 << self.own_bit)

    def order(self) -> list[int]:
        """Children, by their places in the list, in any order."""
        return self.t.random.sample(range(len(self.bits)), len(self.bits))

    def codes(self) -> list[list[int]]:
        """Values of a fragment, of each child, as bf16."""
        return draw_codes(self.t.random, self.base, len(self.bits), VALUES)

    def packet(self, port: int, m: Message) -> Packet:
        """A packet from the host or switch at a port."""
        made = agg(
            port,
            "switch",
            kind=m.kind,
            flags=m.flags,
            job=self.job,
            priority=m.base,
            number=m.number,
            slot=place(m.number),
            bitmap=m.bitmap,
            values=m.values,
        )
        made[UDP].chksum = None  # the right one, which does not fit what the switch sends
        return made

    def gradient(
        self, who: int, values: Sequence[int], fragment: int = 0, flags: int = 0
    ) -> Message:
        number, bit = self.first + fragment, 1 << self.bits[who]
        return Message(GRADIENT, flags, number, self.base, bit, list(values))

    def answers(self, came: Packet, port: int, to: str, m: Message | None) -> dict[int, Packet]:
        """Answers of a model to a packet from a port."""
        ports = {UP: [self.parent], BACK: [port], DOWN: self.ports}.get(to, [])
        if m is None:
            return {}
        fields = {"kind": m.kind, "flags": m.flags, "bitmap": m.bitmap, "values": m.values}
        return {each: leaving(came, each, True, **fields) for each in ports}

    def send(self, who: int, m: Message) -> None:
        self.switch.send(self.ports[who], self.packet(self.ports[who], m))

    def expect(
        self,
        port: int,
        m: Message,
        to: str,
        answer: Message | None,
        why: str,
        only: Sequence[str] = LOOKED_AT,
    ) -> None:
        packet = self.packet(port, m)
        want = self.answers(packet, port, to, answer)
        self.switch.expect(port, packet, want, why, only=only)

    def result(self, values: Sequence[int], fragment: int = 0) -> Message:
        number = self.first + fragment
        return Message(RESULT, 0, number, self.base, self.everyone, list(values))

    def partial(self, values: Sequence[int], fragment: int = 0, flags: int = 0) -> Message:
        """The sum of this switch's children, for its parent."""
        number = self.first + fragment
        bit = 1 << self.own_bit
        return Message(GRADIENT, PARTIAL | flags, number, self.base, bit, list(values))


def set_up(tier: Tier, group: int = 0) -> int:
    """The control plane's facts; returns the handle of the job's entry. `group`: of a job that is
    not the switch's first."""
    switch, known, group = tier.switch, group, group or tier.t.random.randrange(1, 100)
    row = [tier.everyone, group, as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    action = "inner" if tier.parent else "root"
    more = [tier.parent, 1 << tier.own_bit] if tier.parent else []
    handle = switch.table_add("job", action, [tier.job], [*row, *more])
    for port in [] if known else range(1, PORTS + 1):
        owner = [as_number(host_mac(port)), as_number(host_ip(port))]
        switch.table_add("receiver", "address", [port], owner)
    switch.multicast_group(group, [(port, port) for port in tier.ports])
    return int(handle)


def start(
    t: Bench,
    root: bool,
    fewest: int = 2,
    most: int = 6,
    first: int | None = None,
    beside: Tier | None = None,
) -> Tier:
    """A switch of a tree whose children, ports and numbers are drawn. `beside`: another job that
    the switch has already."""
    count = t.random.randrange(fewest, most + 1)
    ports = t.random.sample(range(1, PORTS + 1), count + 1)
    parent = 0 if root else ports[-1]
    made = Tier(
        t,
        beside.switch if beside else t.switch(),
        0 if beside is not None and beside.job else t.random.randrange(1, 256),
        draw_bits(t, count),
        ports[:count],
        parent,
        31 if beside else t.random.randrange(32),
        first_number(t, SLOTS) if first is None else first,
        t.random.randrange(LEAST, MOST + 1),
    )
    set_up(made, 100 if beside else 0)
    return made


def filled(tier: Tier, fragment: int, codes: Sequence[Sequence[int]]) -> tuple[int, Message]:
    """Send all gradients of a fragment but one; the last child and its gradient."""
    *others, last = tier.order()
    for who in others:
        m = tier.gradient(who, codes[who], fragment)
        tier.expect(tier.ports[who], m, "", None, "the sum is not complete")
    return last, tier.gradient(last, codes[last], fragment)


@LAB.check(10, "A root's sums are the same bits in every order of arrival")
def orders(t: Bench) -> None:
    for first in (0, None):
        tier = start(t, True, first=first)
        fragment = 0
        for _ in range(8):
            codes = tier.codes()
            want = rounded(total(codes, tier.base), tier.base)
            for _ in range(3):
                last, m = filled(tier, fragment, codes)
                why = "the sum of all values, rounded once, whatever has come first"
                tier.expect(tier.ports[last], m, DOWN, tier.result(want, fragment), why)
                fragment += 1


HALVES = ("half a step above an even number", "half a step above an odd number")
OTHERS = ("nearly half a step", "a sum that cancels", "zeros of both signs", "below a unit")
BESIDE = "a unit from half a step above an even number"


def special(rng: random.Random, name: str, base: int, workers: int) -> list[list[int]]:
    """A case of rounding: the codes of each worker."""

    def code(exponent: int, fraction: int, sign: int = 0) -> int:
        return sign << 15 | exponent << 7 | fraction

    columns = []
    for _ in range(VALUES):
        sign, cut = rng.getrandbits(1), rng.randrange(1, 8)
        high = base + rng.randrange(8, REACH + 1)
        fraction = rng.randrange(64) << 1 | ("odd" in name)
        one = code(high, fraction, sign)
        column = [0] * workers
        if name.startswith("half"):
            column[:2] = one, code(high - 8, 0, sign)
        elif name == BESIDE:
            one = code(base + REACH, fraction, sign)
            column[:3] = one, code(base + REACH - 8, 0, sign), code(base - 7, 0, rng.getrandbits(1))
        elif name.startswith("nearly"):
            column[:2] = one, code(high - 9, rng.randrange(100, 128), sign)
        elif name == "a sum that cancels":
            column[:2] = one, one ^ 1 << 15
        elif name.startswith("zeros"):
            column = [rng.getrandbits(1) << 15 for _ in range(workers)]
        else:
            column = [code(base - cut, rng.getrandbits(7), rng.getrandbits(1)) for _ in column]
        rng.shuffle(column)
        columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


@LAB.check(10, "Rounding is right: to the nearest, to even, and after cancellation")
def rounding(t: Bench) -> None:
    tier = start(t, True, 3)
    names = [*HALVES, *OTHERS, BESIDE] * 4
    for fragment, name in enumerate(t.random.sample(names, len(names))):
        t.case = name
        codes = special(t.random, t.case, tier.base, len(tier.bits))
        units = total(codes, tier.base)
        last, m = filled(tier, fragment, codes)
        want = tier.result(rounded(units, tier.base), fragment)
        tier.expect(tier.ports[last], m, DOWN, want, f"{t.case}: rounded to the nearest bf16")


@LAB.check(5, "A switch below the root sends its sum up, exact")
def upwards(t: Bench) -> None:
    tier = start(t, False)
    for fragment in range(2 * SLOTS):
        codes = tier.codes()
        last, m = filled(tier, fragment, codes)
        m.flags = t.random.choice((0, RESEND))
        want = tier.partial(total(codes, tier.base), fragment)
        why = "the sum of all children goes to the parent, in units and not rounded"
        tier.expect(tier.ports[last], m, UP, want, why)


@LAB.check(10, "A root adds up sums and gradients: any tree has the same bits")
def shapes(t: Bench) -> None:
    tier = start(t, True)
    for fragment in range(12):
        sizes = [t.random.choice((1, t.random.randrange(2, 5))) for _ in tier.bits]
        every = draw_codes(t.random, tier.base, sum(sizes), VALUES)
        leaves = [every[sum(sizes[:n]) :][:size] for n, size in enumerate(sizes)]
        # What each child stands for: itself, or some hosts below it.
        parts = [rows[0] if len(rows) == 1 else total(rows, tier.base) for rows in leaves]
        *others, last = tier.order()
        made = [
            tier.gradient(who, parts[who], fragment, PARTIAL if len(leaves[who]) > 1 else 0)
            for who in range(len(tier.bits))
        ]
        for who in others:
            tier.expect(tier.ports[who], made[who], "", None, "the sum is not complete")
        want = tier.result(rounded(total(every, tier.base), tier.base), fragment)
        why = "the sum of all hosts, as if all were at this switch"
        tier.expect(tier.ports[last], made[last], DOWN, want, why)


@LAB.check(10, "A result goes down, and a copy is answered by whoever has more")
def downwards(t: Bench) -> None:
    tier = start(t, False)
    fragment = t.random.randrange(SLOTS)
    codes = tier.codes()
    last, m = filled(tier, fragment, codes)
    units = total(codes, tier.base)
    tier.expect(tier.ports[last], m, UP, tier.partial(units, fragment), "the sum goes up")
    for who in tier.order():
        t.case = "a copy when the sum has been sent to the parent, and no result has come"
        m = tier.gradient(who, codes[who], fragment, RESEND)
        why = "the sum or its result is lost, so the sum goes up again, with RESEND"
        tier.expect(tier.ports[who], m, UP, tier.partial(units, fragment, RESEND), why)
    t.case = "a result from a port that is not the parent's"
    fake = tier.result([draw_code(t.random, tier.base) for _ in range(VALUES)], fragment)
    fake.bitmap = t.random.getrandbits(32)
    tier.expect(tier.ports[0], fake, "", None, "results come from the parent")
    t.case = "the result"
    result = tier.result([draw_code(t.random, tier.base) for _ in range(VALUES)], fragment)
    came = tier.result(result.values, fragment)
    came.bitmap = t.random.getrandbits(32)
    why = "the parent's result goes to all children, with this switch's bitmap"
    tier.expect(tier.parent, came, DOWN, result, why)
    t.case = "the result again"
    tier.expect(tier.parent, came, "", None, "the children have been sent this")
    for who in tier.order():
        t.case = "a copy when the result is here"
        m = tier.gradient(who, codes[who], fragment, RESEND)
        why = "this switch has the result, so the copy's sender gets it, alone"
        tier.expect(tier.ports[who], m, BACK, result, why)


@LAB.check(5, "A reminder is answered with what the switch has")
def reminders(t: Bench) -> None:
    tier = start(t, False)
    fragment = t.random.randrange(SLOTS)
    codes = tier.codes()
    number = tier.first + fragment
    asked = Message(REMINDER, PARTIAL | RESEND, number, tier.base, 0, [])
    all_fields = ("Ether", "IP", "UDP", *LOOKED_AT)

    def remind(case: str, to: str, want: Message | None, why: str) -> None:
        t.case = f"a reminder {case}"
        tier.expect(tier.parent, asked, to, want, why, all_fields)

    remind("when nothing is here", "", None, "there is nothing to answer with")
    last, m = filled(tier, fragment, codes)
    remind("when the sum is not complete", "", None, "an incomplete sum stays here")
    tier.send(last, m)
    units = total(codes, tier.base)
    sums = tier.partial(units, fragment)
    remind("when the sum is complete", UP, sums, "the sum goes up, without RESEND")
    t.case = "a reminder from a child"
    tier.expect(tier.ports[0], asked, "", None, "only a parent reminds")
    result = tier.result([draw_code(t.random, tier.base) for _ in range(VALUES)], fragment)
    tier.switch.send(tier.parent, tier.packet(tier.parent, result))
    remind("when the result is here", UP, result, "the result goes up")
    asked.number += 2 * SLOTS
    remind("of a later fragment", "", None, "this fragment is not here")


@LAB.check(5, "A root that misses sums asks for them, and takes a result for an answer")
def asking(t: Bench) -> None:
    tier = start(t, True, 3)
    fragment = t.random.randrange(SLOTS)
    number, flags = tier.first + fragment, PARTIAL | RESEND
    values = [[t.random.randrange(-(1 << 28), 1 << 28) for _ in range(VALUES)] for _ in tier.bits]
    *some, last = tier.order()
    ask = Message(REMINDER, flags, number, tier.base, 0, [])
    looked_at = ("Ether", "IP", "UDP", "Agg.kind", "Agg.job", "Agg.number", "Agg.slot")
    for who in some:
        m = tier.gradient(who, values[who], fragment, PARTIAL)
        t.case = "a sum that is sent for the first time"
        tier.expect(tier.ports[who], m, "", None, "nothing is known to be lost")
        m.flags = flags
        t.case = "a sum that is sent again"
        why = "a child waits, and others are missing, so the root asks all of them"
        tier.expect(tier.ports[who], m, DOWN, ask, why, looked_at)
    m = tier.gradient(some[0], values[some[0]], fragment, RESEND)
    t.case = "a host's gradient that is sent again"
    tier.expect(tier.ports[some[0]], m, "", None, "hosts are not asked, they send again")
    result = tier.result([draw_code(t.random, tier.base) for _ in range(VALUES)], fragment)
    t.case = "a child answers with the result"
    why = "a result that a child has got from another root is the result"
    tier.expect(tier.ports[last], result, DOWN, result, why)
    t.case = "a copy after the result"
    m = tier.gradient(some[0], values[some[0]], fragment, flags)
    tier.expect(tier.ports[some[0]], m, BACK, result, "the result is here")


@LAB.check(10, "Copies, late packets and strangers change nothing")
def histories(t: Bench) -> None:
    """A switch that is the root of a job and an inner one of another, packet by packet against a
    model."""
    rng, tier = t.random, start(t, True, most=3)
    tiers = [tier, start(t, False, most=3, beside=tier)]
    slots, streams = draw_slots(rng, SLOTS, 4), list[Stream]()
    for each in tiers:
        model = each.model()
        streams += [Stream(each, slots.pop(), draw_numbers(rng), model) for _ in range(2)]
    kinds, jobs = (0, NOTHING, RECEIPT, DATA, 7, 255), [each.job for each in tiers]
    strange = Strangers(rng, kinds, jobs, (GRADIENT, RESULT, REMINDER))
    for stream, draw in itertools.product(streams, (_result, _reminder)):
        port, m = draw(stream)
        packet = dress(rng, stream.tier.packet(port, m), 0xFF, False)
        packet[Agg].slot = stream.slot
        t.case = f"a {KINDS[m.kind].lower()} that meets a free set"
        stream.meets(stream.tier.parent or port, m, packet, stream.slot, t.case)
    while left := [s for s in streams if s.turn < len(s.numbers)]:
        stream = rng.choice(left)
        draw = rng.choices((_gradient, _result, _reminder), (10, stream.results, 2))[0]
        port, m = draw(stream)
        turn = stream.turn
        if turn > 1 and rng.random() < 0.15:
            turn -= rng.randrange(3)
            m.number = rng.choice((stream.numbers[turn], alike(rng, m.number)))
        slot = stream.slot | turn % 2 << 15
        packet = stream.tier.packet(port, m)
        packet[Agg].slot = slot
        dress(rng, packet, 0xFF ^ PARTIAL ^ RESEND if m.kind == GRADIENT else 0xFF, False)
        name = {GRADIENT: "gradient", RESULT: "result", REMINDER: "reminder"}[m.kind]
        own = stream.model.sets.get(slot, Set())
        new = m.kind == GRADIENT and (m.number > own.number or not own.bitmap & m.bitmap)
        ends = m.kind == RESULT and own.state == (SENT if port == stream.tier.parent else FILLING)
        for what, data in strange.before(packet, new or ends or m.kind == REMINDER):
            t.case = f"{what}, which looks like a {name}"
            tier.switch.expect(port, data, {}, "this is nothing for the switch")
        if m.kind != GRADIENT:
            t.case = f"a {name} of another fragment"
            bit = rng.choice((31, 0, rng.randrange(32)))
            other = replace(m, number=m.number ^ 1 << bit)
            stream.meets(port, other, packet, slot, "another fragment's packet")
            if ends and not stream.tier.parent and rng.random() < 0.8:
                continue  # most sums of a root are made there
        where = {FREE: "empty", FILLING: "filling", SENT: "sent", DONE: "done"}[own.state]
        t.case = f"a {name} at a {'leaf' if stream.tier.parent else 'root'} whose set is {where}"
        stream.meets(port, m, packet, slot, t.case)
        stream.goes_on()


@dataclass
class Stream:
    """The fragments of a job that use one slot, one after the other.

    Args:
        numbers: of the fragments, smaller ones first.
        turn: the place of the one that the children are at.
        sent: their gradients of it.
    """

    tier: Tier
    slot: int
    numbers: list[int]
    model: TreeSwitch
    turn: int = 0
    sent: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sent = _sent(self.tier, self.numbers[0])

    @property
    def results(self) -> float:
        """Number of times that a result comes."""
        return 3 if self.tier.parent else 1.5

    def meets(self, port: int, m: Message, packet: Packet, slot: int, what: str) -> None:
        """A message comes, in a packet: what a model says of it has to leave."""
        packet[Agg].number, m.flags = m.number, int(packet[Agg].flags)
        to, answer = self.model.take(port, m, slot)
        want = self.tier.answers(packet, port, to, answer)
        self.tier.switch.expect(port, packet, want, f"{what} ({to or 'nothing'} should leave)")

    def goes_on(self) -> None:
        """The children have the result, so they may send the next fragment; at times the sum alone
        has been sent, if they have the result from elsewhere."""
        own = self.model.sets.get(self.slot | self.turn % 2 << 15, Set())
        chance = {DONE: 0.3, SENT: 0.1}.get(own.state, 0)
        if own.number == self.numbers[self.turn] and self.tier.t.random.random() < chance:
            self.turn += 1
            if self.turn < len(self.numbers):
                self.sent = _sent(self.tier, self.numbers[self.turn])


def _sent(tier: Tier, number: int) -> list[Message]:
    """Gradients of a fragment with a base of its own, of children that are hosts or switches."""
    rng, count = tier.t.random, len(tier.bits)
    base = rng.randrange(LEAST, MOST + 1)
    below = [False] * count if rng.random() < 0.3 else [rng.random() < 0.6 for _ in tier.bits]
    rows = draw_codes(rng, base, count, VALUES)
    if rng.random() < 0.5:
        rows = special(rng, rng.choice((*HALVES, *OTHERS)), base, count)
    if any(below):
        _fill(rng, rows, below, base)
    fields = zip(tier.bits, below, rows, strict=True)
    return [Message(GRADIENT, PARTIAL * b, number, base, 1 << bit, row) for bit, b, row in fields]


def _fill(rng: random.Random, rows: list[list[int]], below: Sequence[bool], base: int) -> None:
    """Put sums of switches into the rows of those that are `below`, which end in a corner."""
    switches = [who for who, is_one in enumerate(below) if is_one]
    for n in range(VALUES):
        hosts = [row[n] for row, is_one in zip(rows, below, strict=True) if not is_one]
        rest = draw_units(rng) - sum(to_fixed(code, base) for code in hosts)
        for who in switches[1:]:
            rows[who][n] = rng.randrange(-(1 << 24), 1 << 24)
            rest -= rows[who][n]
        rows[switches[0]][n] = wrapped(rest)


def _gradient(s: Stream) -> tuple[int, Message]:
    who = s.tier.t.random.randrange(len(s.sent))
    m = s.sent[who]
    again = RESEND * (s.tier.t.random.random() < 0.4)
    return s.tier.ports[who], replace(m, flags=m.flags | again)


def _result(s: Stream) -> tuple[int, Message]:
    """The parent's result, or of a root a child's; sometimes from another port."""
    rng, tier = s.tier.t.random, s.tier
    values = [draw_code(rng, s.sent[0].base) for _ in range(VALUES)]
    m = Message(RESULT, 0, s.numbers[s.turn], s.sent[0].base, rng.getrandbits(32), values)
    return _from_parent(tier), m


def _reminder(s: Stream) -> tuple[int, Message]:
    rng = s.tier.t.random
    m = Message(REMINDER, 0, s.numbers[s.turn], s.sent[0].base, rng.getrandbits(32), [])
    return _from_parent(s.tier), m


def _from_parent(tier: Tier) -> int:
    rng = tier.t.random
    return tier.parent if tier.parent and rng.random() < 0.7 else rng.choice(tier.ports)


@LAB.check(10, "A tree with losses whose root fails gives every host every sum", virtual=True)
def network(t: Bench) -> None:
    fails(t, Tier, set_up)


@LAB.check(5, "An alpha-beta model predicts what is measured")
def costs(t: Bench) -> None:
    compare(t.python(), measured(t.random), 0.04)
