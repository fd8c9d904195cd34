"""SLURM jobs that run points of a sweep, submitted with the package submitit.

A point is sent as its experiment, as to a Dask cluster, and makes its results folder itself. What
is submitted within a moment becomes one job array. A job that is lost costs its point alone, which
the next call of the sweep runs again.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from p4fabric.base.errors import RunError, UserError, did_you_mean, sentence
from p4fabric.base.program import pip_install

if TYPE_CHECKING:
    import submitit

P = ParamSpec("P")
T = TypeVar("T")

GATHER_S = 0.5  # for what is submitted together
LOOK_S = 1.0  # between two looks at the jobs
TIMEOUT_MIN = 60  # of a job, where nothing else is asked for
LOGS = "slurm"  # below the sweep's folder: what the jobs have written
LOCAL = "local"  # submitit's executor of processes on this machine, to try a sweep without SLURM
FORM = "KEY=VALUE,..., such as partition=short,timeout_min=30"


class SlurmJobs(Executor):
    """An executor of SLURM jobs."""

    def __init__(self, settings: str, logs: Path) -> None:
        """settings: submitit's parameters, KEY=VALUE with commas between them. logs: a folder for
        what the jobs write. Raises UserError where there is no SLURM, or a setting that it does not
        have."""
        self._executor = _executor(settings, logs)
        self._new: list[tuple[Future, Callable[[], object]]] = []
        self._running: list[tuple[Future, submitit.Job]] = []
        self._changing = threading.Lock()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[P, T], /, *given: P.args, **options: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._changing:
            self._new.append((future, functools.partial(call, *given, **options)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End; with `cancel_futures`, cancel the jobs that have not ended."""
        self._ends.set()
        self._thread.join()
        for _, job in self._running if cancel_futures else ():
            job.cancel(check=False)

    def _watch(self) -> None:
        while not self._ends.wait(GATHER_S if self._new else LOOK_S):
            with self._changing:
                new, self._new = self._new, []
            if new:
                with self._executor.batch():
                    jobs = [self._executor.submit(call) for _, call in new]
                self._running += [(each[0], job) for each, job in zip(new, jobs, strict=True)]
            for future, job in [pair for pair in self._running if pair[1].done()]:
                self._running.remove((future, job))
                _settle(future, job)


def _settle(future: Future[object], job: submitit.Job) -> None:
    """Hand on what a job has returned or raised, or that it was lost."""
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        future.set_result(job.result())
    except (FailedJobError, UncompletedJobError) as error:
        # Of an exception there, submitit hands on the traceback as text.
        raised = re.findall(r"^[\w.]+: .*", str(error), re.MULTILINE)
        why = raised[-1] if raised else str(job.state).lower()
        said = f"SLURM job {job.job_id} has ended ({why}); its output is in {job.paths.stderr}"
        future.set_exception(RunError(said))
    except Exception as error:
        future.set_exception(error)


def _executor(settings: str, logs: Path) -> submitit.Executor:
    try:
        import submitit
    except ImportError:
        raise UserError(f"--slurm needs the package submitit: {pip_install()} submitit") from None
    given = _parsed(settings)
    cluster = given.pop("cluster", "slurm")
    if cluster not in ("slurm", LOCAL):
        raise UserError(f"--slurm: cluster: found {cluster}; allowed: slurm, {LOCAL}")
    if cluster == "slurm" and not submitit.SlurmExecutor.affinity() >= 0:
        raise UserError(
            "--slurm: this machine has no SLURM (no command srun); cluster=local tries a sweep"
            " without"
        )
    made = submitit.AutoExecutor(folder=logs, cluster=cluster)
    shared = submitit.AutoExecutor._typed_parameters()
    own = submitit.SlurmExecutor._valid_parameters()
    parameters: dict[str, object] = {"timeout_min": TIMEOUT_MIN, "name": "ina"}
    for key, text in given.items():
        if key not in shared and key not in own:
            hint = did_you_mean(key, [*shared, *own])
            raise UserError(sentence(f"--slurm: there is no setting {key!r}", hint, FORM))
        kind = shared.get(key, str)
        try:
            value: object = kind(text) if kind in (int, float) else text
        except ValueError:
            raise UserError(f"--slurm: {key}: found {text!r}; allowed: a number") from None
        parameters[key if key in shared else f"slurm_{key}"] = (
            int(value) if isinstance(value, str) and value.isdecimal() else value
        )
    made.update_parameters(**parameters)
    return made


def _parsed(settings: str) -> dict[str, str]:
    found = {}
    for part in filter(None, settings.split(",")):
        key, sign, value = part.partition("=")
        if not (key and sign and value):
            raise UserError(f"--slurm: found {part!r}; allowed: {FORM}")
        found[key.strip()] = value.strip()
    return found
