"""A sweep from its file to its folder: all points are checked first, then run.

Points in virtual time run side by side (`point_pool`), those on Mininet one after the other, since
they would disturb each other.

The folder `results/NAME` holds `sweep.json`, which says what was varied, and one folder per point,
named by the hash of its resolved experiment (but its name) and of all files that it reads
(experiment/inputs.py), in which a run makes its usual results folder. So a sweep that was stopped
goes on where it was: a point with a finished run is not run again, and the rest of an unfinished
one is removed. A point that fails is reported and does not stop the others.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from p4fabric.base.errors import RunError, UserError
from p4fabric.base.linux.whole_files import write_whole
from p4fabric.base.steps import quiet_console, shows_progress, step
from rich.console import Console

from testbed.machine import memory_estimate as memory
from testbed.paths import command_line
from testbed.protocols import compiled, is_shipped
from testbed.results import SWEEP_FILE, hand_over
from testbed.run_parts.program import Program, prepare
from testbed.run_parts.run import Run
from testbed.runner import AS_IT_IS, VIRTUAL, execute, get_ready
from testbed.schemes import set_up
from testbed.setup import Setup
from testbed.sweeps import result_reuse, robustness
from testbed.sweeps.point_pool import AnyPoint, executor, run_points
from testbed.sweeps.slurm_jobs import LOGS, SlurmJobs
from testbed.sweeps.trials import tuned

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    from testbed.experiment import Experiment
    from testbed.experiment.sweep_file import Point, Sweep
    from testbed.sweeps.point_process import Outcome

T = TypeVar("T")
U = TypeVar("U")
Part = tuple[int, int]
Summaries = dict[tuple[str, str], bytes]  # of runs, by a point's key and a run's name
WHOLE: Part = (1, 1)
FORMAT = 1
GLOO = "gloo"  # a job's key `backend`


class Place(NamedTuple):
    """The folder and the console of a sweep's points, and what runs them (see `run_sweep`).
    summaries: of the runs that are made, for `sweep_report`."""

    folder: Path
    console: Console
    processes: int | None
    dask: str | None
    slurm: str | None
    summaries: Summaries


class Carried(NamedTuple):
    """A sweep that has been carried out: its folder, the points that failed with the reasons, and
    the summaries of the others' runs."""

    folder: Path
    failed: list[tuple[Point, str]]
    summaries: Summaries


def tune_here(experiment: Experiment, results: Path, console: Console) -> Experiment:
    """The experiment with the best of what it leaves to be tuned, tried on all processors; itself,
    if that is nothing. Raises UserError and RunError."""
    processes = os.cpu_count() or 1
    if experiment.tuning is None or experiment.runtime != VIRTUAL or processes == 1:
        return tuned(experiment, results, console)
    with executor(processes) as pool:
        return tuned(experiment, results, console, pool)


def run_sweep(
    sweep: Sweep,
    results: Path,
    processes: int | None = None,
    dask: str | None = None,
    slurm: str | None = None,
    share: bool = False,
    report: bool = True,
    as_json: bool = False,
    part: Part = WHOLE,
) -> int:
    """Run all points that have not finished yet; the sweep's folder goes below `results`.

    `processes` (None: one per processor): how many points in virtual time run at once; or the
    address of a `dask` scheduler: what runs all points, those on Mininet one at a time on each
    machine; or the settings of `slurm` jobs (slurm_jobs.py). `share`: take over what sweeps beside
    it have run. `report`: False for no
    figures and no report.html. as_json: standard output is the table's numbers as JSON, and
    everything else goes to standard error. part: (k, n), to run the k-th of n parts of the points
    alone, as a job of a job array does; what has all of them is reported. Returns the exit code: 1
    if a point failed, or a check of its jobs. Raises UserError before anything is run."""
    console = Console(stderr=as_json)
    folder, failed, summaries = carry_out(
        sweep, results, console, processes, dask, slurm, share, part
    )
    from testbed.analysis.data.serving_data import failures
    from testbed.analysis.data.sweep_data import read_sweep
    from testbed.analysis.report import of_what_has_finished, report_json, sweep_report

    missing = len(_unfinished(sweep, results))
    if part != WHOLE and missing:
        console.print(
            f"part {part[0]} of {part[1]} has ended; {missing} of {len(sweep.points)} points are"
            f" missing. When all have finished: {command_line(f'report {folder}')}",
            **AS_IT_IS,
        )
    else:
        with of_what_has_finished(folder):
            quiet = quiet_console() if as_json else None
            sweep_report(folder, quiet, draw=report, again=False, known=summaries)
    if as_json:
        report_json([folder], summaries)
    said = [f"failed: {point.label}: {error}" for point, error in failed]
    if any(_has_checks(point.experiment) for point in sweep.points):
        for point in read_sweep(folder).points:
            if point.results is not None and point.results.finished:
                said += [f"{point.title()}: {each}" for each in failures(point.results)]
    for each in said:
        print(each, file=sys.stderr)
    return 1 if said else 0


