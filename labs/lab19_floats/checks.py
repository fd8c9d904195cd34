"""Checks of lab 19: sums of bf16 numbers in a switch, which depend on the order of arrival, and
exact ones, which do not; what does not fit into these goes to a server."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from scapy.packet import Packet

from labs.grader.bench import Bench, Failure, draw_bits
from labs.grader.histories import (
    Message,
    Set,
    Strangers,
    alike,
    draw_numbers,
    draw_slots,
    dress,
)
from labs.grader.jobs import SLOTS, VALUES, header
from labs.grader.lab import Lab
from labs.grader.packets import (
    AT_AGG,
    DATA,
    GRADIENT,
    HEADER,
    NOTHING,
    RECEIPT,
    REMINDER,
    RESULT,
    Agg,
    agg,
)
from labs.grader.slots import place
from labs.lab19_floats.jobs import Job, columns, start
from labs.lab19_floats.model import (
    DONE,
    MOST,
    REASONS,
    SIGN,
    SPILLED,
    added,
    draw_code,
    draw_fitting,
    draw_large,
    draw_spilling,
    is_finite,
    nearest,
    shown,
    total,
    totals,
)
from labs.lab19_floats.network import exchange
from labs.lab19_floats.pairs import CORNERS, ORDINARY

LAB = Lab(
    title="Floating point in the switch",
    hand_in=("adder.p4", "floats.p4", "server.py"),
    given=("packet.p4", "values.p4", "bf16.p4"),
    program="floats.p4",
    module="server.py",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)
PASSED = ("Agg.kind", "Agg.flags", "Agg.number", "Agg.bitmap", "Agg.values")
ROW = struct.Struct(f"!{VALUES}I")
AT_ONCE = 64  # packets in a call
ABANDONED = (2, 3)  # turns of a stream whose sets spill, and which ends mostly without a result
Pair = Callable[[random.Random], tuple[int, int]]


def add_pairs(t: Bench, job: Job, kinds: Sequence[Pair], each: int) -> None:
    """Two workers send the numbers of pairs, each pair in both orders. Raises Failure."""
    rng = t.random
    chosen = [(kind, *kind(rng)) for kind in kinds for _ in range(each)]
    chosen = rng.sample(chosen, len(chosen) // (2 * VALUES) * (2 * VALUES))
    lots = [chosen[n : n + VALUES] for n in range(0, len(chosen), VALUES)]
    frames, wanted = [], {}
    for fragment, lot in enumerate(lot for lot in lots for _ in range(2)):
        rows = columns([pair[1:] for pair in lot])
        number = job.first + fragment
        for who in (0, 1) if fragment % 2 else (1, 0):
            frames.append((job.ports[who], _frame(job, who, number, rows[who])))
        wanted[number] = [(*pair, added(pair[1], pair[2])) for pair in lot]
    for at in range(0, len(frames), AT_ONCE):
        now_ns = job.switch.now_ns
        some = [(now_ns + 100_000 * (n + 1), *f) for n, f in enumerate(frames[at : at + AT_ONCE])]
        left = [data for _, port, data in job.switch.burst(some) if port == job.ports[0]]
        got = {header(data)[3]: data[AT_AGG + HEADER.size :] for data in left}
        for n in range(at // 2, (at + len(some)) // 2):
            _compare(t, wanted[job.first + n], got.get(job.first + n, b""))
    job.switch.nothing_astray()


def _frame(job: Job, who: int, number: int, codes: Sequence[int]) -> bytes:
    """A gradient's frame, without a UDP checksum."""
    row = (GRADIENT, 0, job.number, 0, number, place(number), 0, 1 << job.workers[who])
    return _head(job.ports[who]) + HEADER.pack(*row) + ROW.pack(*codes)


@functools.cache
def _head(port: int) -> bytes:
    """The bytes before the header. With scapy, thousands would take most of a check's time."""
    return bytes(agg(port, "switch", values=[0] * VALUES))[:AT_AGG]


