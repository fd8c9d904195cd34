"""Tables of lossless links: who was paused by whom for whose port, and how full buffers were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from p4fabric.base import units
from p4fabric.base.text_table import Column, Row, Table

if TYPE_CHECKING:
    from testbed.results import Results

MOST = 24  # rows that are printed, those with the longest pauses

PAUSES = (
    Column("neighbour", "paused", words=True),
    Column("switch", "by", words=True),
    Column("cause", "for the\nport to", words=True),
    Column("pauses", "pauses", units.number, "count"),
    Column("paused_ns", "together", units.time, "ns"),
    Column("longest_ns", "longest", units.time, "ns"),
)
BUFFERS = (
    Column("switch", "switch", words=True),
    Column("neighbour", "from", words=True),
    Column("peak_bytes", "most in\nbuffer", units.size, "bytes"),
    Column("headroom_peak_bytes", "of that in\nheadroom", units.size, "bytes"),
    Column("headroom_bytes", "headroom", units.size, "bytes"),
    Column("paused_ns", "was paused\nby it", units.time, "ns"),
    Column("drops", "dropped", units.number, "count"),
    Column("unknown", "unknown\npauses", units.number, "count"),
)


def pauses(results: Results) -> Table:
    """Pauses of senders by switch and cause, all repetitions together, longest first."""
    found = results.pauses
    keys = ["neighbour", "switch", "cause"]
    how = {"pauses": "sum", "paused_ns": "sum", "longest_ns": "max"}
    summed = found.fillna({"cause": "?"}).groupby(keys, as_index=False).agg(how)
    summed = summed.sort_values("paused_ns", ascending=False, kind="stable").head(MOST)
    rows = [Row([row[column.key] for column in PAUSES]) for _, row in summed.iterrows()]
    return Table("pauses", "Pauses of lossless links", PAUSES, rows)


def buffers(results: Results) -> Table:
    """The buffer by port, greatest use of all repetitions, fullest first; the title says whether
    anything was lost."""
    found = results.buffers
    sums = ("paused_ns", "drops", "unknown")
    how = {each.key: "sum" if each.key in sums else "max" for each in BUFFERS[2:]}
    summed = found.groupby(["switch", "neighbour"], as_index=False, sort=False).agg(how)
    lost = int(summed["drops"].sum())
    said = "nothing was dropped" if not lost else f"NOT lossless: {lost} packets dropped"
    summed = summed.sort_values("peak_bytes", ascending=False, kind="stable").head(MOST)
    rows = [Row([row[column.key] for column in BUFFERS]) for _, row in summed.iterrows()]
    return Table("buffers", f"Buffers of lossless links ({said})", BUFFERS, rows)
