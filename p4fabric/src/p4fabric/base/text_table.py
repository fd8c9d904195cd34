"""A table as data, and how a terminal shows it.

A table declares its columns once and keeps its values as numbers. `printed` renders it for a
terminal; others render the same table for a page or a CSV file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from rich import box
from rich import table as rich_table
from rich.cells import cell_len
from rich.console import (
    Console,
    ConsoleOptions,
    JustifyMethod,
    RenderableType,
    RenderResult,
)

_QUANTITY = re.compile(r"(?P<number>-?\d[\d .]*?)(?P<unit>| [^\d .].*)")
TRUSTED = 3  # samples from which an interval is shown: Student's t of two says nothing


class Estimate(NamedTuple):
    """The mean of `count` samples and half the width of its 95 % confidence interval, which is NaN
    for fewer than two samples. `prefix` stands before the printed mean."""

    mean: float
    half_width: float
    count: int  # type: ignore[assignment]  # hides the tuple's method, which nobody needs
    prefix: str = ""

    @property
    def shown_half_width(self) -> float:
        """The half width, NaN where there are too few samples to show it."""
        return self.half_width if self.count >= TRUSTED else float("nan")


class Spread(NamedTuple):
    """A mean between the smallest and the largest value."""

    mean: float
    low: float
    high: float


class Labelled(NamedTuple):
    """A text that sorts by a number or a truth, if it has one."""

    text: str
    number: float | None


# A number, a text, an Estimate, a Spread or a Labelled; None: an empty cell.
Value = Any


@dataclass(frozen=True)
class Column:
    """A column of a table. `key` names it in a CSV file; `title` heads it, with a line break where
    a printed heading breaks; `unit` is that of its values; `show` formats a value. A column of
    `words` is aligned left, others right. `group` heads neighbouring columns that belong together.
    """

    key: str
    title: str
    show: Callable[[Any], str] = str
    unit: str = ""
    words: bool = False
    group: str = ""

    @property
    def heading(self) -> str:
        return f"{self.group}\n{self.title}" if self.group else self.title


@dataclass(frozen=True)
class Row:
    """A row of a table. `show` replaces that of the columns where a row has a measure of its own.
    `total`: a bold row below a line; `section`: a line follows it. Missing values are None."""

    values: Sequence[Value]
    show: Callable[[Any], str] | None = None
    total: bool = False
    section: bool = False


@dataclass(frozen=True)
class Table:
    """A table. `name` identifies it on a page."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row] = field(default_factory=list)

    def cells(self, row: Row) -> list[str]:
        """The texts of a row, one per column."""
        values = self._values(row)
        if row.show is not None:
            show = row.show
            if hasattr(show, "common"):
                show = show.common(_magnitudes(values))
            return [text_of(value, show) for value in values]
        return [text_of(value, show) for value, show in zip(values, self._shows, strict=True)]

    @cached_property
    def _shows(self) -> list[Callable[[Any], str]]:
        """Formatters of the columns: quantities in one unit."""
        found = []
        for place, column in enumerate(self.columns):
            show = column.show
            if hasattr(show, "common"):
                rows = [row for row in self.rows if row.show is None]
                show = show.common(_magnitudes(self._values(row)[place] for row in rows))
            found.append(show)
        return found

    def sort_keys(self, row: Row) -> list[float | str]:
        """Keys by which a page sorts a row, one per column: the number, else the text of the
        cell."""
        numbers = map(_number, self._values(row))
        pairs = zip(numbers, self.cells(row), strict=True)
        return [cell if number is None else number for number, cell in pairs]

    def _values(self, row: Row) -> list[Value]:
        return [*row.values, *[None] * (len(self.columns) - len(row.values))]


def table_data(table: Table) -> dict[str, Any]:
    """The table for JSON: its title, and a mapping per row, by the columns' keys. Numbers are as
    they were measured, in the columns' base units; an estimate is its mean, None is unknown."""
    rows = [
        {
            column.key: _datum(value, cell)
            for column, value, cell in zip(
                table.columns, table._values(row), table.cells(row), strict=True
            )
        }
        for row in table.rows
    ]
    return {"title": table.title, "rows": rows}


def _datum(value: Value, cell: str) -> bool | float | str | None:
    """A value for JSON: a truth, a number, else the text of its cell; None for an unknown value."""
    if isinstance(value, Labelled) and isinstance(value.number, bool):
        value = value.number
    if isinstance(value, bool):
        return value
    number = _number(value)
    if number is not None:
        return number
    return None if cell in ("", "-") else cell


def _magnitudes(values: Iterable[Value]) -> Iterator[Any]:
    """The numbers by which a unit is chosen."""
    for value in values:
        if not isinstance(value, str | Labelled):
            yield value.mean if isinstance(value, Estimate | Spread) else value


def without_zeros(table: Table) -> Table:
    """The table without the rows whose numbers are all 0. Rows of totals, and rows without any
    number, stay."""

    def is_empty(row: Row) -> bool:
        known = [number for number in map(_number, row.values) if number is not None]
        return bool(known) and not any(known) and not row.total

    return replace(table, rows=[row for row in table.rows if not is_empty(row)])


def _number(value: Value) -> float | None:
    """The number of a value; None for a text and for an unknown value."""
    number = value
    if isinstance(value, Estimate | Spread):
        number = value.mean
    elif isinstance(value, Labelled):
        number = value.number
    if number is None or isinstance(number, str) or str(number) in ("nan", "<NA>"):
        return None
    return float(number)


