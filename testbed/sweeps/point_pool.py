"""Points of a sweep in virtual time, several at once: on this machine's processors or a Dask
cluster's.

Both are a `concurrent.futures` executor here. A point is sent as its experiment and makes its
results folder itself, so a cluster's machines must share the folder (and have this checkout).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from testbed.errors import RunError, UserError
from testbed.linux.kernel import die_with_parent
from testbed.steps import quiet_console

if TYPE_CHECKING:
    from testbed.experiment import Experiment


@contextlib.contextmanager
def executor(processes: int | None = None, dask: str | None = None) -> Iterator[Executor]:
    """`processes` at a time on this machine (None: one per processor), or, with `dask`, what the
    scheduler of that address has. Raises UserError when there is no such scheduler."""
    if dask is not None:
        with _dask_client(dask) as client:
            yield client.get_executor(pure=False)
        return
    pool = ProcessPoolExecutor(processes or os.cpu_count(), _Spawning(), _begin, (os.getpid(),))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            if isinstance(process, _Process):  # what it has of its point is of no use
                process.kill()
        raise
    pool.shutdown()


class _Process(SpawnProcess):
    """A new process that does not import the program that is running. `spawn` would have it do so;
    a script that calls `testbed.sweep` at its top would then run a sweep in each process."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        started = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process_obj)  # type: ignore[attr-defined]
        finally:
            sys.modules["__main__"] = started


class _Spawning(SpawnContext):
    """Spawned, not forked: a process starts without the handlers and threads of the one that
    runs."""

    Process = _Process


class Runnable(Protocol):
    """What can be run: `key` is the name of its folder."""

    @property
    def key(self) -> str: ...

    @property
    def experiment(self) -> Experiment: ...


AnyPoint = TypeVar("AnyPoint", bound=Runnable)


def run_points(
    pool: Executor, points: Iterable[AnyPoint], folder: Path
) -> Iterator[tuple[AnyPoint, str]]:
    """Run points below `folder`; gives each with why it failed ("": it did not), as they end."""
    waiting = {
        pool.submit(run_point, point.experiment, str(folder / point.key)): point for point in points
    }
    for future in as_completed(waiting):
        try:
            error = future.result()
        except Exception as broken:  # the process is gone, or a defect; the others go on
            error = f"{type(broken).__name__}: {broken}"
        yield waiting[future], error


def run_point(experiment: Experiment, parent: str) -> str:
    """Run one experiment and write its report.txt; its results folder goes below `parent`. Returns
    why it failed, or ""."""
    from testbed.analysis.report import after_run
    from testbed.runner import run_experiment
    from testbed.runtimes.program import prepare

    quiet = quiet_console()
    try:
        folder = run_experiment(experiment, prepare(experiment), Path(parent), quiet)
        after_run(folder, quiet, draw=False)
    except (RunError, UserError) as error:
        return str(error)
    return ""


def _begin(parent: int) -> None:
    """In a new process of the pool: it ends at once with Ctrl-C, and with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent(parent)


def _dask_client(address: str):
    try:
        from dask.distributed import Client
    except ImportError:
        raise UserError(
            "--dask needs the package distributed: .venv/bin/pip install distributed"
        ) from None
    try:
        return Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise UserError(f"there is no Dask scheduler at {address}: {error}") from None
