"""The printed tables, for the page: the same cells, with what to sort them by."""

from __future__ import annotations

import re

from rich.table import Table

from testbed.analysis.html.html_page import TableView

_SCALES = {
    **{"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    **{"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9},
}
_NUMBER = re.compile(r"(?:mean )?(-?[\d  ]*\d(?:\.\d+)?)\s*([A-Za-zµ%]*)")


def view(table: Table, name: str, filtered: bool = False, note: str = "") -> TableView:
    """A rich table as one of the page; its last rows (averages) sort like the others."""
    columns = [" ".join(str(column.header).split()) for column in table.columns]
    rows = [
        [str(cell) for cell in cells]
        for cells in zip(*(list(column.cells) for column in table.columns), strict=True)
    ]
    left = sum(column.justify == "left" for column in table.columns)
    keys = [[key(cell) for cell in row] for row in rows]
    return TableView(name, str(table.title or ""), columns, rows, left, filtered, keys, note)


def key(cell: str) -> float | str:
    """What a cell is sorted by: the number that it begins with, in base units, else its text."""
    found = _NUMBER.match(cell)
    if found is None:
        return cell
    digits, unit = found.groups()
    return float(digits.replace(" ", "")) * _SCALES.get(unit, 1.0)
