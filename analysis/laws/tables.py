"""The tables of one repetition, as laws read them: plain tuples of the columns that a law needs.

They come from a results folder, or from a runtime's rows before anybody has stored them. Nulls are
None. pandas is used for nothing but reading: for few rows it is slower than the laws themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from testbed.results.schema import TABLES

if TYPE_CHECKING:
    from testbed.results import Results, Writer

STILL = {"pause", "slow"}  # faults that leave switches and links as they are
Values = list[Any]  # of a column
Column = Callable[[str, str], Values | None]  # of a table and its name; None: no such table


class Tables:
    """`number`: of the repetition. `finished`: the run has come to its end. `virtual`: it ran in
    virtual time, where all counters were read at one moment."""

    def __init__(
        self,
        column: Column,
        number: int = 0,
        finished: bool = True,
        virtual: bool = True,
    ) -> None:
        self._column = column
        self.number, self.finished, self.virtual = number, finished, virtual

    def has(self, table: str) -> bool:
        """False for a table that the run has not written; a run may be older than it."""
        return self._column(table, TABLES[table].key[-1]) is not None

    @functools.cached_property
    def disturbed(self) -> bool:
        """True if counters of switches may be of several moments: on a real clock, if a switch was
        killed or restarted, links failed, or the run itself did."""
        kinds = {kind for (kind,) in self.rows("faults", "kind")}
        return not self.virtual and not (self.finished and kinds <= STILL)

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, with these columns; a text may name several."""
        names = " ".join(columns).split()
        return zip(*(self._column(table, name) or () for name in names), strict=True)


def of_results(results: Results) -> list[Tables]:
    """The repetitions of a results folder."""

    def column(table: str, name: str) -> Values | None:
        if not (results.folder / "tables" / f"{table}.parquet").exists():
            return None
        return results.table(table)[name].to_numpy(object, na_value=None).tolist()

    virtual = results.environment.get("runtime") == "virtual"
    return _repetitions(column, results.finished, virtual)


def of_writer(writer: Writer, virtual: bool) -> list[Tables]:
    """The repetitions of a run that has just ended, from what it has stored."""

    def column(table: str, name: str) -> Values | None:
        rows = writer.stored(table)
        return None if rows is None else rows.column(name).to_pylist()

    return _repetitions(column, writer.state == "finished", virtual)


def _repetitions(column: Column, finished: bool, virtual: bool) -> list[Tables]:
    column = functools.cache(column)
    numbers = sorted({*(column("jobs", "repetition") or ())})

    def of_repetition(number: int) -> Column:
        def own(table: str, name: str) -> Values | None:
            values = column(table, name)
            if values is None or len(numbers) == 1:
                return values
            which = column(table, "repetition") or ()
            return [each for each, of in zip(values, which, strict=True) if of == number]

        return own

    return [Tables(of_repetition(each), each, finished, virtual) for each in numbers]


def of_rows(tables: Mapping[str, Any]) -> Tables:
    """A repetition in virtual time that has come to its end, from the rows of its tables: a list of
    rows, or a mapping of columns, by table. A column that a row lacks is null."""

    def column(table: str, name: str) -> Values | None:
        rows = tables.get(table)
        if isinstance(rows, Mapping):
            values = rows.get(name, ())
            return values.tolist() if hasattr(values, "tolist") else list(values)
        return None if rows is None else [row.get(name) for row in rows]

    return Tables(column)
