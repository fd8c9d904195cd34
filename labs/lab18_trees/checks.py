"""Checks of lab 18: sums of bf16 in a tree of switches that are the same bits whatever comes first,
and that survive a switch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from scapy.layers.inet import UDP
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Switch, first_number
from testbed.labs.grader.jobs import SLOTS, VALUES
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import (
    GRADIENT,
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
from testbed.labs.grader.slots import draw_bits, place
from testbed.labs.grader.timing import compare
from testbed.labs.lab18_trees.model import (
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
    Message,
    TreeSwitch,
    draw_code,
    draw_codes,
    rounded,
    total,
)
from testbed.labs.lab18_trees.network import fails, measured

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

    def leaving(self, port: int, m: Message) -> Packet:
        """A packet of this switch, as it leaves at a port."""
        made = self.packet(port, m)
        back = agg("switch", port)
        made.src, made.dst = back.src, back.dst
        made["IP"].src, made["IP"].dst = back["IP"].src, back["IP"].dst
        made[UDP].chksum = 0
        return made

    def gradient(
        self, who: int, values: Sequence[int], fragment: int = 0, flags: int = 0
    ) -> Message:
        number, bit = self.first + fragment, 1 << self.bits[who]
        return Message(GRADIENT, flags, number, self.base, bit, list(values))

    def answers(self, port: int, to: str, m: Message | None) -> dict[int, Packet]:
        """What a model says leaves for a packet from a port."""
        ports = {UP: [self.parent], BACK: [port], DOWN: self.ports}.get(to, [])
        return {each: self.leaving(each, m) for each in ports} if m else {}

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
        want = self.answers(port, to, answer)
        self.switch.expect(port, self.packet(port, m), want, why, only=only)

    def result(self, values: Sequence[int], fragment: int = 0) -> Message:
        number = self.first + fragment
        return Message(RESULT, 0, number, self.base, self.everyone, list(values))

    def partial(self, values: Sequence[int], fragment: int = 0, flags: int = 0) -> Message:
        """The sum of this switch's children, for its parent."""
        number = self.first + fragment
        bit = 1 << self.own_bit
        return Message(GRADIENT, PARTIAL | flags, number, self.base, bit, list(values))


def set_up(tier: Tier) -> int:
    """The control plane's facts; returns the handle of the job's entry."""
    switch, group = tier.switch, tier.t.random.randrange(1, 100)
    row = [tier.everyone, group, as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    action = "inner" if tier.parent else "root"
    more = [tier.parent, 1 << tier.own_bit] if tier.parent else []
    handle = switch.table_add("job", action, [tier.job], [*row, *more])
    for port in range(1, PORTS + 1):
        owner = [as_number(host_mac(port)), as_number(host_ip(port))]
        switch.table_add("receiver", "address", [port], owner)
    switch.multicast_group(group, [(port, port) for port in tier.ports])
    return int(handle)


def start(t: Bench, root: bool, fewest: int = 2, most: int = 6, first: int | None = None) -> Tier:
    """A switch of a tree whose children, ports and numbers are drawn."""
    count = t.random.randrange(fewest, most + 1)
    ports = t.random.sample(range(1, PORTS + 1), count + 1)
    parent = 0 if root else ports[-1]
    made = Tier(
        t,
        t.switch(),
        t.random.randrange(256),
        draw_bits(t, count),
        ports[:count],
        parent,
        t.random.randrange(32),
        first_number(t, SLOTS) if first is None else first,
        t.random.randrange(LEAST, MOST + 1),
    )
    set_up(made)
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
    tier = start(t, True)
    names = [*HALVES, *OTHERS] * 4
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
    """Random packets, one by one against a model."""
    for root in (True, False):
        first = t.random.choice((0, None))
        tier = start(t, root, most=3, first=first)
        for t.case, packet in strangers(tier):
            tier.switch.expect(tier.ports[0], packet, {}, "this is nothing for the switch")
        model, now = tier.model(), 0
        slots = t.random.sample(range(SLOTS), 2)
        for _ in range(400):
            now += t.random.random() < 0.04
            back = t.random.choice((0, 0, 0, 0, 1, 2))
            turn = max(0, now - back)
            number = tier.first + t.random.choice(slots) + turn * SLOTS
            port, m = _packet(tier, model, number)
            state = model.sets[place(number)].state if place(number) in model.sets else FREE
            kind = {GRADIENT: "gradient", RESULT: "result", REMINDER: "reminder"}[m.kind]
            to, answer = model.take(port, m)
            where = {FREE: "empty", FILLING: "filling", SENT: "sent", DONE: "done"}[state]
            t.case = f"a {kind} at a {'root' if root else 'leaf'} whose set is {where}"
            only = LOOKED_AT if answer is None or answer.kind != REMINDER else ("Agg.kind",)
            tier.expect(port, m, to, answer, f"{t.case} ({to or 'nothing'} should leave)", only)


def _packet(tier: Tier, model: TreeSwitch, number: int) -> tuple[int, Message]:
    """Any packet that could come, and its port."""
    rng = tier.t.random
    who = rng.randrange(len(tier.bits))
    # Of one size, and with few bits, so that the sums of hosts are not rounded.
    size = tier.base << 7
    values = [rng.getrandbits(1) << 15 | size | rng.randrange(0, 128, 16) for _ in range(VALUES)]
    some = rng.random()
    if some < 0.12:
        port = tier.parent if tier.parent and rng.random() < 0.6 else tier.ports[who]
        return port, Message(RESULT, 0, number, tier.base, rng.getrandbits(32), values)
    if some < 0.24:
        port = tier.parent if tier.parent and rng.random() < 0.6 else tier.ports[who]
        return port, Message(REMINDER, PARTIAL | RESEND, number, tier.base, 0, [])
    flags = rng.choice((0, RESEND, PARTIAL, PARTIAL | RESEND))
    if flags & PARTIAL:
        values = [rng.randrange(-(1 << 28), 1 << 28) for _ in values]
    bit = 1 << tier.bits[who]
    return tier.ports[who], Message(GRADIENT, flags, number, tier.base, bit, values)


def strangers(tier: Tier) -> list[tuple[str, bytes]]:
    """Packets with which the switch has nothing to do, and what they are."""
    draw, made = tier.t.random.randrange, []
    names = ("of another kind", "of another job", "for another port", *["outside of the pool"] * 4)
    for what in names:
        packet = tier.packet(tier.ports[0], tier.gradient(0, tier.codes()[0]))
        if what == "of another kind":
            packet[Agg].kind = draw(REMINDER + 1, 256)
        elif what == "of another job":
            packet[Agg].job = (tier.job + draw(1, 256)) % 256
        elif what == "outside of the pool":
            packet[Agg].slot = tier.t.random.choice((SLOTS, draw(SLOTS, 1 << 15))) | draw(2) << 15
            packet[Agg].flags = PARTIAL | RESEND
        else:
            packet[UDP].dport = draw(1024, 18767)
        made.append((f"a packet {what}", bytes(packet)))
    whole = bytes(tier.packet(tier.ports[0], tier.gradient(0, tier.codes()[0])))
    made.append(("a gradient that is cut off", whole[: len(whole) - draw(1, 4 * VALUES)]))
    return made


@LAB.check(10, "A tree with losses whose root fails gives every host every sum", virtual=True)
def network(t: Bench) -> None:
    fails(t, Tier, set_up)


@LAB.check(5, "An alpha-beta model predicts what is measured")
def costs(t: Bench) -> None:
    compare(t.python(), measured(t.random), 0.04)
