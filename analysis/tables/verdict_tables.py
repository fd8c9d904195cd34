"""Tables that say how far a comparison can be trusted: what was tuned, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from p4fabric.base import units
from p4fabric.base.text_table import Column, Row, Table

from testbed.analysis.data import robust_data, tuned_data

if TYPE_CHECKING:
    from testbed.analysis.data.sweep_data import Sweep
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


def _times(value: float) -> str:
    return f"{value:.2f}x"


ROBUST = (
    Column("compared", "JCT of", words=True),
    Column("factor", "factor", words=True),
    Column("low", "lowest", _times),
    Column("low_at", "at", words=True),
    Column("high", "highest", _times),
    Column("high_at", "at", words=True),
    Column("verdict", "verdict", words=True),
)


def robust(sweep: Sweep) -> Table | None:
    """The range of each verdict over each factor, and the factors that were not varied; None where
    nothing was."""
    if sweep.robust is None:
        return None
    rows: list[Row] = []
    for verdict in robust_data.verdicts(sweep):
        own = ["nothing changed", verdict.base, "", verdict.base, "", ""]
        rows.append(Row([verdict.title, *own]))
        for factor, found in verdict.ratios.items():
            low, high = (pick(found, key=lambda each: each.ratio) for pick in (min, max))
            flips = "another one" if low.flips else "holds"
            ends = [low.ratio, low.run.text, high.ratio, high.run.text]
            rows.append(Row([verdict.title, factor, *ends, flips]))
    for factor, reason in sweep.robust.left_out:
        rows.append(Row(["", factor, *[""] * 4, f"not varied: {reason}"]))
    count, of = len(sweep.robust.compared), sweep.robust.comparisons
    which = "" if count == of else f" ({count} of {of} comparisons)"
    return Table("robust", f"What verdicts depend on{which}", ROBUST, rows)
