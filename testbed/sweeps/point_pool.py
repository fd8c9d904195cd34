"""Points of a sweep in virtual time, several at once: on this machine's processors, a Dask
cluster's, or those of SLURM jobs.

All are a `concurrent.futures` executor here. A point is sent as its experiment and makes its
results folder itself, so a cluster's machines must share the folder, under the same path.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from p4fabric.base.errors import RunError, UserError, shortage
from p4fabric.base.linux import memory_limits

from testbed.sweeps.call_process import CallProcess, ProcessLost
from testbed.sweeps.point_process import Outcome, run_point

P = ParamSpec("P")
T = TypeVar("T")


@contextlib.contextmanager
def executor(
    processes: int | None = None,
    dask: str | None = None,
    slurm: str | None = None,
    *,
    as_root: bool = False,
    logs: Path = Path(),
) -> Iterator[Executor]:
    """`processes` at a time on this machine (None: one per processor), or, with `dask`, the workers
    of the scheduler of that address; as_root: only its workers that are root. With `slurm`, jobs of
    these settings, which write into `logs`. Raises UserError when there is no such scheduler, or a
    worker cannot run points."""
    if dask is not None:
        from testbed.sweeps.dask_cluster import connected, root_workers

        with connected(dask) as (client, workers):
            some = {"workers": root_workers(workers)} if as_root else {}
            yield client.get_executor(pure=False, **some)
        return
    if slurm is not None:
        from testbed.sweeps.slurm_jobs import SlurmJobs

        jobs = SlurmJobs(slurm, logs)
        try:
            yield jobs
        finally:
            jobs.shutdown(cancel_futures=True)
        return
    pool = _Processes(processes or os.cpu_count() or 1)
    try:
        yield pool
    except BaseException:
        pool.abandon()
        raise
    pool.shutdown()


class _Processes(ThreadPoolExecutor):
    """Calls are carried out by processes (`call_process`), one per thread of this pool. A process
    that is lost costs its call; the thread's next call gets a new one."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._mine = threading.local()
        self._changing = threading.Lock()
        self._living: set[CallProcess] = set()
        self._abandoned = False

    def submit(self, call: Callable[P, T], /, *given: P.args, **options: P.kwargs) -> Future[T]:
        return super().submit(self._carry_out, call, *given, **options)

    def _carry_out(self, call: Callable[P, T], /, *given: P.args, **options: P.kwargs) -> T:
        process = getattr(self._mine, "process", None) or self._new()
        try:
            return process(call, *given, **options)
        except ProcessLost:
            self._mine.process = None
            with self._changing:
                self._living.discard(process)
            raise

    def _new(self) -> CallProcess:
        with self._changing:
            if self._abandoned:
                raise CancelledError
            self._mine.process = CallProcess()
            self._living.add(self._mine.process)
        return self._mine.process

    def abandon(self) -> None:
        """End all processes at once: their unfinished calls are of no use."""
        super().shutdown(wait=False, cancel_futures=True)
        with self._changing:
            self._abandoned = True
            for process in self._living:
                process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        for process in self._living:
            process.close()


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
    call: Callable[[Any, str], Outcome] | None = None,
) -> Iterator[tuple[AnyPoint, Outcome]]:
    """Run points below `folder`; gives each with its outcome, as they end. call: what runs one;
    None: `run_point`."""
    place = folder.absolute()  # others may stand in another folder
    kills = memory_limits.kills()
    waiting = {
        pool.submit(call or run_point, point.experiment, str(place / point.key)): point
        for point in points
    }
    for future in as_completed(waiting):
        point = waiting.pop(future)  # what a cluster still waits for, it runs again if it loses it
        try:
            outcome = future.result()
        except (RunError, UserError) as reason:
            outcome = Outcome(str(reason))
        except ProcessLost:
            outcome = Outcome(_lost(memory_limits.kills() > kills))
        except Exception as broken:  # a defect; the others go on
            outcome = Outcome(shortage(broken) or f"{type(broken).__name__}: {broken}")
        yield point, outcome


def _lost(killed: bool) -> str:
    if killed:
        return f"memory ran out, and the kernel ended a process; {memory_limits.advice()}"
    return "a process of the sweep ended suddenly; run the sweep again for the points that are left"
