"""Pairs of bf16 numbers that are hard to add, by what is hard about them."""

from __future__ import annotations

import random

from labs.lab19_floats.model import INFINITY, SIGN

LARGEST = 0x7F7F  # the largest finite number


def _code(exponent: int, fraction: int, sign: int = 0) -> int:
    return sign << 15 | exponent << 7 | fraction


def alike(rng: random.Random) -> tuple[int, int]:
    """Numbers of about the same size."""
    exponent = rng.randrange(12, 243)
    other = exponent + rng.randrange(-10, 11)
    return _code(exponent, *_rest(rng)), _code(other, *_rest(rng))


def _rest(rng: random.Random) -> tuple[int, int]:
    return rng.getrandbits(7), rng.getrandbits(1)


def tie(rng: random.Random) -> tuple[int, int]:
    """The sum is exactly between two numbers."""
    exponent, (fraction, sign) = rng.randrange(12, 250), _rest(rng)
    if rng.random() < 0.5:
        return _code(exponent, fraction or 1, sign), _code(exponent - 8, 0, rng.getrandbits(1))
    down = rng.randrange(1, 8)
    low = rng.getrandbits(7) >> down << down | 1 << down - 1
    return _code(exponent, fraction | 64, sign), _code(exponent - down, low, sign)


def nearly_tie(rng: random.Random) -> tuple[int, int]:
    """The sum is a little above or below the middle of two numbers."""
    exponent, (fraction, sign) = rng.randrange(12, 250), _rest(rng)
    low = rng.choice((_code(exponent - 8, 1 << rng.randrange(4)), _code(exponent - 9, 127)))
    return _code(exponent, fraction or 1, sign), low | rng.getrandbits(1) << 15


def power(rng: random.Random) -> tuple[int, int]:
    """A power of two, less a small number: the sum has a smaller exponent."""
    exponent, (fraction, sign) = rng.randrange(12, 250), _rest(rng)
    return _code(exponent, 0, sign), _code(exponent - rng.randrange(1, 12), fraction, 1 - sign)


def cancelled(rng: random.Random) -> tuple[int, int]:
    """Numbers of different sign whose leading bits are the same."""
    exponent, (fraction, sign) = rng.randrange(12, 250), _rest(rng)
    other = min(fraction + rng.randrange(4), 127)
    if rng.random() < 0.3:
        return _code(exponent, rng.randrange(3), sign), _code(exponent - 1, 127, 1 - sign)
    return _code(exponent, fraction, sign), _code(exponent, other, 1 - sign)


def carried(rng: random.Random) -> tuple[int, int]:
    """Rounding up gives a power of two."""
    exponent, (fraction, sign) = rng.randrange(12, 250), _rest(rng)
    return _code(exponent, 127, sign), _code(exponent - rng.randrange(7, 9), fraction, sign)


def apart(rng: random.Random) -> tuple[int, int]:
    """The smaller number is too small to count."""
    exponent = rng.randrange(70, 250)
    lower = rng.choice((exponent - rng.randrange(9, 70), rng.randrange(exponent - 9)))
    fraction = rng.choice((0, rng.getrandbits(7)))
    return _code(exponent, fraction, rng.getrandbits(1)), _code(lower, *_rest(rng))


def subnormal(rng: random.Random) -> tuple[int, int]:
    """A subnormal number takes part, or is the sum."""
    low = _code(0, *_rest(rng))
    other = rng.choice((0, 0, 1, 1, 2, rng.randrange(3, 12)))
    return low if rng.random() < 0.7 else _code(1, *_rest(rng)), _code(other, *_rest(rng))


def zero(rng: random.Random) -> tuple[int, int]:
    """A zero takes part, or is the sum."""
    some = _code(rng.choice((0, rng.randrange(255))), *_rest(rng))
    zeros = rng.getrandbits(1) << 15, rng.getrandbits(1) << 15
    return rng.choice((zeros, (some, zeros[0]), (some, some ^ SIGN)))


def large(rng: random.Random) -> tuple[int, int]:
    """The sum is beyond the largest number, or just not."""
    sign = rng.getrandbits(1) << 15
    fraction = rng.getrandbits(7)
    near = rng.choice((0, 1, 127)) | rng.choice((246, 245, 247)) << 7
    other = rng.choice((near, 254 << 7 | fraction, 253 << 7 | fraction))
    return LARGEST - rng.choice((0, 0, 1, fraction)) | sign, other | sign


def special(rng: random.Random) -> tuple[int, int]:
    """An infinity or a NaN takes part."""
    sign, fraction = rng.getrandbits(1) << 15, rng.getrandbits(7)
    nan = sign | INFINITY | (fraction or 1)
    infinities = sign | INFINITY, rng.getrandbits(1) << 15 | INFINITY
    some = _code(rng.choice((0, 254, rng.randrange(255))), *_rest(rng))
    pairs = (infinities, infinities, (infinities[0], some), (nan, some), (nan, infinities[1]))
    return rng.choice(pairs)


ORDINARY = (alike, tie, nearly_tie, power, cancelled, carried, apart)
CORNERS = (subnormal, zero, large, special)
