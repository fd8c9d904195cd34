"""The numbers of lab 18, and a model of a switch of a tree, with which packets are compared."""

from __future__ import annotations

import random
from collections.abc import Sequence

from labs.grader.histories import Message, Set
from labs.grader.packets import GRADIENT, REMINDER, RESULT, wrapped
from labs.grader.slots import place

PARTIAL, RESEND = 1, 4  # flags
LEAST, MOST = 8, 220  # of the field `priority`
REACH = 18  # by so much a value's exponent may be larger
END = 32 * 255 << REACH  # the largest sum
FREE, FILLING, SENT, DONE = range(4)
UP, BACK, DOWN = "to the parent", "to the sender", "to all children"


def to_fixed(code: int, base: int) -> int:
    """A bf16 in units of the value 2^(base - 134); what is below a unit is cut off."""
    exponent, size = code >> 7 & 0xFF, 128 | code & 127
    size = size << exponent - base if exponent >= base else size >> base - exponent
    return -size if code >> 15 else size


def to_bf16(units: int, base: int) -> int:
    """The bf16 next to a number of units, an even one if two are."""
    size = abs(units)
    if size == 0:
        return 0
    cut = size.bit_length() - 8
    if cut > 0:
        half, rest = 1 << cut - 1, size & (1 << cut) - 1
        size >>= cut
        size += rest > half or rest == half and size & 1
    else:
        size <<= -cut
    return ((base + cut - 1) << 7) + size | (units < 0) << 15


def ordinary(units: int) -> bool:
    """Neither 0 nor exactly between two bf16, which only the test of rounding is about."""
    cut = abs(units).bit_length() - 8
    return units != 0 and (cut <= 0 or abs(units) & (1 << cut) - 1 != 1 << cut - 1)


def draw_codes(rng: random.Random, base: int, hosts: int, values: int) -> list[list[int]]:
    """Values of some hosts, as bf16, whose sums are ordinary."""
    columns: list[list[int]] = []
    while len(columns) < values:
        reach = rng.choice((2, REACH))  # in the sum of small values those below a unit count
        column = [draw_code(rng, base, reach) for _ in range(hosts)]
        if ordinary(sum(to_fixed(code, base) for code in column)):
            columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


def draw_code(rng: random.Random, base: int, reach: int = REACH) -> int:
    """A bf16 that hosts may send: of any size, also below a unit; sometimes a zero. Its exponent is
    up to `reach` larger than the base."""
    sign, fraction, some = rng.getrandbits(1) << 15, rng.getrandbits(7), rng.random()
    if some < 0.1:
        return sign | (fraction if rng.random() < 0.5 else 0)
    least = 1 if some < 0.2 else base - min(base - 1, 10)  # so small that a shift has eight bits
    return sign | rng.randrange(least, base + reach + 1) << 7 | fraction


def draw_units(rng: random.Random) -> int:
    """A sum at a corner: between two bf16 or beside that, before the next power of two, 0, or as
    large as 32 hosts can make it."""
    cut = rng.randrange(rng.choice((1, 17)), 24)
    size = rng.choice((rng.randrange(128, 256), 128, 255)) << cut  # a bf16
    half, beside = 1 << cut - 1, rng.choice((0, 1, 1 << rng.randrange(cut)))
    size = min(size + half + rng.choice((-1, 1)) * beside, END)
    return rng.choice((-1, 1)) * (size if rng.random() < 0.9 else rng.choice((0, END)))


def total(rows: Sequence[Sequence[int]], base: int) -> list[int]:
    """The sum of rows of bf16 as units."""
    return [sum(to_fixed(code, base) for code in column) for column in zip(*rows, strict=True)]


def rounded(units: Sequence[int], base: int) -> list[int]:
    return [to_bf16(each, base) for each in units]


class TreeSwitch:
    """A switch of a tree.

    Args:
        everyone: the bitmap of its children.
        parent: port of its parent; 0: it is the root.
        bit: its own at its parent.
    """

    def __init__(self, everyone: int, parent: int = 0, bit: int = 0) -> None:
        self.everyone, self.parent, self.bit = everyone, parent, bit
        self.sets: dict[int, Set] = {}

    def take(self, port: int, m: Message, slot: int | None = None) -> tuple[str, Message | None]:
        """Messages that leave for a packet from a port, with their ports. `slot`: the field, if it
        is not the number's place."""
        own = self.sets.setdefault(place(m.number) if slot is None else slot, Set())
        if m.kind == GRADIENT and (own.state == FREE or m.number >= own.number):
            if own.state == FREE or m.number > own.number:
                own.state, own.number, own.bitmap = FILLING, m.number, 0
            return self._gradient(m, own)
        if own.state == FREE or m.number != own.number:
            return "", None
        ends = own.state == SENT and port == self.parent
        if m.kind == RESULT and (ends or own.state == FILLING and not self.parent):
            own.state, own.values = DONE, m.values
            return DOWN, self._result(m, own)
        if m.kind == REMINDER and port == self.parent and own.state >= SENT:
            sent = own.state == SENT
            return UP, self._partial(m, own, 0) if sent else self._result(m, own)
        return "", None

    def _gradient(self, m: Message, own: Set) -> tuple[str, Message | None]:
        if own.state == DONE:
            return BACK, self._result(m, own)
        if own.state == SENT:
            return UP, self._partial(m, own, RESEND)
        if not own.bitmap & m.bitmap:
            part = [v if m.flags & PARTIAL else to_fixed(v, m.base) for v in m.values]
            old = own.values if own.bitmap else [0] * len(part)
            own.values = [wrapped(a + b) for a, b in zip(old, part, strict=True)]
            own.bitmap |= m.bitmap
        if own.bitmap == self.everyone:
            if self.parent:
                own.state = SENT
                return UP, self._partial(m, own, 0)
            own.state, own.values = DONE, rounded(own.values, m.base)
            return DOWN, self._result(m, own)
        if m.flags & (PARTIAL | RESEND) == PARTIAL | RESEND:
            return DOWN, Message(REMINDER, m.flags, m.number, m.base, m.bitmap, [])
        return "", None

    def _result(self, m: Message, own: Set) -> Message:
        return Message(RESULT, 0, m.number, m.base, self.everyone, own.values)

    def _partial(self, m: Message, own: Set, more: int) -> Message:
        return Message(GRADIENT, PARTIAL | more, m.number, m.base, self.bit, own.values)