def _has_checks(experiment: Experiment) -> bool:
    """True if a job serves a model, with checks of its requests."""
    models = (job.model for job in experiment.jobs)
    return any(not isinstance(each, str | None) and each.checks is not None for each in models)


def carry_out(
    sweep: Sweep,
    results: Path,
    console: Console,
    processes: int | None = None,
    dask: str | None = None,
    slurm: str | None = None,
    share: bool = False,
    part: Part = WHOLE,
) -> Carried:
    """Run all points that have not finished yet, as `run_sweep` does. Shows the progress on
    `console`."""
    number, parts = part
    if sweep.robust and part != WHOLE:
        raise UserError("--points runs a part of the points, and robust compares all of them")
    if parts > len(sweep.points):
        raise UserError(f"{parts} parts of a sweep of {len(sweep.points)} points: take fewer")
    own = sweep.points[number - 1 :: parts]
    todo = _unfinished(sweep, results, own)
    if slurm is not None:
        if emulated := _emulated(todo):
            raise UserError(
                f"--slurm runs points in virtual time; {len(emulated)} of these are on Mininet,"
                " which needs root and the machine: run them without --slurm, or with --dask"
            )
        SlurmJobs(slurm, results / sweep.name / LOGS).shutdown()  # says what is wrong with it
    if dask is None:
        get_ready([point.experiment for point in sweep.points])
    else:  # its workers get ready themselves; they are looked at before anything is compiled
        from testbed.sweeps.dask_cluster import exposure

        if open_to := exposure(dask):
            print(f"warning: {open_to}", file=sys.stderr)
        with executor(dask=dask, as_root=bool(_emulated(todo))):
            pass
    setups: dict[str, Setup] = {}
    with step(console, "estimating the memory that the points take"):
        for point in todo:
            setups[point.key] = _at_point(point, set_up, point.experiment)
        if dask is None and slurm is None:  # of a cluster's machines nothing is known
            _require_memory(todo, setups, processes)
    programs: dict[str, Program] = {}
    once = functools.partial(prepare, known={})
    with step(console, lambda: f"compiling P4 programs: {len(programs)} of {len(todo)} points"):
        for point in todo:
            programs[point.key] = _at_point(point, once, setups[point.key])
    from testbed.experiment.sweep_file import other_workers

    of_points = [each for point in sweep.points for each in point.experiment.warnings]
    for warning in dict.fromkeys([*of_points, *other_workers(sweep.points)]):
        print(f"warning: {warning}", file=sys.stderr)
    again = result_reuse.why_again(todo, results / sweep.name)
    folder = _open_folder(sweep, results)
    console.print(f"results: {folder}", highlight=False, soft_wrap=True)
    if len(todo) < len(own):
        _tell_finished(own, len(todo), folder, console)
    for sentence in again:
        console.print(sentence, **AS_IT_IS)
    if share and (taken := result_reuse.take_over(todo, folder)):
        console.print(f"{taken} of the others are taken over from other figures")
        todo = _unfinished(sweep, results, own)
    try:
        place = Place(folder, console, processes, dask, slurm, {})
        failed = _run_points(todo, setups, programs, place)
        if sweep.robust and not failed:
            failed = _vary(sweep, place)
        return Carried(folder, failed, place.summaries)
    except KeyboardInterrupt:
        kept = len(sweep.points) - len(_unfinished(sweep, results))
        print(
            f"{kept} of {len(sweep.points)} points are kept in {folder}; {_again()} goes on with"
            " the others",
            file=sys.stderr,
        )
        raise


