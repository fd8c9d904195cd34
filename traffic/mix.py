"""A job mix from a CSV file: one line per job, the columns named by the header.

Columns are called like the keys of a job in an experiment file (`submit`, `model`, `workers`,
`iterations`, `scale`, ...), in any order, and a cell holds what would stand there: `1.5 ms`, `1 %`,
`vgg16`. An empty cell is a key that is left out. This module only takes the file apart; what the
cells mean, and which keys there are, is the experiment's business.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import UserError

MAX_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Line:
    """One job: `number` is its line in the file, from 1; `cells` its filled cells by column."""

    number: int
    cells: dict[str, str]


def read_mix(path: Path) -> list[Line]:
    """The jobs of a file. Lines that are empty or begin with # are skipped. Raises UserError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path}: too large for a job mix (over {MAX_BYTES} bytes)")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    header: list[str] = []
    lines: list[Line] = []
    for number, row in enumerate(text.splitlines(), start=1):
        if not row.strip(" ,;\t") or row.lstrip().startswith("#"):
            continue
        cells = [cell.strip() for cell in next(csv.reader([row], skipinitialspace=True))]
        if not header:
            header = cells
            double = next((name for name in header if header.count(name) > 1), None)
            if double is not None:
                raise UserError(f"{path}, line {number}: two columns are called {double!r}")
            continue
        if len(cells) != len(header):
            raise UserError(
                f"{path}, line {number}: found {len(cells)} cells; the header has {len(header)}"
                " columns (put a cell with a comma in double quotes)"
            )
        filled = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
        lines.append(Line(number, filled))
    if not header:
        raise UserError(f"{path}: the file is empty; its first line names the columns")
    if not lines:
        raise UserError(f"{path}: there are no jobs below the line with the columns' names")
    return lines
