"""Lab 19: the server of an exact job. Numbers are codes of bf16, integers below 2^16."""

from __future__ import annotations

INFINITY, NAN, SIGN = 0x7F80, 0x7FC0, 0x8000


def total(codes: list[int]) -> int:
    """The exact sum of bf16 numbers, rounded once."""
    special = {code for code in codes if code & INFINITY == INFINITY}
    if special:
        return special.pop() if special in ({INFINITY}, {INFINITY | SIGN}) else NAN
    units = sum(_units(code) for code in codes)
    return _rounded(abs(units)) | (units < 0) << 15


def _units(code: int) -> int:
    """A finite number as a multiple of the smallest subnormal one."""
    exponent, size = code >> 7 & 0xFF, code & 0x7F
    size = size | 0x80 if exponent else size
    size <<= max(exponent, 1) - 1
    return -size if code & SIGN else size


def _rounded(size: int) -> int:
    cut = max(size.bit_length() - 8, 0)
    high, rest, half = size >> cut, size & (1 << cut) - 1, 1 << cut >> 1
    high += rest > half or rest == half > 0 and high & 1
    return min((cut << 7) + high, INFINITY)


class Server:
    """Adds up the fragments that a switch could not."""

    def __init__(self, everyone: int) -> None:
        """`everyone`: the bitmap of all workers of the job."""
        self.everyone = everyone
        self.sent: dict[int, dict[int, list[int]]] = {}

    def take(self, number: int, bitmap: int, values: list[int]) -> list[int] | None:
        """A worker's gradient of a fragment; the result, if all workers' gradients are here."""
        fragment = self.sent.setdefault(number, {})
        fragment.setdefault(bitmap, values)
        if sum(fragment) != self.everyone:
            return None
        return [total(list(column)) for column in zip(*fragment.values(), strict=True)]
