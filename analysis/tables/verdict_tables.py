"""Tables that say how far a comparison can be trusted: what was tuned, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed import units
from testbed.analysis.data import tuned_data
from testbed.text_table import Column, Row, Table

if TYPE_CHECKING:
    from testbed.results import Results

TUNING = (
    Column("values", "tried", words=True),
    Column("jct_ns", "mean\nJCT", units.time, "ns"),
    Column("seeds", "seeds", unit="count"),
    Column("chosen", "chosen", lambda value: "yes" if value else ""),
    Column("error", "error", words=True),
)


def tuning(results: Results) -> Table | None:
    """The trials of what was tuned before a run, one row per combination; None: nothing was."""
    if not len(results.table("tuning")):
        return None
    found = tuned_data.curve(results)
    columns = [each for each in TUNING if each.key != "error" or found["error"].any()]
    keys = [column.key for column in columns]
    rows = [Row(values) for values in found[keys].itertuples(index=False, name=None)]
    return Table("tuning", "Tuning (seeds that are not reported)", columns, rows)
