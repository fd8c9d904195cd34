"""The measurements of a run or a sweep, as objects: tables as data frames that know their units.

The tables are those of the results folder (results.md), as `testbed.results` reads them; the frames
made of several are those that the reports show.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base.config.data_files import read_text
from p4fabric.base.config.yaml_document import read_yaml
from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed.api.experiments import Experiment
from testbed.paths import LATEST, default_results
from testbed.results import TABLES, Results, ResultsError
from testbed.results import read as read_folder

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from testbed.analysis.data.sweep_data import Point, Sweep


def read(folder: str | Path = LATEST) -> Result | SweepResult:
    """A results folder: that of a run, or that of a sweep; SWEEP/HASH is a point of one, "latest"
    the newest below `results`. Raises UserError."""
    from testbed.analysis.data.sweep_data import is_sweep, run_at
    from testbed.results.reader import latest

    folder = latest(Path(folder), default_results())
    return SweepResult(folder) if is_sweep(folder) else Result(run_at(folder).folder)


class Result:
    """One run. Every table of its folder is an attribute: `result.jobs`, `result.links`, ...

    Attributes: `folder`; `name`; `state` ("finished", "failed", "interrupted", "running",
    "killed"); `fidelity` ("ok", "degraded", None in virtual time) and `reasons` for the latter;
    `notice`, what has to be known before a number is believed, else "".

    A frame's `attrs["units"]` has the unit of each column ("ns", "bytes", "count", "share", "" for
    none), `attrs["meanings"]` a phrase on each."""

    def __init__(self, folder: str | Path) -> None:
        """Raises UserError when the folder is not that of a run."""
        self._results: Results = read_folder(folder)
        self.folder: Path = self._results.folder
        self.name: str = self._results.name
        self.state: str = self._results.state
        self.fidelity: str | None = self._results.fidelity
        self.reasons: tuple[str, ...] = tuple(self._results.reasons)
        self.notice: str = self._results.notice
        self._frames: dict[str, pd.DataFrame] = {}

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(TABLES)

    def table(self, name: str) -> pd.DataFrame:
        """A table by its name. Raises UserError for an unknown one, or a damaged file."""
        if name not in TABLES:
            allowed = f"tables are: {', '.join(TABLES)}"
            raise UserError(
                sentence(f"there is no table {name!r}", did_you_mean(name, TABLES), allowed)
            )
        if name not in self._frames:
            frame = self._results.table(name)
            columns = TABLES[name].columns
            frame.attrs["units"] = {column.name: column.unit for column in columns}
            frame.attrs["meanings"] = {column.name: column.meaning for column in columns}
            self._frames[name] = frame
        return self._frames[name].copy()

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name not in TABLES:
            hint = did_you_mean(name, TABLES)
            raise AttributeError(sentence(f"Result has no attribute {name!r}", hint))
        return self.table(name)

    def __dir__(self) -> list[str]:
        own = [name for name in super().__dir__() if not name.startswith("_")]
        return sorted({*own, *(name for name in TABLES if name != "fidelity")})

    @property
    def tidy(self) -> pd.DataFrame:
        """A row per seed, job and measure: columns seed, repetition, job, measure, value, unit.
        Times are in seconds."""
        from testbed.analysis.data import tidy_data

        return tidy_data.of_run(self._results)

    @property
    def experiment(self) -> Experiment:
        """The experiment with all settings as they were. Raises UserError if this version cannot
        read it."""
        file = self.folder / "experiment.yaml"
        document = read_yaml(read_text(file), str(file))
        return Experiment._of(document, str(file), self.folder.absolute(), "experiment")

    @property
    def environment(self) -> dict[str, Any]:
        """The machine and the versions that it ran with."""
        return dict(self._results.environment)

    @property
    def digest(self) -> str:
        """A hash of all that was measured: equal for equal results."""
        from testbed.results import digest

        return digest(self._results)

    @property
    def text(self) -> str:
        """The tables that the command line prints."""
        from testbed.analysis.report import render

        return _as_text(render(self._results))

    def report(self) -> Path:
        """Write report.txt, the figures and report.html into the folder; returns the page."""
        from testbed.analysis.report import after_run

        return _written(lambda console: after_run(self.folder, console), self.folder)

    def __repr__(self) -> str:
        mark = f", fidelity {self.fidelity}" if self.fidelity else ""
        return f"<Result {self.name}: {self.state}{mark}; {self.folder}>"

    def _repr_html_(self) -> str:
        return _as_html(self.text)


class SweepResult:
    """All points of a sweep.

    Attributes: `folder`; `name`; `keys`, what was varied. Iterating gives the results of the points
    that have been run; `sweep["KEY"]` is the point of that hash, `sweep[0]` the first point."""

    def __init__(self, folder: str | Path) -> None:
        """Raises UserError when the folder is not that of a sweep."""
        from testbed.analysis.data.sweep_data import read_sweep

        self._sweep: Sweep = read_sweep(folder)
        self.folder: Path = self._sweep.folder
        self.name: str = self._sweep.name
        self.keys: tuple[str, ...] = self._sweep.keys

    @property
    def points(self) -> pd.DataFrame:
        """A row per point: its hash (the index), the varied keys (text), `state` ("not run" where
        there is no run), `fidelity`, `reasons` (why it is degraded, or failed), `folder`."""
        import pandas as pd

        rows = [
            {
                "point": point.key,
                **{key: point.values[key].text if key in point.values else "" for key in self.keys},
                "state": point.results.state if point.results else "not run",
                "fidelity": (point.results.fidelity if point.results else None) or "",
                "reasons": _reasons(point),
                "folder": str(point.results.folder) if point.results else "",
            }
            for point in self._sweep.points
        ]
        columns = ["point", *self.keys, "state", "fidelity", "reasons", "folder"]
        return pd.DataFrame(rows, columns=columns).set_index("point")

    @property
    def failed(self) -> pd.DataFrame:
        """The rows of `points` that have no finished run."""
        points = self.points
        return points[points["state"] != "finished"]

    @property
    def finished(self) -> bool:
        """True if every point has a finished run."""
        return all(point.finished for point in self._sweep.points)

    @property
    def tidy(self) -> pd.DataFrame:
        """A row per finished point, seed, job and measure: columns point, one per varied key, seed,
        repetition, job, measure, value, unit. Times are in seconds."""
        from testbed.analysis.data import tidy_data

        return tidy_data.of_sweep(self._sweep)

    @property
    def frame(self) -> pd.DataFrame:
        """A row per finished point and repetition, with the measures of all jobs as columns: what
        data.csv has. Times are in ns."""
        from testbed.analysis.data import sweep_data

        return sweep_data.frame(self._sweep)

    def __getitem__(self, point: int | str | Mapping[str, Any]) -> Result:
        """A point by its place, by its hash (or the beginning of it), or by its varied values, as
        text or as in the file: `sweep[{"system": "esa", "memory.aggregators": 64}]`. Raises
        UserError unless one point fits, and it has been run; IndexError for a place behind the
        last."""
        if isinstance(point, int):
            found = [self._sweep.points[point]]
        elif isinstance(point, str):
            found = [each for each in self._sweep.points if each.key.startswith(point)]
        else:
            found = [each for each in self._sweep.points if _fits(each, point)]
        if len(found) != 1:
            how = "no point fits" if not found else f"{len(found)} points fit"
            raise UserError(f"{self.folder}: {how} {point!r}; `points` lists them")
        if found[0].results is None:
            raise UserError(f"{self.folder}: point {found[0].key} has not been run")
        return Result(found[0].results.folder)

    def __len__(self) -> int:
        """The number of points."""
        return len(self._sweep.points)

    def __iter__(self) -> Iterator[Result]:
        return (Result(each.results.folder) for each in self._sweep.points if each.results)

    @property
    def text(self) -> str:
        """The table of points that the command line prints."""
        from testbed.analysis.report import render_sweep

        return _as_text(render_sweep(self._sweep))

    def report(self) -> Path:
        """Write report.txt, data.csv, the figures and report.html into the folder; returns the
        page. Raises UserError when no point has finished."""
        from testbed.analysis.report import sweep_report

        if not any(point.finished for point in self._sweep.points):
            raise UserError(f"{self.folder}: no point has finished; there is nothing to report")
        return _written(lambda console: sweep_report(self.folder, console), self.folder)

    def __repr__(self) -> str:
        done = sum(point.finished for point in self._sweep.points)
        keys = ", ".join(self.keys)
        return f"<SweepResult {self.name}: {done} of {len(self)} points over {keys}; {self.folder}>"

    def _repr_html_(self) -> str:
        return _as_html(self.text)


def _reasons(point: Point) -> str:
    if point.results is None or (point.results.finished and point.results.fidelity != "degraded"):
        return ""
    return "; ".join(point.results.reasons) or point.results.notice


def _fits(point: Point, wanted: Mapping[str, Any]) -> bool:
    from testbed.experiment.sweep_file import shown

    for key, value in wanted.items():
        found = point.values.get(key)
        if found is None:
            return False
        if shown(value) != found.text and found.number != value:
            return False
    return True


def _as_text(content: object) -> str:
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=150, color_system=None, force_jupyter=False).print(content)
    return file.getvalue()


def _as_html(text: str) -> str:
    import html

    return f'<pre style="line-height: 1.2; white-space: pre">{html.escape(text)}</pre>'


def _written(write: Callable[[Console], object], folder: Path) -> Path:
    from p4fabric.base.steps import quiet_console

    write(quiet_console())
    page = folder / "report.html"
    if not page.exists():
        raise ResultsError(f"{folder}: there is no report.html")
    return page
