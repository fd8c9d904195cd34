"""Random numbers of a job mix, by integer arithmetic alone, so that they are equal everywhere.

A *stream* is a splitmix64 generator (Steele, Lea, Flood 2014) whose start is a hash of a seed and
of what the numbers are for; streams of other purposes and seeds have nothing to do with each other.
Python's own generators would do for whole numbers, but their exponential draws call the machine's
logarithm, whose last digit differs from library to library.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from itertools import accumulate

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
# ln 2 and the bits of a fixed-point logarithm.
_DIGITS = 40  # of decimal arithmetic
_BITS = 48
_LN2 = 195_103_586_505_167  # round(ln 2 x 2^48)


class Stream:
    """Uniform 64-bit numbers; what else is drawn is made of them."""

    def __init__(self, seed: int, *purpose: int) -> None:
        """`purpose`: numbers that tell this stream from the others of the same seed."""
        self._state = 0
        for part in (seed, *purpose):
            self._state = _mixed((self._state + part + _GAMMA) & _MASK)

    def bits(self) -> int:
        """The next number, 0 to 2^64 - 1."""
        self._state = (self._state + _GAMMA) & _MASK
        return _mixed(self._state)

    def below(self, bound: int) -> int:
        """A whole number from 0 to bound - 1, all equally likely but for 2^-64 x bound."""
        return self.bits() * bound >> 64

    def weighted(self, weights: Sequence[int]) -> int:
        """A place in `weights`, each as likely as its weight says; weights are whole, not all 0."""
        sums = [*accumulate(weights)]
        return bisect_right(sums, self.below(sums[-1]))

    def sample(self, things: Sequence[str], count: int) -> list[str]:
        """`count` of the things, in random order."""
        left = list(things)
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def pareto(self, low: int, high: int, tail: float) -> int:
        """A whole number from `low` to `high` (both at least 1), from the bounded Pareto
        distribution with exponent `tail` on `low` to `high` + 1, rounded down; 0: log-uniform.

        By inversion, in decimal arithmetic, whose exponential and logarithm are rounded correctly
        and so are equal on every machine."""
        with localcontext(Context(prec=_DIGITS)):
            share = Decimal(self.bits()) / (1 << 64)
            span = (Decimal(high + 1) / low).ln()
            exponent = Decimal(repr(tail))
            if exponent:
                left = 1 - share * (1 - (-exponent * span).exp())
                grown = -left.ln() / exponent
            else:
                grown = share * span
            return min(int(low * grown.exp()), high)

    def exponential(self, mean: int) -> int:
        """A whole number drawn from the exponential distribution with this mean, rounded down."""
        return mean * -_log_share((self.bits() >> 11) + 1, 53) >> _BITS


def _mixed(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


def _log_share(numerator: int, bits: int) -> int:
    """ln(numerator / 2^bits) with _BITS bits behind the point, for 1 <= numerator <= 2^bits.

    Binary logarithm by squaring: a square above 2 is a bit of the result."""
    whole = numerator.bit_length() - 1
    part = numerator << 64 >> whole  # 1 to 2, with 64 bits behind the point
    log2 = whole - bits
    for _ in range(_BITS):
        part = part * part >> 64
        log2 <<= 1
        if part >> 65:
            part >>= 1
            log2 += 1
    return log2 * _LN2 >> _BITS
