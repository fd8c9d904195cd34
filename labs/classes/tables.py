"""Tables that people edit: CSV with a header, in UTF-8, as spreadsheets write it. Each row knows
its line, so that an error can name it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import write_whole

DELIMITERS = ",;\t"
FORMULAS = "=+-@"


@dataclass(frozen=True)
class Row:
    """A row: its cells by column, without spaces around them, and its place, `FILE:LINE`."""

    where: str
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        """The cell; "" where the table has no such column."""
        return self.cells.get(column, "")

    def wrong(self, column: str, text: str) -> UserError:
        """An error about a cell."""
        return UserError(f"{self.where}: {column}: {text}")

    def number(self, column: str, most: float) -> float | None:
        """The number in a cell, from 0 to `most`; None: the cell is empty. Raises UserError."""
        text = self[column]
        if not text:
            return None
        try:
            value = float(text.replace(",", "."))
        except ValueError:
            raise self.wrong(column, f"{text!r} is no number") from None
        if not 0 <= value <= most:
            raise self.wrong(column, f"{text} is not from 0 to {most:g}")
        return value

    def time(self, column: str) -> datetime | None:
        """The time in a cell, a date being its end; None: the cell is empty. Raises UserError."""
        text = self[column]
        if not text:
            return None
        try:
            if len(text) == len("2026-11-30"):
                return datetime.combine(date.fromisoformat(text), time(23, 59, 59))
            return datetime.fromisoformat(text)
        except ValueError:
            raise self.wrong(column, f"{text!r} is no time such as 2026-11-30 23:59") from None


def read_lines(path: Path) -> list[tuple[int, list[str]]]:
    """Lines of a CSV file that are not empty, with the number of the line each ends at. What
    separates the cells (comma, semicolon or tab) is what the first line has most of. Raises
    UserError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: this is no UTF-8; save it as CSV in UTF-8") from None
    first = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text), delimiter=max(DELIMITERS, key=first.count), strict=True)
    made = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                made.append((reader.line_num, [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: this is no CSV: {error}") from None
    return made


def read_table(path: Path, needed: Collection[str], known: Collection[str]) -> list[Row]:
    """The rows of a table whose columns are those `needed` and some of those `known`. Raises
    UserError."""
    lines = read_lines(path)
    if not lines:
        raise UserError(f"{path}: the first line names the columns: {', '.join(known)}")
    (at, header), *rows = lines
    for column in header:
        if column not in known:
            raise UserError(
                f"{path}:{at}: there is no column {column!r} (there are: {', '.join(known)})"
            )
        if header.count(column) > 1:
            raise UserError(f"{path}:{at}: column {column!r} is there twice")
    for column in needed:
        if column not in header:
            raise UserError(f"{path}:{at}: column {column!r} is missing")
    made = []
    for line, cells in rows:
        if len(cells) > len(header):
            text = f"{len(cells)} cells in a table of {len(header)} columns"
            raise UserError(f"{path}:{line}: {text}")
        made.append(Row(f"{path}:{line}", dict(zip(header, cells, strict=False))))
    return made


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file in one go: whoever reads it meanwhile finds the old one or the new one."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, output.getvalue())


def write_text(path: Path, text: str) -> None:
    """Write a file in one go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
