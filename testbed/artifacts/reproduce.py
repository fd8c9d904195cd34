"""`ina reproduce`: figures run again, and their numbers held against the published ones.

What is published stands in experiments/expected/figures.yaml, row by row: a cell of the CSV file
that is written beside a figure, the value there, and a tolerance. A figure is reproduced if every
row of it is. Results are those of `ina figure`: points that have finished there are not run again.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.errors import RunError, UserError, did_you_mean, sentence

from testbed.artifacts.expected import Row, error_of, holds, of_figures
from testbed.sweeps import figures

BASE = {"ms": 1e6}  # base units of a figure's CSV in a unit of the rows


@dataclass(frozen=True)
class Cell:
    """A row of the expected values, and what a figure's CSV has there in the row's unit; None where
    it has nothing."""

    row: Row
    found: float | None

    @property
    def reproduced(self) -> bool:
        return self.found is not None and holds(self.row, self.found)

    @property
    def error(self) -> str:
        """Distance from what is expected."""
        return "missing" if self.found is None else error_of(self.row, self.found)


@dataclass(frozen=True)
class Reproduction:
    """A figure that was run. `failed`: why there is nothing to compare, or ""; `minutes`: how long
    it took."""

    figure: str
    cells: tuple[Cell, ...]
    failed: str
    minutes: float

    @property
    def reproduced(self) -> bool:
        return not self.failed and all(cell.reproduced for cell in self.cells)


def known() -> dict[str, Row]:
    """The figures with expected values, by name: minutes, memory, and whether they are part of the
    quick check."""
    return of_figures()[0]


def quick() -> list[str]:
    """The figures of `--kick-the-tires`."""
    return [name for name, each in known().items() if each.get("kick_the_tires")]


def chosen(names: list[str]) -> list[str]:
    """The names, if all have expected values. Raises UserError."""
    there = known()
    for name in names:
        if name not in there:
            if name not in figures.OF_PLANS:
                figures.find(name)  # raises UserError for what is no figure
            remedy = did_you_mean(name, there) or f"figures with them: {', '.join(there)}"
            raise UserError(sentence(f"the figure `{name}` has no expected values", remedy))
    return names


def reproduce(
    names: list[str], results: Path, processes: int | None = None
) -> Iterator[Reproduction]:
    """Run figures one after the other, and compare. The folders of results go below `results`;
    processes: points at one time. A figure that cannot run here, as it needs root, does not
    stop the others."""
    for name in names:
        began = time.monotonic()
        cells: tuple[Cell, ...] = ()
        failed = ""
        path = figures.find(name)
        try:
            if figures.run_figure(path, figures.size_of(path, None, False), results, processes):
                failed = "points failed"
            else:
                cells = compared(name, results)
        except (UserError, RunError) as error:
            failed = str(error)
        yield Reproduction(name, cells, failed, (time.monotonic() - began) / 60)


def compared(name: str, results: Path) -> tuple[Cell, ...]:
    """The rows of a figure beside what its CSV below `results` has. Raises RunError where there is
    no such file."""
    path = results / name / "figures" / f"{name}.csv"
    try:
        with path.open(newline="") as file:
            drawn = list(csv.DictReader(file))
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}; the figure has not been drawn") from None
    rows = [row for row in of_figures()[1] if row["figure"] == name]
    return tuple(Cell(row, _found(row, drawn)) for row in rows)


def _found(row: Row, drawn: list[dict[str, str]]) -> float | None:
    for each in drawn:
        at = float(each["x"] or "nan")
        here = math.isnan(at) if row.get("x") is None else math.isclose(at, row["x"])
        if each["series"] == row["series"] and here:
            text = each.get(row["column"])
            return float(text) / BASE.get(row["unit"], 1) if text else None
    return None
