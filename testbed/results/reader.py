"""A results folder as data frames, also of runs that failed or were killed.

An unfinished folder is readable as far as it got, but it says so: `Results.finished` is false and
`Results.notice` holds the sentence that a report must print. Tables are loaded when first asked
for, with the declared dtypes even when they are empty.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from p4fabric.base.config.data_files import DataError, opened, read_json, read_yaml, require
from p4fabric.base.errors import UserError, require_utf8
from p4fabric.base.linux.processes import is_alive

from testbed.paths import LATEST
from testbed.results.schema import FORMAT, SWEEP_FILE, TABLES, Column, Table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

THREADED_ROWS = 100_000  # from which reading a table takes threads
MAX_TABLE_BYTES = 2 << 30  # of memory, of one table
_Derived = TypeVar("_Derived")
_MAYBE = (str, type(None))
STATUS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "state": str,
    "fidelity": _MAYBE,
    "reasons": list,
    "error": _MAYBE,
    "started_utc": str,
    "ended_utc": _MAYBE,
}
"""Keys of status.json that a report needs, beside the format."""


class ResultsError(UserError):
    """A folder that can't be read or created; the message names the place and the remedy."""


@dataclass
class Results:
    """One run. Every table of schema.py is an attribute: `results.jobs`, `results.iterations`, ...

    state: finished, failed, interrupted, running (its process lives) or killed (it does not).
    fidelity: "ok", "degraded" or None (not recorded); `reasons` says why it is degraded.
    experiment, environment: the files' content as dictionaries, {} where the run did not get there.
    """

    folder: Path
    name: str
    state: str
    fidelity: str | None
    reasons: list[str]
    error: str | None
    started_utc: str
    ended_utc: str | None
    experiment: dict[str, Any] = field(repr=False)
    environment: dict[str, Any] = field(repr=False)
    _frames: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)
    _derived: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def finished(self) -> bool:
        return self.state == "finished"

    @property
    def notice(self) -> str:
        """A warning for readers of its numbers; "" for a finished, undegraded run."""
        why = f": {self.error}" if self.error else ""
        if self.state == "running":
            return "UNFINISHED: this run is still going on"
        if self.state == "killed":
            return "UNFINISHED: this run was killed before it could say how it ended"
        if self.state in ("failed", "interrupted"):
            return f"{self.state.upper()}{why}"
        if self.fidelity == "degraded":
            return "DEGRADED: " + "; ".join(self.reasons)
        return ""

    @property
    def short_reason(self) -> str:
        """Reason why the run is degraded, for a cell of a table: the first reason, and the number
        of others."""
        first, *more = self.reasons or ["the reason was not recorded"]
        return f"{first} (and {len(more)} more)" if more else first

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name not in TABLES:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self.table(name)

    def table(self, name: str) -> pd.DataFrame:
        """A table by its name; that of `fidelity`, whose attribute is the mark, only so."""
        if name not in self._frames:
            self._frames[name] = _load(TABLES[name], self.folder / "tables" / f"{name}.parquet")
        return self._frames[name]

    def column(self, table: str, name: str) -> list[object]:
        """A column as Python's values, None where one is missing; for who needs no frame, and does
        not wait for pandas."""
        path = self.folder / "tables" / f"{table}.parquet"
        rows = _rows(TABLES[table], path, [name]) if path.exists() else None
        if rows is None or name not in rows.column_names:
            return []
        return rows.column(name).to_pylist()

    def once(self, derive: Callable[[Results], _Derived]) -> _Derived:
        """`derive(self)`, which is called only once, when it is first asked for; so its result is
        shared by all callers and stays as it is."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        return self._derived[derive]

    def keep(self, derive: Callable[[Results], _Derived], derived: _Derived) -> None:
        """Keep what `once` is to give, where another process has derived it."""
        self._derived[derive] = derived


@contextmanager
def _permitted() -> Iterator[None]:
    """Reports a file that must not be read in one line."""
    try:
        yield
    except PermissionError as error:
        raise ResultsError(f"{error.filename} can't be read: {error.strerror}") from None


@_permitted()
def read(folder: str | Path) -> Results:
    """Opens a results folder. Raises ResultsError when it is none, or of another format, or when it
    must not be read."""
    folder = Path(folder)
    status = _status(folder)
    state = status["state"]
    if state == "running" and not is_alive(_mapping(status.get("process"))):
        state = "killed"
    return Results(
        folder=folder,
        name=status["name"],
        state=state,
        fidelity=status["fidelity"],
        reasons=[str(reason) for reason in status["reasons"]],
        error=status["error"],
        started_utc=status["started_utc"],
        ended_utc=status["ended_utc"],
        experiment=_mapping(_yaml(folder / "experiment.yaml")),
        environment=_mapping(_json(folder / "environment.json")),
    )


@_permitted()
def has_finished(folder: Path) -> bool:
    """True if a run has finished; nothing else is read. Raises ResultsError, as `read` does."""
    return _status(folder)["state"] == "finished"


def _status(folder: Path) -> dict:
    require_utf8(str(folder), "results folder")
    status = _json(folder / "status.json") if folder.is_dir() else None
    if status is None:
        raise ResultsError(_not_results(folder))
    _required(status, {}, folder / "status.json")
    if status.get("format") != FORMAT:
        raise ResultsError(
            f"{folder}: results of format {status.get('format')}, this version reads {FORMAT}; "
            f"use the version of the testbed that wrote it (environment.json names its commit)"
        )
    _required(status, STATUS, folder / "status.json")
    if status["state"] == "finished" and not (folder / "tables" / "jobs.parquet").exists():
        raise ResultsError(
            f"{folder}: the run has finished, but its tables are not here; copy the whole folder"
        )
    return status


def find(parent: str | Path) -> list[Path]:
    """The results folders directly in `parent`, oldest first; [] when it is no folder."""
    parent = Path(parent)
    if not parent.is_dir():
        return []
    found = [path.parent for path in parent.glob("*/status.json")]
    return sorted(found, key=lambda path: ((path / "status.json").stat().st_mtime, path.name))


def by_age(folder: Path, networks: bool = False) -> list[Path]:
    """The folders of runs and of sweeps that lie in a folder, in that of a sweep the runs of all
    its points; the one that changed last is the last."""
    from p4fabric.netfile import run_folder

    inside = sorted(each for each in folder.iterdir() if each.is_dir())
    if (folder / SWEEP_FILE).is_file():
        runs = [run for point in inside for run in find(point)]
        return sorted(runs, key=lambda run: (run / "status.json").stat().st_mtime)
    found = [((run / "status.json").stat().st_mtime, run) for run in find(folder)]
    for each in inside:
        if (each / SWEEP_FILE).is_file():
            times = [path.stat().st_mtime for path in each.glob("*/*/status.json")]
            found.append((max(times, default=(each / SWEEP_FILE).stat().st_mtime), each))
        elif networks and run_folder.is_run(each):
            last = run_folder.RESULTS if run_folder.state(each) == "finished" else run_folder.FILE
            found.append(((each / last).stat().st_mtime, each))
    return [path for _, path in sorted(found)]


def latest(path: Path, results: Path, networks: bool = False) -> Path:
    """The path, or, if it is or begins with LATEST, the run or sweep below `results` that changed
    last, with the rest of the path. networks: runs of network files count, too. Raises ResultsError
    if there is none."""
    if path.parts[:1] != (LATEST,) or path.exists():
        return path
    known = by_age(results, networks) if results.is_dir() else []
    if not known:
        raise ResultsError(f"{path}: {results} has no results; name a folder of results")
    return known[-1].joinpath(*path.parts[1:])


def _not_results(folder: Path) -> str:
    from p4fabric.netfile import run_folder

    if not folder.exists():
        near = find(folder.parent)
        hint = f"; the newest one there is {near[-1]}" if near else ""
        return f"{folder}: no such results folder{hint}"
    if run_folder.is_run(folder):
        remedy = "`open` shows its page, `show --figure` draws it"
        return f"{folder} is the run of a network file: {remedy}"
    inside = find(folder)
    if inside:
        names = "\n".join(f"  {path}" for path in inside[-5:])
        return f"{folder} holds results folders; name those to report, for instance\n{names}"
    return f"{folder} is not a results folder: it has no status.json"


def _json(path: Path) -> Any:
    """None where there is no such file."""
    try:
        return read_json(path) if path.exists() else None
    except DataError as error:
        raise ResultsError(str(error)) from None


def _yaml(path: Path) -> Any:
    try:
        return read_yaml(path) if path.exists() else None
    except DataError as error:
        raise ResultsError(str(error)) from None


def _required(data: object, kinds: Mapping[str, type | tuple[type, ...]], path: Path) -> None:
    try:
        require(data, kinds, path)
    except DataError as error:
        raise ResultsError(str(error)) from None


def _mapping(data: object) -> dict[str, Any]:
    """`data` if it is a mapping, else {}: a report can do without."""
    return data if isinstance(data, dict) else {}


@_permitted()
def _load(table: Table, path: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    from testbed.results.schema_check import arrow_schema

    if path.exists():
        rows = _rows(table, path)
        for column, declared in zip(table.columns, arrow_schema(table), strict=True):
            if column.name in rows.column_names:
                continue
            if not column.nullable:
                raise ResultsError(
                    f"{path} has no column {column.name}: it is from another version"
                )
            # A column that was added since is null.
            rows = rows.append_column(declared, pa.nulls(len(rows), declared.type))
        rows = rows.select([column.name for column in table.columns])
    else:
        rows = arrow_schema(table).empty_table()
    found = {}
    for column, stored in zip(table.columns, rows.columns, strict=True):
        try:
            found[column.name] = _values(column, stored)
        except (TypeError, ValueError) as error:
            what = f"column {column.name} does not hold {column.dtype} ({error})"
            raise ResultsError(f"{path} can't be read: {what}") from None
    return pd.DataFrame(found)


def _values(column: Column, stored: pa.ChunkedArray) -> Any:
    """A column of a frame. Only a nullable one carries pandas' own nullable dtype; the rest are
    plain numpy. (Arrow's `to_pandas` and pandas' `astype` of a whole table take some times as long
    for the few rows that most tables have.)"""
    import pandas as pd

    kind = _pandas_types().get(stored.type)
    may_miss = column.nullable or column.dtype in ("string", "binary")
    if kind is not None and (may_miss or stored.null_count):
        values = kind.__from_arrow__(stored)
    else:
        values = stored.to_numpy()
    if may_miss or values.dtype == column.dtype:
        return values
    return pd.Series(values).astype(column.dtype).to_numpy()  # refuses what is no whole number


def _rows(table: Table, path: Path, only: Sequence[str] | None = None) -> pa.Table:
    """The rows of a file, or some of their columns. The file may be anybody's: one of a megabyte
    can stand for any number of rows, and for the same long text in each of them."""
    import pyarrow as pa
    import pyarrow.compute as compute
    import pyarrow.parquet as parquet

    texts = {column.name for column in table.columns if column.dtype == "string"}
    try:
        with opened(path, MAX_TABLE_BYTES) as file:
            metadata = parquet.read_metadata(file)
            _require_small(path, _least_bytes(metadata))
            file.seek(0)
            # One file, no data set: not `read_table`, which imports the data set machinery.
            here = sorted(texts.intersection(metadata.schema.names))
            stored = parquet.ParquetFile(file, metadata=metadata, read_dictionary=here)
            # A process that ends just after Arrow has started threads may be aborted.
            rows = stored.read(only, use_threads=metadata.num_rows >= THREADED_ROWS)
        for number, column in enumerate(rows.columns):
            if not pa.types.is_dictionary(column.type):
                continue
            for chunk in column.chunks:
                lengths = compute.binary_length(chunk.dictionary)
                _require_small(path, len(chunk) * (compute.max(lengths).as_py() or 0))
            rows = rows.set_column(number, rows.field(number).name, column.cast(pa.string()))
    except DataError as error:
        raise ResultsError(str(error)) from None
    except MemoryError:  # Arrow's is an ArrowException as well
        raise
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise ResultsError(f"{path} is damaged: {error}") from None
    return rows


def _least_bytes(metadata: Any) -> int:
    """Bytes that a table needs in memory at least, by its file's metadata."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    cells = metadata.num_rows * metadata.num_columns
    return max(8 * cells, sum(group.total_byte_size for group in groups))


