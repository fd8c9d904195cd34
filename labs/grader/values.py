"""Values for packets, and their sums: what checks of labs 3 to 6 send and expect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from testbed.labs.grader.bench import Bench
from testbed.labs.grader.packets import wrapped


def numbers(t: Bench, count: int, bits: int = 24) -> list[int]:
    """`count` random values below 2^bits in size."""
    return [t.random.randrange(-(1 << bits), 1 << bits) for _ in range(count)]


def total(parts: Iterable[Sequence[int]]) -> list[int]:
    """The sum at each position, as int32."""
    return [wrapped(sum(column)) for column in zip(*parts, strict=True)]
