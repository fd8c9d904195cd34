"""The numbers of lab 19, and a model of its switch, with which packets are compared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from labs.grader.histories import Message, Set
from labs.grader.packets import GRADIENT, RESULT

INFINITY, NAN, SIGN = 0x7F80, 0x7FC0, 0x8000
LEAST, MOST = 1, 254  # of the field `priority`
LARGEST = (1 << 31) - 1  # units in a set
OVERFLOW = 16  # flag
FREE, FILLING, SPILLED, DONE = range(4)
NOWHERE, BACK, SERVER, EVERYONE = "nothing", "to the sender", "to the server", "to all workers"


def whole(code: int) -> int:
    """A finite bf16 as a multiple of the smallest one, which is 2^-133."""
    exponent, size = code >> 7 & 0xFF, code & 127
    size = size if exponent == 0 else 128 + size << exponent - 1
    return -size if code & SIGN else size


def nearest(multiple: int) -> int:
    """The bf16 next to a multiple of 2^-133, the even one of two; infinity behind the largest."""
    size, sign = abs(multiple), (multiple < 0) << 15
    cut = size.bit_length() - 8
    if cut > 0:
        rest, half = size & (1 << cut) - 1, 1 << cut - 1
        size >>= cut
        size += rest > half or rest == half and size & 1
        size += cut << 7
    return sign | min(size, INFINITY)


def is_finite(code: int) -> bool:
    return code & INFINITY != INFINITY


def added(a: int, b: int) -> int:
    """The sum of two bf16 as IEEE 754 says; any NaN is 0x7fc0."""
    if not (is_finite(a) and is_finite(b)):
        return total([a, b])
    exact = whole(a) + whole(b)
    return nearest(exact) if exact else a & b & SIGN


def total(codes: Sequence[int]) -> int:
    """The exact sum of bf16 numbers, rounded once; an exact zero has no sign."""
    ends = {code for code in codes if not is_finite(code)}
    if ends:
        return ends.pop() if ends in ({INFINITY}, {INFINITY | SIGN}) else NAN
    return nearest(sum(map(whole, codes)))


def totals(rows: Sequence[Sequence[int]]) -> list[int]:
    return [total(column) for column in zip(*rows, strict=True)]


def to_units(code: int, base: int) -> int | None:
    """A bf16 as a number of units of 2^(base - 134); None: it does not fit."""
    if not is_finite(code):
        return None
    units, rest = divmod(whole(code), 1 << base - 1)
    return units if rest == 0 and -LARGEST - 1 <= units <= LARGEST else None


def codes_of(m: Message) -> list[int]:
    """The numbers of a gradient, which are in the lower halves of its values."""
    return [value & 0xFFFF for value in m.values]


def shown(code: int) -> str:
    """A bf16 as students see it: code and value."""
    if not is_finite(code):
        value = "NaN" if code & 127 else "-infinity" if code & SIGN else "infinity"
    else:
        value = "-0" if code == SIGN else f"{whole(code) / 2**133:.6g}"
    return f"{code:#06x} ({value})"


def draw_code(rng: random.Random) -> int:
    """A finite bf16 of any exponent; one of ten subnormal or a zero."""
    exponent = 0 if rng.random() < 0.1 else rng.randrange(1, 255)
    fraction = 0 if rng.random() < 0.1 else rng.getrandbits(7)
    return rng.getrandbits(1) << 15 | exponent << 7 | fraction


def draw_fitting(rng: random.Random, base: int, workers: int) -> list[int]:
    """A bf16 of each worker, some of them zeros. In every order each sum of them fits."""
    made: list[int] = []
    while len(made) < workers:
        exponent = base + rng.choice((rng.randrange(-7, 24), rng.randrange(10)))
        if rng.random() < 0.1 or not 0 <= exponent < 255:
            made.append(rng.getrandbits(1) << 15)
            continue
        cut = max(base - max(exponent, 1), 0)
        code = rng.getrandbits(1) << 15 | exponent << 7 | rng.getrandbits(7) >> cut << cut
        units = to_units(code, base)
        if units is not None and abs(units) <= LARGEST // workers:
            made.append(code)
    return made


REASONS = ("below a unit", "above the range", "infinity", "NaN")


def draw_spilling(rng: random.Random, base: int, reason: str) -> int:
    """A bf16 that does not fit into a set, whatever is there; infinity if there is none for this
    reason with this base."""
    sign, exponent, fraction = rng.getrandbits(1) << 15, 255, rng.getrandbits(7)
    if reason == "below a unit" and base > 1:
        exponent = rng.choice((base - 1, max(base - rng.randrange(1, 12), 0), rng.randrange(base)))
        below = base - max(exponent, 1)
        zeros = rng.randrange(min(below, 7))
        fraction = (fraction >> zeros | 1) << zeros
        if below > 7 and exponent and rng.random() < 0.3:
            fraction = 0
    elif reason == "above the range" and base + 24 < 255:
        exponent = rng.choice((base + 24, rng.randrange(base + 24, 255), 254))
        fraction |= sign > 0 and exponent == base + 24  # -2^31 units fit
    elif reason == "NaN":
        fraction = fraction or 64
    else:
        fraction = 0
    return sign | exponent << 7 | fraction


def draw_large(rng: random.Random, base: int, workers: int) -> list[int]:
    """A bf16 of each worker, four or more, which fit, and whose sums are near the ends of int32 or
    behind them."""
    kind = rng.randrange(4)
    if kind < 2:  # 2^31 - 1 or up to 2 more, of any sign
        units = [*(255 << cut for cut in (23, 15, 7)), 127 + rng.randrange(3)]
        sign = rng.choice((1, -1))
        units = [sign * each for each in units]
    elif kind == 2:  # the smallest alone, or with 1 more or less
        units = [-1 << 31, rng.randrange(-1, 2)]
    else:
        units = [rng.choice((-1, 1)) * rng.randrange(128, 256) << 23 for _ in range(4)]
    units += [0] * (workers - len(units))
    codes = [nearest(each << base - 1) for each in units]
    return rng.sample([code if is_finite(code) else 0 for code in codes], workers)


class FloatSwitch:
    """A switch with one job.

    Args:
        everyone: the bitmap of its workers.
        server: port of an exact job's server; 0: the job adds in the order of arrival.
    """

    def __init__(self, everyone: int, server: int = 0) -> None:
        self.everyone, self.server = everyone, server
        self.sets: dict[int, Set] = {}

    def take(self, port: int, slot: int, m: Message) -> tuple[str, Message | None]:
        """A message comes at a port; the place to which one leaves for it, and that message."""
        own = self.sets.setdefault(slot, Set())
        if m.kind == RESULT and own.state == SPILLED and own.number == m.number:
            if port != self.server:
                return NOWHERE, None
            own.state, own.values = DONE, m.values
            return EVERYONE, self._result(m, own)
        if m.kind != GRADIENT or own.state != FREE and m.number < own.number:
            return NOWHERE, None
        if own.state == FREE or m.number > own.number:
            own.state, own.number, own.bitmap, own.values = FILLING, m.number, 0, []
        if own.state == DONE:
            return BACK, self._result(m, own)
        if own.state == FILLING:
            if own.bitmap & m.bitmap:
                return NOWHERE, None
            add = self._exact if self.server else self._in_order
            if add(own, m):
                own.bitmap |= m.bitmap
                if own.bitmap != self.everyone:
                    return NOWHERE, None
                own.state = DONE
                if self.server:
                    own.values = [nearest(units << m.base - 1) for units in own.values]
                return EVERYONE, self._result(m, own)
            own.state = SPILLED
        return SERVER, replace(m, flags=m.flags | OVERFLOW)

    def _result(self, m: Message, own: Set) -> Message:
        return replace(m, kind=RESULT, flags=0, bitmap=self.everyone, values=own.values)

    def _in_order(self, own: Set, m: Message) -> bool:
        pairs = zip(own.values, codes_of(m), strict=True) if own.values else ()
        own.values = [added(a, b) for a, b in pairs] or codes_of(m)
        return True

    def _exact(self, own: Set, m: Message) -> bool:
        units = [to_units(code, m.base) for code in codes_of(m)]
        old = own.values or [0] * len(units)
        new = [None if u is None else o + u for o, u in zip(old, units, strict=True)]
        fitting = [n for n in new if n is not None and -LARGEST - 1 <= n <= LARGEST]
        if len(fitting) < len(new):
            return False
        own.values = fitting
        return True
