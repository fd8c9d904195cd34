"""A sweep's folder as one data frame: a row per point and repetition, with what was varied.

If numbers are varied, the key with most of them is the x axis and each combination of the others is
a line. If none are, the points are compared as runs are. A file with the key `figure` declares its
x axis itself.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from p4fabric.base.config.data_files import DataError, read_json, require

from testbed.analysis.data.hardware_data import NAMES as HARDWARE
from testbed.analysis.data.hardware_data import hardware
from testbed.analysis.data.run_summary import summary
from testbed.analysis.data.tuned_data import tuned_words
from testbed.analysis.style.key_words import words
from testbed.results import SWEEP_FILE, Results, ResultsError, find, read
from testbed.results.schema import DeclaredFigure
from testbed.systems import SYSTEMS

_SHORT = 20
_KEY = re.compile(r"[0-9A-Za-z_-]{1,64}")  # a point's folder
_FILE = re.compile(r"\S*/\S*\.\w+")
_MANY = 64  # jobs
_OPTION = re.compile(r"(?<=\()\w+(?= )|(?<=, )\w+(?= )")  # in "atp (release on_completion)"


@dataclass(frozen=True)
class Value:
    """The value of a varied key at a point: as text, and as a number in its base unit if it is one.
    `title`: what a legend says where that is shorter than the text. `in_legend`: False where the
    rest of a point's name says it."""

    text: str
    number: float | None
    title: str = ""
    in_legend: bool = True

    @property
    def short(self) -> str:
        """The text; of a file its name without the suffix; of a long one that has a number (a list
        of jobs) the number."""
        if _FILE.fullmatch(self.text):
            return Path(self.text).stem
        if len(self.text) > _SHORT and self.number is not None:
            return f"{self.number:g}"
        return self.text


@dataclass(frozen=True)
class Point:
    """One point of a sweep. `key`: its folder below the sweep's. `results`: its newest finished
    run, else its newest run; None: it has not been run."""

    key: str
    system: str
    values: dict[str, Value]
    results: Results | None

    @property
    def finished(self) -> bool:
        return self.results is not None and self.results.finished

    def series(self, *without: str) -> str:
        """The name of its line in data: the values of all keys `without` some, with these keys as
        the file has them; a system by its title."""
        return self._named(without, lambda key: key)

    def title(self, *without: str, labels: Mapping[str, str] | None = None) -> str:
        """Title for readers: keys by their words, or by those of `labels`."""
        said = labels or {}
        return self._named(without, lambda key: said.get(key) or words(key))

    def _named(self, without: Sequence[str], called: Callable[[str], str]) -> str:
        def option(found: re.Match[str]) -> str:
            return called(f"system.{found[0]}").removeprefix("system.")

        parts = []
        for key, value in self.values.items():
            if key == "system":
                title = SYSTEMS[self.system].title if self.system in SYSTEMS else self.system
                options = (value.title or value.text).removeprefix(self.system)
                parts.append(title + _OPTION.sub(option, options))
            elif key not in without and value.in_legend:
                parts.append(f"{called(key)} {value.text}")
        return ", ".join(parts)


@dataclass(frozen=True)
class VariedRun:
    """A further run of point `of` with a change of one factor: its value as text and, where it is
    one, number, and the point's own. `results`: as those of a point."""

    of: str
    key: str
    factor: str
    text: str
    number: float | None
    base_text: str
    base_number: float | None
    results: Results | None


@dataclass(frozen=True)
class Robust:
    """Further runs of a sweep that show what its verdicts depend on. left_out: (factor, reason);
    compared: keys of the points of each comparison that was varied, of `comparisons`."""

    runs: tuple[VariedRun, ...]
    left_out: tuple[tuple[str, str], ...]
    compared: tuple[tuple[str, ...], ...]
    comparisons: int