def _compare(t: Bench, wanted: Sequence[tuple], data: bytes) -> None:
    """The sums of some pairs (kind, a, b, sum) with the values of a result."""
    if len(data) != ROW.size:
        raise Failure("a complete sum does not reach the first worker as eight values")
    for (kind, a, b, right), value in zip(wanted, ROW.unpack(data), strict=True):
        if value != right:
            t.case = str(kind.__doc__).partition(".")[0].lower()
            text = shown(value) if value < 1 << 16 else f"{value:#010x}"
            raise Failure(
                f"{shown(a)} + {shown(b)}: expected {shown(right)}, got {text}",
                details=[str(kind.__doc__)],
                case="a sum of two numbers is wrong",
            )


@LAB.check(15, "The sum of two numbers is rounded to the nearest, ties to even")
def adder(t: Bench) -> None:
    add_pairs(t, start(t, False, 2), ORDINARY, 192)


@LAB.check(10, "Subnormal numbers, zeros, infinities and NaN are as IEEE 754 says")
def corners(t: Bench) -> None:
    add_pairs(t, start(t, False, 2), CORNERS, 256)


@LAB.check(5, "A sum is rounded with each packet, so the order of arrival decides its bits")
def arrival(t: Bench) -> None:
    bits, values, rng = 0, 0, t.random
    for first in (0, None):
        job, fragment = start(t, False, rng.randrange(3, 7), first), 0
        for _ in range(4):
            exponent = rng.randrange(20, 230)
            size = [exponent << 7] * VALUES
            rows = [[code + rng.getrandbits(10) | rng.getrandbits(1) << 15 for code in size]]
            rows += [[code + rng.getrandbits(10) for code in size] for _ in job.workers[1:]]
            seen = []
            for _ in range(3):
                job.whole(rows, fragment, 0, "rounded sums, in the order of arrival")
                seen.append(job.model.sets[place(job.first + fragment)].values)
                fragment += 1
            values += len(seen[0])
            bits += sum((a ^ b).bit_count() for a, b in zip(seen[0], seen[1], strict=True))
    t.note(f"two orders of arrival: {bits} bits of {values} sums differ")


@LAB.check(10, "An exact job's sums are the same bits in every order")
def orders(t: Bench) -> None:
    rng = t.random
    for first in (0, None):
        job, fragment = start(t, True, rng.randrange(2, 7), first), 0
        for _ in range(8):
            base, count = job.draw_base(), len(job.ports)
            made = [draw_fitting(rng, base, count) for _ in range(VALUES)]
            if base + 24 < 255:  # the smallest int32, which fits
                smallest = nearest(-1 << base + 30)
                made[rng.randrange(VALUES)] = rng.sample([smallest, *[0] * (count - 1)], count)
            rows = columns(made)
            for _ in range(3):
                job.whole(rows, fragment, base, "the exact sum, rounded once")
                fragment += 1


def rounding_column(rng: random.Random, name: str, base: int, workers: int) -> list[int]:
    """Numbers of three workers or more whose exact sum is a corner of rounding."""
    sign, cut = rng.choice((-1, 1)), rng.randrange(rng.choice((1, 17)), 24)
    high, half = rng.randrange(128, 256) << cut, 1 << cut - 1
    units = [high, -high]
    if name == "zeros":
        return [rng.getrandbits(1) << 15 for _ in range(workers)]
    if name == "a tie":
        units = [high, half]
    elif name == "nearly a tie":
        units = [high, half, rng.choice((-1, 1)) << rng.choice((0, rng.randrange(cut)))]
    elif name == "a small sum":
        units = [rng.randrange(-127, 128), rng.randrange(-127, 128)]
    elif name == "close to infinity" and 232 <= base <= 246:
        step = 1 << 254 - base
        units = [255 * step, rng.choice((step >> 1, (step >> 1) - (step >> 8), 128 * step))]
    units += [0] * (workers - len(units))
    codes = [nearest(sign * each << base - 1) for each in units]
    return rng.sample([code if is_finite(code) else 0 for code in codes], workers)


ROUNDINGS = (
    "a tie",
    "nearly a tie",
    "a sum that cancels",
    "a small sum",
    "zeros",
    "close to infinity",
)


