"""Writing a results folder, from the start of a run to its end, however it ends.

`status.json` is written first. It says "running" and names the process. At the end it is replaced
in one step. So a run that is killed leaves a folder that reads as unfinished, without any clean-up.
No reader ever sees half a file: every file appears under its name only when it is complete.
Room for the last status.json is set aside at the start, so a full disk cannot keep a run from
saying how it ended.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import secrets
import shutil
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import RunError, no_room, require_utf8, shortage
from p4fabric.base.linux.ownership import hand_over
from p4fabric.base.linux.processes import identity
from p4fabric.base.linux.whole_files import whole, write_whole

from testbed.results.fidelity import broken
from testbed.results.reader import ResultsError
from testbed.results.schema import FORMAT, TABLES
from testbed.results.schema_check import SchemaError, check_key, to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
FOLDERS = ("logs", "tables", "figures")
RESERVED_BYTES = 16384  # for the last status.json
LONGEST = 2000  # characters of a reason in it


def now_utc() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class Writer:
    """One run's folder while the run lasts. Use `Writer.create`, and as a context manager:

        with Writer.create(Path("results"), "quickstart", yaml_text, describe(1000)) as writer:
            writer.write("jobs", rows, repetition=0)
            writer.finish()

    A block that ends without `finish` marks the run failed, with its exception as the reason, or
    interrupted after Ctrl-C. Attributes: `folder`, `logs`, `tables`, `figures` (paths), `state`.
    """

    def __init__(self, folder: Path, status: dict[str, Any]) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.tables = folder / "tables"
        self.figures = folder / "figures"
        self._status = status
        self._rows: dict[str, pa.Table] = {}

    @classmethod
    def create(
        cls, parent: Path, name: str, experiment: str, environment: dict[str, Any]
    ) -> Writer:
        """Makes `parent`/name-time-id. `experiment` is the resolved YAML text, `environment` comes
        from `describe`. Raises ResultsError when the folder can't be made; then there is none."""
        require_utf8(str(parent), "results folder")
        started = datetime.now(timezone.utc)
        slug = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.") or "run"
        folder = parent / f"{slug}-{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
        status = {
            "format": FORMAT,
            "name": name,
            "state": "running",
            "started_utc": started.isoformat(timespec="milliseconds"),
            "ended_utc": None,
            "fidelity": None,
            "reasons": [],
            "error": None,
            "process": identity(os.getpid()),
        }
        writer = None
        try:
            for path in reversed([parent, *parent.parents]):
                if not path.exists():
                    path.mkdir()
                    hand_over(path)
            folder.mkdir()
            writer = cls(folder, status)
            writer._save("status.json", writer._status_text())
            writer._reserve()
            for sub in FOLDERS:
                (folder / sub).mkdir()
            writer._save("experiment.yaml", experiment)
            writer._save("environment.json", json.dumps(environment, indent=1) + "\n")
            hand_over(folder, below=True)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)  # half of one looks like a killed run's
            raise ResultsError(
                f"can't make a results folder in {parent}: {error.strerror}"
            ) from None
        except KeyboardInterrupt:
            if writer is not None:
                writer.interrupt()
            raise
        return writer

    @property
    def state(self) -> str:
        """running, finished, failed or interrupted"""
        return self._status["state"]

    def write(self, table: str, rows: Any, repetition: int | None = None) -> None:
        """Adds rows to a table and saves it.

        `rows`: columns (mapping of name to sequence), a list of mappings, or a data frame;
        `repetition` fills that column. Raises SchemaError when they do not fit the declaration in
        schema.py; then nothing is written; and RunError when it cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as parquet

        if table not in TABLES:
            raise SchemaError(f"no table {table}; there are {', '.join(TABLES)}")
        declared = TABLES[table]
        constants = {} if repetition is None else {"repetition": repetition}
        added = to_arrow(declared, rows, **constants)
        if table in self._rows:
            added = pa.concat_tables([self._rows[table], added])
            check_key(declared, added)
        path = self.tables / f"{table}.parquet"
        _log.debug("%s: %d rows", path, added.num_rows)
        try:
            with whole(path) as draft:
                parquet.write_table(added, draft, compression="zstd")
        except OSError as error:
            raise RunError(cannot_write(path, error)) from None
        self._rows[table] = added

    def stored(self, table: str) -> pa.Table | None:
        """The rows of a table so far; None before the first ones."""
        return self._rows.get(table)

    def finish(self) -> str | None:
        """Marks the run finished and returns its fidelity mark: "ok", "degraded", or None where
        the runtime recorded no invariants.

        Raises SchemaError, and leaves the state to the caller, when a job did not end or its values
        were not all checked and right: such a run has failed.
        """
        self._check_jobs()
        self._status["fidelity"], self._status["reasons"] = self._fidelity()
        self._end("finished")
        return self._status["fidelity"]

    def fail(self, error: str) -> None:
        """Marks the run failed; `error` names the cause, for readers of the folder."""
        self._status["fidelity"], self._status["reasons"] = self._fidelity()
        self._end("failed", error)

    def interrupt(self, error: str = "stopped before its end") -> None:
        """Marks the run interrupted."""
        self._end("interrupted", error)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.state != "running":
            return
        if kind is None:
            self.fail("the run ended without saying how")
        elif issubclass(kind, KeyboardInterrupt):
            self.interrupt()
        else:
            self.fail(shortage(error) or str(error) or kind.__name__)

    def _check_jobs(self) -> None:
        jobs = self._rows["jobs"].to_pylist() if "jobs" in self._rows else []
        if not jobs:
            raise SchemaError("a run without a row in table jobs has not finished")
        for job in jobs:
            name = f"job {job['job']} ({job['name']}), repetition {job['repetition']}"
            times = job["iterations"] * job["workers"]
            if job["outcome"] == "killed":
                continue  # as the experiment asked for
            if job["jct_ns"] is None:
                raise SchemaError(f"{name} did not end: the run has not finished")
            if not job["exact"]:
                raise SchemaError(f"{name} has wrong values: the run has failed")
            # Ranks of a program may get different numbers; `values` is their mean, rounded.
            if job["values_checked"] // times != job["values"]:
                wanted = job["values"] * times
                raise SchemaError(
                    f"{name}: {job['values_checked']} of {wanted} values were checked"
                )

    def _fidelity(self) -> tuple[str | None, list[str]]:
        rows = self._rows["fidelity"].to_pylist() if "fidelity" in self._rows else []
        if not rows:
            return None, []
        reasons = broken(rows)
        return ("degraded" if reasons else "ok"), reasons

    def _end(self, state: str, error: str | None = None) -> None:
        error = error if error is None or len(error) <= LONGEST else error[:LONGEST] + " ..."
        self._status.update(state=state, error=error, ended_utc=now_utc())
        self._save_last_status()
        hand_over(self.folder, below=True)

    def _status_text(self) -> str:
        return json.dumps(self._status, indent=1) + "\n"

    def _reserve(self) -> None:
        """Set aside room for the last status.json, where the file system can."""
        with self._reserved.open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, RESERVED_BYTES)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise

    def _save_last_status(self) -> None:
        text = self._status_text().encode()
        try:
            self._reserved.touch()  # an interrupt may have come before it was made
            with self._reserved.open("r+b") as file:
                file.write(text)
                file.truncate()
            os.replace(self._reserved, self.folder / "status.json")
        except OSError as error:
            raise RunError(cannot_write(self.folder / "status.json", error)) from None

    @property
    def _reserved(self) -> Path:
        return self.folder / ".status.json.last"

    def _save(self, name: str, text: str) -> None:
        write_whole(self.folder / name, text)


def cannot_write(path: Path, error: OSError) -> str:
    """The message about a file that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path} can't be written: {no_room(path.parent)}"
    return f"{path} can't be written: {error.strerror}"
