"""Work in child processes with a time limit, so that one test cannot take the others with it.

A program under test is compiled to native code: an endless loop in it, or a defect in what it was
compiled to, would otherwise end or stall the run of a whole folder. Each task is a fork that sends
its result back through a pipe; a fork that is silent for too long, or ends without a result, is a
result too. The forks are leaders of their own process groups, so that a C compiler that a task has
started ends with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeAlias, cast

_Pipe: TypeAlias = "Connection[Any, Any]"
_FORK = multiprocessing.get_context("fork")


class TaskFailed(Exception):
    """A task that gave no result; the message says why."""


def run_all(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    limit_s: float,
    workers: int | None = None,
) -> Iterator[tuple[Any, float]]:
    """function(*task) for each task, in forks, `workers` at a time (default: one per CPU).

    Yields (result, seconds) in the order of the tasks; the result is a `TaskFailed` for a task that
    took longer than `limit_s` seconds or ended without a result. Results must be picklable.
    """
    workers = workers or len(os.sched_getaffinity(0))
    running: dict[_Pipe, tuple[int, Any, float]] = {}
    done: dict[int, tuple[Any, float]] = {}
    following = shown = 0
    try:
        while shown < len(tasks):
            while following < len(tasks) and len(running) < workers:
                connection, process = _start(function, tasks[following])
                running[connection] = (following, process, time.monotonic())
                following += 1
            deadline = min(begin for _, _, begin in running.values()) + limit_s
            ready = cast(list[_Pipe], wait(list(running), max(0.0, deadline - time.monotonic())))
            now = time.monotonic()
            late = [c for c, (_, _, begin) in running.items() if now >= begin + limit_s]
            for connection in {*ready, *late}:
                number, process, begin = running.pop(connection)
                result = _finish(connection, process, connection in ready, limit_s)
                done[number] = (result, time.monotonic() - begin)
            while shown in done:
                yield done.pop(shown)
                shown += 1
    finally:
        for connection, (_, process, _) in running.items():
            _finish(connection, process, False, limit_s)


def _start(function: Callable[..., Any], task: tuple[Any, ...]) -> tuple[_Pipe, Any]:
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_work, args=(function, task, theirs))
    process.start()
    theirs.close()
    return ours, process


def _work(function: Callable[..., Any], task: tuple[Any, ...], connection: _Pipe) -> None:
    os.setpgid(0, 0)
    connection.send(function(*task))


def _finish(connection: _Pipe, process: Any, ready: bool, limit_s: float) -> Any:
    """The result of a task that has one, or has died, or has had its time."""
    try:
        result = connection.recv() if ready else TaskFailed(f"stopped after {limit_s:g} seconds")
    except EOFError:
        process.join()
        code = process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        result = TaskFailed(f"ended without a result ({how})")
    connection.close()
    if not ready:
        for kill in (os.killpg, os.kill):  # the group exists only after the fork's first line
            try:
                kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    process.join()
    return result
