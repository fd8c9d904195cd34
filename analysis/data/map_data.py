"""A sweep as maps: which series is fastest where, and whether adding up in switches pays there.

A map has a column for each value of the key on its x axis and a row for each combination of the
values of other keys. It is drawn where the file's figure declares `rows`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from p4fabric.base.text_table import Estimate

from testbed.analysis.data.run_summary import estimate
from testbed.analysis.data.sweep_data import Point, Sweep
from testbed.systems import SYSTEMS

ALIKE = 0.01  # of the fastest's time: nobody would choose by such a difference


@dataclass(frozen=True)
class Best:
    """The fastest series of a kind in a cell: its title, and its mean JCT over repetitions."""

    title: str
    jct_ns: float


@dataclass(frozen=True)
class Cell:
    """A place of a map. `within`, `without`: the fastest series that uses switch memory, and the
    fastest that does not; None: no such series has finished here. `gain`: the time of the latter
    over that of the former, of the same seeds; NaN where one of them is missing. `series`: that
    have finished here; `alike`: those of them, the fastest included, whose mean is at most ALIKE
    above the fastest's."""

    row: str
    column: str
    within: Best | None
    without: Best | None
    gain: Estimate
    series: int
    alike: int

    @property
    def fastest(self) -> Best:
        """The fastest of all series."""
        found = [each for each in (self.within, self.without) if each is not None]
        return min(found, key=lambda each: each.jct_ns)


@dataclass(frozen=True)
class Map:
    """Cells by row and column, in the order of the file. `title`: the value that this map is of, or
    ""; `gains`: float64[rows, columns], NaN where a cell has none."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def gains(self) -> np.ndarray:
        found = np.full((len(self.rows), len(self.columns)), np.nan)
        for cell in self.cells:
            found[self.rows.index(cell.row), self.columns.index(cell.column)] = cell.gain.mean
        return found


def maps(sweep: Sweep, frame: pd.DataFrame) -> list[Map]:
    """The maps of a sweep whose figure declares rows. frame: of `frame` in sweep_data.py, not
    empty."""
    figure = sweep.figure
    assert figure is not None and figure.rows
    placed = [_placed(point, figure.rows, figure.x, figure.each) for point in sweep.points]
    frame = frame.assign(series=frame["series"].map(sweep.titles()))
    found = []
    for title in dict.fromkeys(each for each, _, _ in placed):
        here = [place for place in placed if place[0] == title]
        cells = []
        for place in dict.fromkeys(here):
            numbers = [number for number, other in enumerate(placed) if other == place]
            group = frame[frame["point"].isin(numbers)]
            if group["jct_mean_ns"].notna().any():
                cells.append(_cell(place[1], place[2], group))
        rows, columns = (tuple(dict.fromkeys(each)) for each in list(zip(*here, strict=True))[1:])
        found.append(Map(title, rows, columns, tuple(cells)))
    return found


def _placed(point: Point, rows: tuple[str, ...], x: str, each: str) -> tuple[str, str, str]:
    """(map, row, column) of a point."""

    def words(*keys: str) -> str:
        return ", ".join(point.values[key].short for key in keys if key in point.values)

    return words(each), words(*rows), words(x)


def _cell(row: str, column: str, group: pd.DataFrame) -> Cell:
    """group: the frame's rows of the points here, of which one at least has a JCT."""
    times = group.pivot_table("jct_mean_ns", "repetition", "series")
    systems = dict(zip(group["series"], group["system"], strict=True))
    kinds: dict[bool, Best] = {}
    for title, mean in times.mean().items():
        uses = SYSTEMS[systems[title]].memory if systems[title] in SYSTEMS else False
        if uses not in kinds or mean < kinds[uses].jct_ns:
            kinds[uses] = Best(str(title), float(mean))
    within, without = kinds.get(True), kinds.get(False)
    gain = pd.Series(dtype=float)
    if within is not None and without is not None:
        gain = times[without.title] / times[within.title]
    means = times.mean()
    alike = int((means <= (1 + ALIKE) * means.min()).sum())
    return Cell(row, column, within, without, estimate(gain), times.shape[1], alike)