@LAB.check(5, "An exact sum is rounded once: ties to even, subnormal numbers, infinity")
def rounding(t: Bench) -> None:
    rng = t.random
    job = start(t, True, rng.randrange(3, 6))
    names = [*ROUNDINGS, *ROUNDINGS[:2]] * 6
    for fragment, name in enumerate(rng.sample(names, len(names))):
        base = rng.randrange(232, 247) if "infinity" in name else job.draw_base()
        t.case = f"{name}, base {'below 8' if base < 8 else 'above 231' if base > 231 else 'any'}"
        made = [rounding_column(rng, name, base, len(job.ports)) for _ in range(VALUES)]
        job.whole(columns(made), fragment, base, f"{name}: the exact sum, rounded once")


@LAB.check(10, "What does not fit goes to the server, and so does all that follows")
def spills(t: Bench) -> None:
    rng = t.random
    job = start(t, True, rng.randrange(4, 7))
    for fragment, reason in enumerate((*REASONS, "a sum that leaves int32")):
        # With a large base a number with this exponent would fit.
        base = rng.randrange(232, MOST + 1) if reason in REASONS[2:] else rng.randrange(20, 200)
        t.case = reason
        rows = columns([draw_fitting(rng, base, len(job.ports)) for _ in range(VALUES)])
        at, place_of = rng.randrange(VALUES), rng.randrange(len(rows))
        if reason in REASONS:
            rows[place_of][at] = draw_spilling(rng, base, reason)
        else:
            for row, code in zip(rows, _leaves(base, len(rows)), strict=True):
                row[at] = code
        sent = [job.message(who, row, fragment, base) for who, row in enumerate(rows)]
        outside = job.packet(job.ports[place_of], sent[place_of])
        outside[Agg].slot = SLOTS | rng.getrandbits(1) << 15
        why = "what is outside of the pool is for nobody, also if it does not fit"
        job.switch.expect(job.ports[place_of], outside, {}, why)
        for who in job.order():
            job.meets(job.ports[who], sent[who], reason, PASSED)
        for who in job.order():
            t.case = f"{reason}: a copy when the server adds"
            job.meets(job.ports[who], sent[who], t.case, PASSED)
        result = Message(RESULT, 0, job.first + fragment, base, job.everyone, totals(rows))
        t.case = f"{reason}: a result that is not from the server's port"
        job.meets(job.ports[0], result, t.case, PASSED)
        t.case = f"{reason}: the server's result"
        job.meets(job.server, result, t.case, PASSED)
        t.case = f"{reason}: the server's result again"
        job.meets(job.server, result, t.case, PASSED)
        for who in job.order():
            t.case = f"{reason}: a copy when the result is here"
            job.meets(job.ports[who], sent[who], t.case, PASSED)


def _leaves(base: int, workers: int) -> list[int]:
    """Numbers that fit, whose sum does not: it is one too large."""
    units = [255 << 23, 255 << 15, 255 << 7, 128, *[0] * (workers - 4)]
    return [nearest(each << base - 1) for each in units]


@LAB.check(10, "Copies, late packets and strangers change nothing")
def histories(t: Bench) -> None:
    """A switch with a job of each kind, packet by packet against a model."""
    rng, job = t.random, start(t, True, t.random.randrange(4, 6))
    jobs = [job, start(t, False, rng.randrange(2, 4), beside=job)]
    slots = draw_slots(rng, SLOTS, 4)
    streams = [Stream(each, slots.pop(), draw_numbers(rng)) for each in (job, job, *jobs[1:] * 2)]
    kinds = (0, REMINDER, NOTHING, RECEIPT, DATA, 7, 255)
    strange = Strangers(rng, kinds, [each.number for each in jobs], (GRADIENT, RESULT))
    for stream in streams:
        t.case = "a result that meets a free set"
        stream.meets(stream.result(), t.case)
    while left := [s for s in streams if s.turn < len(s.numbers)]:
        stream = rng.choice(left)
        own = stream.own
        waits = own.state == SPILLED and stream.turn not in ABANDONED and rng.random() < 0.3
        m = stream.result() if waits or rng.random() < 0.1 else stream.gradient()
        packet, port = stream.packet(m)
        name = "gradient" if m.kind == GRADIENT else "result"
        new = m.kind == GRADIENT and (m.number > own.number or not own.bitmap & m.bitmap)
        for what, data in strange.before(packet, new or waits):
            t.case = f"{what}, which looks like a {name}"
            stream.job.switch.expect(port, data, {}, "this is nothing for the switch")
        if m.kind == RESULT:
            t.case = "a result of another fragment"
            bit = rng.choice((31, 0, rng.randrange(32)))
            stream.meets(replace(m, number=m.number ^ 1 << bit), t.case, packet, port)
        state = ("free", "filling", "spilled", "done")[own.state]
        kind = "an exact" if stream.job.server else "a rounded"
        t.case = f"a {name} that meets a set of {kind} sum that is {state}"
        stream.meets(m, t.case, packet, port)
        stream.goes_on()