def _vary(sweep: Sweep, place: Place) -> list[tuple[Point, str]]:
    """Run what shows how far the verdicts of a sweep hold, and note it in the sweep's file; returns
    the runs that failed."""
    folder, console = place.folder, place.console
    with step(console, "working out what is varied"):
        plan = robustness.plan_of(sweep, folder, sweep.robust)
    file = folder / SWEEP_FILE
    described = {**json.loads(file.read_text()), "robust": plan.as_data()}
    write_whole(file, json.dumps(described, indent=1) + "\n")
    hand_over(file)
    points = {each.point.key: each.point for each in plan.runs}
    varied = replace(sweep, points=tuple(points.values()))
    todo = _unfinished(varied, folder.parent)
    console.print(
        f"robust: {len(todo)} further runs of {len(plan.runs)} ({len(plan.compared)} of"
        f" {plan.comparisons} comparisons)",
        **AS_IT_IS,
    )
    setups = {point.key: set_up(point.experiment) for point in todo}
    once = functools.partial(prepare, known={})
    programs = {key: once(setup) for key, setup in setups.items()}
    return _run_points(todo, setups, programs, place)


def _again() -> str:
    """The command, or the call of a program, that continues an interrupted sweep."""
    if Path(sys.argv[0]).name in ("run.py", "ina"):
        return f"`{command_line(shlex.join(sys.argv[1:]), root=os.geteuid() == 0)}`"
    return "the same call"


def _require_memory(todo: list[Point], setups: Mapping[str, Setup], processes: int | None) -> None:
    """Make sure that what runs at a time fits. Raises UserError."""
    emulated = [point.key for point in _emulated(todo)]
    titles = {point.key: f"the sweep's point {point.label}" for point in todo}
    virtual = {titles[key]: each for key, each in setups.items() if key not in emulated}
    memory.require(virtual, processes or os.cpu_count() or 1)
    memory.require({titles[key]: setups[key] for key in emulated})


def _at_point(point: Point, call: Callable[[T], U], argument: T) -> U:
    """The call's result. Raises UserError that names the point."""
    try:
        return call(argument)
    except UserError as error:
        raise UserError(f"{error}\n  at the sweep's point {point.label}") from None