def text_of(value: Value, show: Callable[[Any], str]) -> str:
    """The text of a value, with its interval if that says something."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Labelled):
        return value.text
    if not isinstance(value, Estimate):
        return show(value)
    mean, half = value.mean, value.shown_half_width
    shown = show(mean)
    found = _QUANTITY.fullmatch(shown)
    give = _like(found["number"], show(half)) if found and mean and half > 1e-9 * abs(mean) else "0"
    if found and float(give.replace(" ", "")):  # "± 0.0" would say that it is exact
        shown = f"{found['number']} ± {give}{found['unit']}"
    return f"{value.prefix}{shown}"


def _like(number: str, half: str) -> str:
    """Half an interval with as many decimals as the number that it belongs to, if that says
    anything."""
    found = _QUANTITY.fullmatch(half)
    assert found is not None, f"{half} is no number"
    decimals = len(number.partition(".")[2])
    value = float(found["number"].replace(" ", ""))
    rounded = f"{value:,.{decimals}f}".replace(",", " ")
    return rounded if float(rounded.replace(" ", "")) else found["number"]


def printed(table: Table) -> RenderableType:
    """The table for a terminal: its title at the left, thin lines, words left, numbers right.

    Nothing is cut, and a number is never parted from its unit. Where a line is too short, words
    wrap; then what follows ± goes below its mean; then the columns go below each other in parts,
    each of which begins with the names of the rows."""
    return _Printed(table)


_EDGES = 2  # columns of the terminal: left and right of a line
_BETWEEN = 2  # those between two columns of a table
_NAMES = 0.6  # of a line: what names may take that each part repeats
_NUMBER = Column("number", "#")


@dataclass(frozen=True)
class _Printed:
    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        for below in (False, True):
            layout = _Layout(self.table, below)
            if layout.least(layout.all) <= width:
                yield layout.drawn(layout.all, width, self.table.title)
                return
        layout = _Layout(self.table, below=False)
        for number, part in enumerate(layout.parts(width)):
            yield layout.drawn(part, width, "" if number else self.table.title)


class _Layout:
    """The texts of a table, and how wide its columns have to be. Column 0 numbers the rows, for
    parts whose names are too long to be repeated. `below`: what follows ± stands below its mean.
    """

    def __init__(self, table: Table, below: bool) -> None:
        self._rows = table.rows
        self._columns = [_NUMBER, *table.columns]
        self._cells = [[str(n), *table.cells(row)] for n, row in enumerate(table.rows, 1)]
        if below:
            self._cells = [[cell.replace(" ±", "\n±") for cell in row] for row in self._cells]
        self.all = [*range(1, len(self._columns))]
        self._natural, self._least = [], []
        for place, column in enumerate(self._columns):
            texts = [column.heading, *(row[place] for row in self._cells)]
            lines = [line for text in texts for line in text.split("\n")]
            words = [word for line in lines for word in line.split()]
            self._natural.append(max(map(cell_len, lines), default=0))
            narrow = max(map(cell_len, words), default=0)
            self._least.append(narrow if column.words else self._natural[-1])

    def least(self, places: Sequence[int]) -> int:
        """The width of a line of these columns in which each word has a line of its own."""
        return _EDGES + sum(self._least[p] for p in places) + _BETWEEN * (len(places) - 1)

    def parts(self, width: int) -> Iterator[list[int]]:
        """The places of the columns of each part."""
        names = [*itertools.takewhile(lambda place: self._columns[place].words, self.all[:-1])]
        if not names or self.least(names) > _NAMES * width:
            names = [0]
        part = [*names]
        for place in self.all:
            if place in names:
                continue
            if len(part) > len(names) and self.least([*part, place]) > width:
                yield part
                part = [*names]
            part.append(place)
        yield part

    def drawn(self, places: Sequence[int], width: int, title: str) -> rich_table.Table:
        """A table of these columns. In one that is too wide as it is words break anywhere."""
        found = rich_table.Table(
            title=title or None,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for place, wide in zip(places, self._widths(places, width), strict=True):
            column = self._columns[place]
            justify: JustifyMethod = "left" if column.words else "right"
            found.add_column(
                column.heading, justify=justify, vertical="top", overflow="fold", width=wide
            )
        for row, cells in zip(self._rows, self._cells, strict=True):
            if row.total:
                found.add_section()
            shown = [cells[place] for place in places]
            found.add_row(*shown, style="bold" if row.total else None, end_section=row.section)
        return found

    def _widths(self, places: Sequence[int], width: int) -> list[int]:
        """Widths with which a line fits: words get what numbers leave, each as much as it can use
        as long as the others have it."""
        widths = {place: self._least[place] for place in places}
        spare = width - self.least(places)
        while spare < 0 and max(widths.values()) > 1:  # nothing but breaking words helps
            widths[max(widths, key=lambda place: widths[place])] -= 1
            spare += 1
        wanting = [place for place in places if widths[place] < self._natural[place]]
        while spare > 0 and wanting:
            narrowest = min(wanting, key=lambda place: widths[place])
            widths[narrowest] += 1
            spare -= 1
            wanting = [place for place in wanting if widths[place] < self._natural[place]]
        return [widths[place] for place in places]