@dataclass(frozen=True)
class Sweep:
    """`axis`: the varied key that becomes the x axis; None: the points are compared as they are.
    `figure`: what the file declares; None: nothing. `named_axis`: whether the axis has names, such
    as those of models, in place of numbers; a name's number is its rank in the file."""

    folder: Path
    name: str
    keys: tuple[str, ...]
    points: tuple[Point, ...]
    figure: DeclaredFigure | None = None
    named_axis: bool = False
    robust: Robust | None = None

    @property
    def axis(self) -> str | None:
        if self.figure is not None:
            return self.figure.x or None
        most, found = 1, None
        for key in self.keys:
            numbers = {point.values[key].number for point in self.points if key in point.values}
            if None not in numbers and len(numbers) > most:
                most, found = len(numbers), key
        return found

    @property
    def placed(self) -> tuple[str, ...]:
        """The varied keys that say where a point is drawn; the others say in which series."""
        figure = self.figure
        keys = (self.axis or "", *figure.rows, figure.each) if figure else (self.axis or "",)
        return tuple(key for key in keys if key)

    def titles(self, labels: Mapping[str, str] | None = None) -> dict[str, str]:
        """Titles of series for readers, by their names in data. labels: other words
        for keys, and other titles of series, by either name."""
        said, placed = labels or {}, self.placed
        found = {point.series(*placed): point for point in self.points}
        titles = {name: point.title(*placed, labels=said) for name, point in found.items()}
        count = Counter(titles.values())  # keys of two packages may have the same words
        for name, point in found.items():
            named = said.get(name) or said.get(point.title(*placed))
            titles[name] = named or (titles[name] if count[titles[name]] == 1 else name)
        return titles

    def series_called(self, name: str) -> str:
        """The name in data of the series that a reader sees as `name`; `name` if there is none."""
        return next((series for series, title in self.titles().items() if title == name), name)


def is_sweep(folder: str | Path) -> bool:
    """True if a folder is that of a sweep."""
    return os.path.isfile(Path(folder) / SWEEP_FILE)  # False also where it must not be read


def read_sweep(folder: str | Path) -> Sweep:
    """Opens a sweep's folder. Raises ResultsError when it can't be read."""
    folder = Path(folder)
    try:
        file = folder / SWEEP_FILE
        kinds: dict[str, type] = {"name": str, "keys": list, "points": list}
        described = require(read_json(file), kinds, file)
        if not all(isinstance(key, str) for key in described["keys"]):
            raise DataError(f"{file} can't be read: keys: found {described['keys']!r:.50}")
        points = tuple(_point(each, folder) for each in described["points"])
        if len({point.key for point in points}) < len(points):
            raise DataError(f"{file} can't be read: two points have the same key")
        declared = described.get("figure")
        figure = None if declared is None else DeclaredFigure.from_json(declared)
        robust = _robust(described["robust"], folder) if "robust" in described else None
        keys = tuple(described["keys"])
        sweep = Sweep(folder, described["name"], keys, points, figure, robust=robust)
        return _with_ranks(sweep)
    except DataError as error:
        raise ResultsError(str(error)) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{folder / SWEEP_FILE} can't be read: {error}") from None


def _point(described: Any, folder: Path) -> Point:
    """A point as SWEEP_FILE has it. Raises DataError."""
    file = folder / SWEEP_FILE
    found = require(described, {"key": str, "system": str, "values": dict}, file)
    if not _KEY.fullmatch(found["key"]):
        raise DataError(f"{file} can't be read: key: found {found['key'][:50]!r}")
    values = {}
    for name, each in found["values"].items():
        value = require(each, {"text": str, "number": (int, float, type(None))}, file)
        title = require({"title": "", **value}, {"title": str}, file)["title"]
        in_legend = value.get("in_legend", True) is not False
        values[name] = Value(value["text"], value["number"], title, in_legend)
    return Point(found["key"], found["system"], values, _newest(folder / found["key"]))


def _robust(described: object, folder: Path) -> Robust:
    """Further runs as SWEEP_FILE has them. Raises DataError."""
    file = folder / SWEEP_FILE
    kinds: dict[str, type] = {"runs": list, "left_out": list, "compared": list, "comparisons": int}
    whole = require(described, kinds, file)
    text = dict.fromkeys(("of", "key", "factor", "text", "base_text"), str)
    number = (int, float, type(None))
    runs = []
    for each in whole["runs"]:
        found = require(each, {**text, "number": number, "base_number": number}, file)
        if not _KEY.fullmatch(found["key"]):
            raise DataError(f"{file} can't be read: key: found {found['key'][:50]!r}")
        said = {key: found[key] for key in (*text, "number", "base_number")}
        runs.append(VariedRun(**said, results=_newest(folder / found["key"])))
    left_out = tuple((str(factor), str(reason)) for factor, reason in whole["left_out"])
    compared = tuple(tuple(map(str, keys)) for keys in whole["compared"])
    return Robust(tuple(runs), left_out, compared, whole["comparisons"])