@dataclass
class Stream:
    """The packets for one slot, which fragments of a job use one after the other.

    Args:
        numbers: of the fragments, smaller ones first.
        turn: the place of the one that the workers are at.
        sent: their gradients of it.
    """

    job: Job
    slot: int
    numbers: list[int]
    turn: int = 0
    sent: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sent = self._sent()

    @property
    def place(self) -> int:
        return self.slot | self.turn % 2 << 15

    @property
    def own(self) -> Set:
        return self.job.model.sets.get(self.place, Set())

    def _sent(self) -> list[Message]:
        rng, job, count = self.job.t.random, self.job, len(self.job.ports)
        base = job.draw_base() if job.server else rng.randrange(256)
        if job.server:
            made = [self._column(base) for _ in range(VALUES)]
            if rng.random() < 0.3:
                made[rng.randrange(VALUES)] = draw_large(rng, base, count)
            if self.turn in ABANDONED or rng.random() < 0.3:
                column = made[rng.randrange(VALUES)]
                column[rng.randrange(count)] = draw_spilling(rng, base, rng.choice(REASONS))
        else:
            pairs = [rng.choice((*ORDINARY, *CORNERS))(rng) for _ in range(VALUES)]
            made = [[*pair, draw_code(rng)][:count] for pair in pairs]
        fields = enumerate(columns(made))
        sent = [job.message(who, row, 0, base) for who, row in fields]
        return [replace(m, number=self.numbers[self.turn]) for m in sent]

    def _column(self, base: int) -> list[int]:
        rng, count = self.job.t.random, len(self.job.ports)
        if rng.random() < 0.5:
            return draw_fitting(rng, base, count)
        return rounding_column(rng, rng.choice(ROUNDINGS), base, count)

    def gradient(self) -> Message:
        """A worker's, sometimes of an older fragment."""
        rng = self.job.t.random
        m = rng.choice(self.sent)
        if self.turn > 1 and rng.random() < 0.15:
            return replace(
                m, number=rng.choice((self.numbers[self.turn - 2], alike(rng, m.number)))
            )
        return m

    def result(self) -> Message:
        codes = [draw_code(self.job.t.random) for _ in range(VALUES)]
        bitmap = self.job.t.random.getrandbits(32)
        return Message(RESULT, 0, self.numbers[self.turn], self.sent[0].base, bitmap, codes)

    def packet(self, m: Message) -> tuple[Packet, int]:
        """A packet with any values in fields of no meaning, and the port at which it comes."""
        rng, job = self.job.t.random, self.job
        port = job.server if job.server and rng.random() < 0.7 else rng.choice(job.ports)
        if m.kind == GRADIENT:
            port = job.ports[[each.bitmap for each in self.sent].index(m.bitmap)]
        packet = dress(rng, job.packet(port, m), 0xFF, False)
        packet[Agg].slot = self.place
        return packet, port

    def meets(self, m: Message, what: str, packet: Packet | None = None, port: int = 0) -> None:
        if packet is None:
            packet, port = self.packet(m)
        packet[Agg].number = m.number
        self.job.meets(port, m, what, packet=packet)

    def goes_on(self) -> None:
        """The workers may send the next fragment, mostly when they have the result."""
        own = self.own
        ends = own.state == DONE and own.number == self.numbers[self.turn]
        early = 0.5 if own.state == SPILLED and self.turn in ABANDONED else 0.01
        if self.job.t.random.random() < (0.3 if ends else early):
            self.turn += 1
            if self.turn < len(self.numbers):
                self.sent = self._sent()


