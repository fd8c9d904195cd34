"""The tables of `ina import` and `ina workload`: what the ranks of a program do in an iteration."""

from __future__ import annotations

from collections.abc import Iterator

from p4fabric.base import units
from p4fabric.base.text_table import Column, Labelled, Row, Table, Value

from testbed.traffic.rank_counts import counts, works
from testbed.traffic.rank_graph import Program


def between(found: tuple[int, int]) -> Value:
    """A cell of the least and the most, or of one number if they are equal."""
    low, high = found
    return low if low == high else Labelled(f"{units.number(low)} to {units.number(high)}", high)


_CALLS = (
    Column("groups", "groups", words=True),
    Column("number", "number", units.number),
    Column("size", "ranks\nof each", units.number),
    Column("operation", "operation", words=True),
    Column("dtype", "type", words=True),
    Column("calls", "calls of\na group", units.number),
    Column("bytes", "bytes that\na rank gives", units.number, "bytes"),
)
_RANKS = (
    Column("ranks", "ranks", words=True),
    Column("compute_ns", "computation", units.time, "ns"),
    Column("collectives", "collectives", units.number),
    Column("sends", "sends", units.number),
    Column("bytes", "bytes", units.number, "bytes"),
)


def tables(program: Program) -> Iterator[Table]:
    """Calls by kind of group, and what the ranks do."""
    rows = [
        Row(
            (
                *(each.groups, each.number, each.ranks, each.kind, each.dtype),
                *(between(each.calls), between(each.bytes)),
            )
        )
        for each in counts(program)
    ]
    yield Table("calls", "Calls of an iteration", _CALLS, rows)
    ranks = [
        Row((_ranges(each.ranks), each.compute_ns, each.collectives, each.sends, each.bytes))
        for each in works(program)
    ]
    yield Table("ranks", "Ranks", _RANKS, ranks)


def _ranges(ranks: tuple[int, ...]) -> str:
    """Ranks as `0-3, 8`."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in parts[:6]]
    return ", ".join(shown) + (", ..." if len(parts) > 6 else "")