def _with_ranks(sweep: Sweep) -> Sweep:
    """The sweep; if values on the axis are no numbers, each has its rank as its number."""
    axis = sweep.axis
    if axis is None:
        return sweep
    values = [point.values[axis] for point in sweep.points if axis in point.values]
    if all(value.number is not None for value in values):
        return sweep
    ranks = {text: float(n) for n, text in enumerate(dict.fromkeys(each.text for each in values))}
    points = []
    for point in sweep.points:
        if axis in point.values:
            value = point.values[axis]
            ranked = replace(value, number=ranks[value.text])
            point = replace(point, values={**point.values, axis: ranked})
        points.append(point)
    return replace(sweep, points=tuple(points), named_axis=True)


def run_at(path: str | Path) -> Results:
    """A run by its folder, or, as SWEEP/HASH, a point of a sweep by its hash or how that begins:
    its newest finished run, else its newest run. Raises ResultsError."""
    path = Path(path)
    if path.is_dir() and (path / "status.json").exists() or not is_sweep(path.parent):
        return read(path)
    sweep = read_sweep(path.parent)
    found = [point for point in sweep.points if point.key.startswith(path.name)]
    if len(found) != 1:
        keys = ", ".join(point.key for point in (found or sweep.points)[:8])
        how = "several points begin so" if found else "no point of this sweep has this hash"
        raise ResultsError(f"{path}: {how}; there are {keys}")
    if found[0].results is None:
        raise ResultsError(f"{path}: this point has not been run")
    return found[0].results


def _newest(parent: Path) -> Results | None:
    runs = [read(each) for each in find(parent)]
    finished = [run for run in runs if run.finished]
    newest = finished or runs
    return newest[-1] if newest else None


def frame(sweep: Sweep) -> pd.DataFrame:
    """One row per finished point and repetition.

    Columns: `point` (number), one per varied key (text, "" where a point has none), `system`
    (name), `series` (text: all keys but `Sweep.placed`), `x` (float64 in base units, NaN where a
    point has no value on the axis), `fidelity`, `tuned` (text; where options were), `servers` and
    `hosts` (see hardware_data.py; where points differ in them), the columns of
    `testbed.analysis.data.run_summary.run`,
    `jct_JOB_ns` of each job (unless there are many), and, where the file declares a figure,
    `jct_ratio` (see `_ratio`)."""
    axis = sweep.axis
    rows = []
    for number, point in enumerate(sweep.points):
        results = point.results
        if results is None or not results.finished:
            continue
        frames = summary(results)
        on_axis = point.values.get(axis) if axis else None
        for row in frames["run"].to_dict("records"):
            jobs = frames["jobs"]
            jobs = jobs[jobs["repetition"] == row["repetition"]]
            texts = {key: value.text for key, value in point.values.items()}
            rows.append(
                {
                    "point": number,
                    **{key: texts.get(key, "") for key in sweep.keys},
                    "system": point.system,
                    "series": point.series(*sweep.placed),
                    "x": on_axis.number if on_axis else float("nan"),
                    "fidelity": results.fidelity,
                    "tuned": tuned_words(results),
                    **hardware(results),
                    **row,
                    **_named(jobs),
                }
            )
    found = pd.DataFrame(rows)
    if len(found) and not found["tuned"].any():
        found = found.drop(columns="tuned")
    if len(found) and all(len(found[each].unique()) < 2 for each in HARDWARE if each in found):
        found = found.drop(columns=[each for each in HARDWARE if each in found])
    if len(found) and sweep.figure is not None:
        found["jct_ratio"] = _ratio(found, sweep.series_called(sweep.figure.against))
    return found


def _named(jobs: pd.DataFrame) -> dict[str, float]:
    """The JCT of each job by its name; of many jobs, which were drawn, nothing."""
    if len(jobs) > _MANY:
        return {}
    return {f"jct_{job.name}_ns": job.jct_ns for job in jobs.itertuples()}


def _ratio(frame: pd.DataFrame, against: str) -> pd.Series:
    """The average JCT over that of the series `against` at the same x and repetition: the same
    seed, so the same gradients and speeds of workers. NaN where that series has no such run."""
    columns = ["x", "repetition"]
    base = frame[frame["series"] == against].groupby(columns, dropna=False)["jct_mean_ns"].first()
    pairs = frame[columns].merge(base.rename("base").reset_index(), on=columns, how="left")
    return frame["jct_mean_ns"] / pairs["base"].to_numpy()