def hard_columns(rng: random.Random) -> Iterator[list[int]]:
    """Numbers whose exact sum other ways of adding miss."""

    def code(exponent: int) -> int:
        return rng.getrandbits(1) << 15 | exponent << 7 | rng.getrandbits(7)

    for _ in range(40):
        high = rng.randrange(100, 250)
        tie = [high << 7 | rng.getrandbits(7), high - 8 << 7]
        yield [*tie, code(rng.randrange(1, high - 70))]  # a tie in 53 bits, and not one in all
        one = code(rng.randrange(180, 254))
        yield [one, code(rng.randrange(1, 90)), one ^ SIGN, code(0)]  # what is left is small
        yield [draw_code(rng) for _ in range(rng.randrange(2, 33))]
        yield [*ORDINARY[1](rng), *rng.choice(CORNERS)(rng)]
        yield list(rng.choice(CORNERS)(rng))
        yield [rng.getrandbits(1) << 15 for _ in range(3)]
        most = rng.choice((0x7F7F, 0xFF7F))
        yield [most, most, most ^ SIGN, code(rng.randrange(230, 250))]  # too large on its way


@LAB.check(5, "A server's sum is exact, and rounded once")
def exact_sums(t: Bench) -> None:
    p = t.python()
    for drawn in hard_columns(t.random):
        codes = t.random.sample(drawn, len(drawn))
        got = p.function("total", codes)
        if type(got) is not int or got != total(codes):
            made = shown(got) if type(got) is int and 0 <= got < 1 << 16 else repr(got)[:80]
            numbers = ", ".join(map(shown, codes[:6])) + (", ..." if len(codes) > 6 else "")
            text = f"total of {numbers}: expected {shown(total(codes))}, got {made}"
            raise Failure(text, case="a sum of a server is wrong")


@LAB.check(5, "A server adds each worker once, and answers copies of a complete fragment")
def serves(t: Bench) -> None:
    p, rng = t.python(), t.random
    bits = [1 << bit for bit in draw_bits(t, rng.randrange(2, 7))]
    server = p.make("Server", sum(bits))
    numbers = [*rng.sample(range(20), 4), 1 << 31, (1 << 32) - 1]
    rows = {n: [[draw_code(rng) for _ in range(VALUES)] for _ in bits] for n in numbers}
    sent = [(n, who) for n in numbers for who in range(len(bits)) for _ in range(3)]
    here: dict[int, set[int]] = {n: set() for n in numbers}
    for n, who in rng.sample(sent, len(sent)):
        here[n].add(who)
        complete = len(here[n]) == len(bits)
        want = totals(rows[n]) if complete else None
        _answered(p.method(server, "take", n, bits[who], rows[n][who]), want, len(here[n]))


def _answered(got: object, want: list[int] | None, there: int) -> None:
    if got != want or want is not None and type(got) is not list:
        what = "None" if want is None else ", ".join(map(shown, want))
        text = f"with {there} workers' gradients, take() should return {what}, and not {got!r:.200}"
        raise Failure(text, case="a server's answer is wrong")


@LAB.check(5, "Over links with losses each worker gets the exact sums, whoever adds", virtual=True)
def network(t: Bench) -> None:
    rng = t.random
    job = start(t, True, rng.randrange(3, 6))
    base = rng.randrange(20, 200)
    fragments = 5 * SLOTS
    rows = []
    for _ in range(fragments):
        made = [draw_fitting(rng, base, len(job.ports)) for _ in range(VALUES)]
        if rng.random() < 0.3:
            column = made[rng.randrange(VALUES)]
            column[rng.randrange(len(column))] = draw_spilling(rng, base, rng.choice(REASONS))
        rows.append(columns(made))
    exchange(t, job, rows, base)