def _open_folder(sweep: Sweep, results: Path) -> Path:
    """Make the sweep's folder, or find it, and note the varied keys in it."""
    from testbed.experiment.sweep_file import system_titles

    folder = results / sweep.name
    titles = system_titles(sweep.points)
    described = {
        "format": FORMAT,
        "name": sweep.name,
        "keys": list(sweep.keys),
        "points": [_described(point, titles) for point in sweep.points],
    }
    if sweep.figure is not None:
        described["figure"] = sweep.figure.model_dump(exclude_unset=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / SWEEP_FILE, json.dumps(described, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"can't make the sweep's folder {folder}: {error.strerror}") from None
    hand_over(folder, below=True)
    return folder


def _described(point: Point, titles: dict[str, str]) -> dict:
    """A point for analysis: each value as text and, where it is one, as a number; the name of its
    system in a legend. Where all sums are gloo's, no system has a part in them."""
    from p4fabric.base.config.value_lists import number_of

    from testbed.experiment.sweep_file import shown

    values: dict[str, dict[str, Any]] = {
        key: {"text": shown(value), "number": number_of(value)}
        for key, value in point.values.items()
    }
    for key in values:
        if key.startswith("jobs[") and key.endswith(".backend"):
            values[key]["in_legend"] = False
    by_gloo = all(job.backend == GLOO for job in point.experiment.jobs)
    if "system" in values:
        values["system"]["title"] = GLOO if by_gloo else titles[values["system"]["text"]]
    system = GLOO if by_gloo else point.experiment.system.name
    return {"key": point.key, "system": system, "values": values}


def _run_points(
    todo: list[Point],
    setups: Mapping[str, Setup],
    programs: Mapping[str, Program],
    place: Place,
) -> list[tuple[Point, str]]:
    """Run points with their set-ups and programs, by the points' keys; returns those that failed,
    with why."""
    folder, console, processes, dask, slurm, summaries = place
    for point in todo:
        shutil.rmtree(folder / point.key, ignore_errors=True)
    virtual = [point for point in todo if point.experiment.runtime == VIRTUAL]
    elsewhere = dask is not None or slurm is not None
    at_once = 1 if elsewhere or not virtual else min(processes or os.cpu_count() or 1, len(virtual))
    teller: PointReporter[Point] = PointReporter(len(todo), at_once, console)

    def in_pool(
        points: list[Point],
        pool: AbstractContextManager[Executor],
        call: Callable[[Experiment, str], Outcome] | None = None,
    ) -> None:
        with pool as workers, step(console, teller.state):
            for point, (error, run, summary) in run_points(workers, points, folder, call):
                if not error:
                    result_reuse.remove_unfinished(folder / point.key)
                if run:
                    summaries[point.key, run] = summary
                teller.ended(point, error)

    if virtual:
        in_pool(virtual, executor(processes, dask, slurm, logs=folder / LOGS))
    emulated = _emulated(todo)
    if emulated and dask:
        from testbed.sweeps.point_process import run_alone

        in_pool(emulated, executor(dask=dask, as_root=True), run_alone)
    elif emulated:
        from testbed.analysis.report import after_run
        from testbed.emulate.mininet_run import shared_session

        ready: dict[str, Experiment] = {}
        for point in emulated:  # trials have the machine for themselves, too
            try:
                ready[point.key] = tuned(point.experiment, folder.parent, console)
            except RunError as raised:
                teller.ended(point, str(raised))
        emulated = [point for point in emulated if point.key in ready]
        if not emulated:
            return teller.failed
        with shared_session(setups[point.key] for point in emulated) as shared:
            for point in emulated:
                teller.begins(point)
                try:
                    experiment, setup = ready[point.key], setups[point.key]
                    if experiment.tuned is not None:
                        setup = set_up(experiment)
                    this = Run(experiment, setup, programs[point.key], console)
                    made = execute(this, folder / point.key, shared=shared)
                    after_run(made, quiet_console(), draw=False)
                    error = ""
                except RunError as raised:
                    error = str(raised)
                teller.ended(point, error)
    return teller.failed


class PointReporter(Generic[AnyPoint]):
    """Reports each point's beginning and end, and about how long the rest will take."""

    def __init__(self, count: int, at_once: int, console: Console) -> None:
        """count: of all points. at_once: number of points that run side by side."""
        self.failed: list[tuple[AnyPoint, str]] = []
        self._count = count
        self._at_once = at_once
        self._console = console
        self._ended = 0
        self._warm_s = 0.0  # time at which the first ones had ended
        cold = not (compiled() or is_shipped())
        self._first = ": compiling the hosts' protocols, once (some minutes)" if cold else ""

    def state(self) -> str:
        """Progress, and an estimate of the time left."""
        first = "" if self._ended else self._first
        return f"{self._ended} of {self._count} points{self._rest()}{first}"

    def _rest(self) -> str:
        """Measured on all points but the first ones, which also load and compile."""
        measured = self._ended - self._at_once
        if measured < 1 or self._ended == self._count:
            return ""
        each = (time.monotonic() - self._warm_s) / measured
        left = each * (self._count - self._ended)
        return f", about {left / 60:.0f} min left" if left >= 90 else f", about {left:.0f} s left"

    def begins(self, point: AnyPoint) -> None:
        self._say(f"point {self._ended + 1} of {self._count}: {point.label}")

    def ended(self, point: AnyPoint, error: str) -> None:
        self._ended += 1
        if self._ended == self._at_once:
            self._warm_s = time.monotonic()
        if error:
            self.failed.append((point, error))
        how = f"failed: {error}" if error else "done"
        said = f"{self._ended} of {self._count}{self._rest()}: {how}: {point.label}"
        self._say(said, needed=bool(error))

    def _say(self, text: str, needed: bool = False) -> None:
        if needed or shows_progress(self._console):
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _emulated(points: list[Point]) -> list[Point]:
    """Points that run on Mininet, one after the other."""
    return [point for point in points if point.experiment.runtime != VIRTUAL]


def _unfinished(sweep: Sweep, results: Path, points: Sequence[Point] | None = None) -> list[Point]:
    """Those of these points of a sweep, or of all, that have not finished."""
    folder = results / sweep.name
    among = sweep.points if points is None else points
    return [point for point in among if not result_reuse.is_done(folder / point.key)]


def _tell_finished(points: Sequence[Point], todo: int, folder: Path, console: Console) -> None:
    console.print(f"{len(points) - todo} of {len(points)} points have finished before")
    if other := result_reuse.of_other_code(points, folder):
        console.print(
            f"{other} of them at another commit, or with changes since; to run them again,"
            f" remove {folder}",
            highlight=False,
            soft_wrap=True,
        )
