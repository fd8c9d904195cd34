"""The tables of `ina recording` for a recorded program: its groups and calls, its ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from p4fabric.base import units
from p4fabric.base.text_table import Column, Row, Table

from testbed.collective_kinds import COLLECTIVES
from testbed.traffic.rank_counts import given, work_of
from testbed.traffic.rank_graph import GroupRoute, Program

_CALLS = (
    Column("group", "group", words=True),
    Column("ranks", "ranks", words=True),
    Column("operation", "operation", words=True),
    Column("dtype", "type", words=True),
    Column("calls", "calls", units.number),
    Column("bytes", "bytes", units.number, "bytes"),
)
_RANKS = (
    Column("rank", "rank"),
    Column("compute_ns", "computation", units.time, "ns"),
    Column("collectives", "collectives", units.number),
    Column("sends", "sends", units.number),
    Column("bytes", "bytes", units.number, "bytes"),
)


def title(program: Program) -> str:
    """One line about a program."""
    about = program.about
    source = f"recorded from {about['script']}, " if "script" in about else ""
    torch = f"PyTorch {about['torch']}, " if "torch" in about else ""
    device = f"{about['device']}, " if "device" in about else ""
    size = len(program.ranks)
    return f"{source}{torch}{device}{size} rank{'s' if size > 1 else ''}"


def tables(program: Program) -> Iterator[Table]:
    """Tables of the groups and of the ranks. The calls and bytes of a group are those of all
    its ranks."""
    calls: Counter[tuple[GroupRoute, str, str]] = Counter()
    sizes: Counter[tuple[GroupRoute, str, str]] = Counter()
    for totals, of_ranks in zip((calls, sizes), given(program), strict=True):
        for (route, _, kind, dtype), count in of_ranks.items():
            totals[route, kind, dtype] += count
    ranks = [Row((rank, *work_of(nodes))) for rank, nodes in enumerate(program.ranks)]

    def order(key: tuple[GroupRoute, str, str]) -> tuple:  # large groups first
        members = program.groups.get(key[0].group, ())
        return -len(members), members, key

    rows = []
    for key in sorted(calls, key=order):
        route, kind, dtype = key
        members = program.groups.get(route.group, ())
        # All ranks of a group make a collective together.
        count = calls[key] // len(members) if kind in COLLECTIVES else calls[key]
        shown = ", ".join(map(str, members[:8])) + (", ..." if len(members) > 8 else "")
        rows.append(Row((str(route) or "all", shown, kind, dtype, count, sizes[key])))
    yield Table("calls", "Calls, and the bytes of all ranks", _CALLS, rows)
    yield Table("ranks", "Ranks", _RANKS, ranks)