def _require_small(path: Path, size: int) -> None:
    if size > MAX_TABLE_BYTES:
        raise ResultsError(
            f"{path} can't be read: it needs {size >> 20} MiB; at most {MAX_TABLE_BYTES >> 20} are"
            " read"
        )


def bytes_of_tables(folder: Path) -> int:
    """Bytes that a run's tables need in memory at least. Raises ResultsError."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    found = 0
    for path in (folder / "tables").glob("*.parquet"):
        try:
            with opened(path, MAX_TABLE_BYTES) as file:
                found += _least_bytes(parquet.ParquetFile(file).metadata)
        except DataError as error:
            raise ResultsError(str(error)) from None
        except (OSError, pa.ArrowException) as error:
            raise ResultsError(f"{path} is damaged: {error}") from None
    return found


@functools.cache
def _pandas_types() -> dict[pa.DataType, Any]:
    """pandas' own types for values that may be missing. Texts are Python's: Arrow's take longer for
    few rows."""
    import pandas as pd
    import pyarrow as pa

    types: dict[pa.DataType, Any] = {
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
    }
    if isinstance(pd.Series([""]).dtype, pd.StringDtype):  # from pandas 3 on; before, objects
        types[pa.string()] = pd.StringDtype("python", na_value=float("nan"))
    return types
