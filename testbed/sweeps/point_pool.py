"""Points of a sweep in virtual time, several at once: on this machine's processors or a Dask
cluster's.

Both are a `concurrent.futures` executor here. A point is sent as its experiment and makes its
results folder itself, so a cluster's machines must share the folder, under the same path.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

from testbed.errors import RunError, UserError, shortage
from testbed.linux import memory_limits
from testbed.linux.kernel import die_with_parent
from testbed.sweeps.point_process import run_point

if TYPE_CHECKING:
    pass


@contextlib.contextmanager
def executor(
    processes: int | None = None, dask: str | None = None, as_root: bool = False
) -> Iterator[Executor]:
    """`processes` at a time on this machine (None: one per processor), or, with `dask`, the workers
    of the scheduler of that address; as_root: only its workers that are root. Raises UserError when
    there is no such scheduler, or a worker cannot run points."""
    if dask is not None:
        from testbed.sweeps.dask_cluster import connected, root_workers

        with connected(dask) as (client, workers):
            some = {"workers": root_workers(workers)} if as_root else {}
            yield client.get_executor(pure=False, **some)
        return
    with os.fdopen(os.memfd_create("points"), "wb") as calls:
        pool = _Pool(processes or os.cpu_count(), _Spawning(), _begin, (os.getpid(),))
        pool.calls = calls
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                if isinstance(process, _Process):  # its unfinished point is of no use
                    process.kill()
            raise
        pool.shutdown()


class _Pool(ProcessPoolExecutor):
    """Sends what is called through a file in memory, and through its pipe only where it is there:
    the experiment of a cluster is larger than a pipe's buffer. A ProcessPoolExecutor waits for ever
    until its pipe has been read, even if the processes that should read it have been killed
    (CPython's issue 94777)."""

    calls: BinaryIO

    def submit(self, call: Callable[..., Any], /, *given: Any, **options: Any) -> Future[Any]:
        start = self.calls.tell()
        pickle.dump((call, given, options), self.calls)
        self.calls.flush()
        return super().submit(_called, f"/proc/{os.getpid()}/fd/{self.calls.fileno()}", start)


def _called(path: str, start: int) -> Any:
    with open(path, "rb") as calls:
        calls.seek(start)
        call, given, options = pickle.load(calls)
    return call(*given, **options)


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
    """A point: `key` names its folder, `label` says which one it is, and `experiment` is handed to
    the call that runs it."""

    @property
    def key(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def experiment(self) -> Any: ...


AnyPoint = TypeVar("AnyPoint", bound=Runnable)


def run_points(
    pool: Executor,
    points: Iterable[AnyPoint],
    folder: Path,
    call: Callable[[Any, str], str] | None = None,
) -> Iterator[tuple[AnyPoint, str]]:
    """Run points below `folder`; gives each with why it failed ("": it did not), as they end.
    call: what runs one; None: `run_point`."""
    place = folder.absolute()  # others may stand in another folder
    kills = memory_limits.kills()
    waiting = {
        pool.submit(call or run_point, point.experiment, str(place / point.key)): point
        for point in points
    }
    for future in as_completed(waiting):
        try:
            error = future.result()
        except (RunError, UserError) as reason:
            error = str(reason)
        except BrokenProcessPool:
            error = _lost(memory_limits.kills() > kills)
        except Exception as broken:  # the process is gone, or a defect; the others go on
            error = shortage(broken) or f"{type(broken).__name__}: {broken}"
        yield waiting[future], error


def _lost(killed: bool) -> str:
    if killed:
        return f"memory ran out, and the kernel ended a process; {memory_limits.advice()}"
    return (
        "a process of the sweep ended suddenly, and the others with it; run the sweep again for"
        " the points that are left"
    )


def _begin(parent: int) -> None:
    """Begin a new process of the pool: it ends at once with Ctrl-C, and with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent(parent)
