"""A sweep from its file to its folder: all points checked first, then one after the other.

The folder `results/NAME` holds `sweep.json`, which says what was varied, and one folder per point,
named by the hash of its resolved experiment, in which a run makes its usual results folder. So a
sweep that was stopped goes on where it was: a point with a finished run is not run again, and what
an unfinished one has left is removed. A point that fails is reported and does not stop the others.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from testbed.errors import RunError, UserError
from testbed.results import find, hand_over, read
from testbed.run.program import prepare
from testbed.run.runtimes import get_ready, run_experiment

if TYPE_CHECKING:
    from testbed.experiment.sweep import Point, Sweep

FILE = "sweep.json"
FORMAT = 1


def run_sweep(path: Path, results: Path) -> int:
    """Run all points of a file that have not finished yet; its folder goes below `results`.

    Returns the exit code: 1 if a point failed. Raises UserError before anything is run."""
    from testbed.experiment.sweep import load_sweep

    sweep = load_sweep(path)
    get_ready({point.experiment.runtime for point in sweep.points})
    console = Console()
    for point in sweep.points:
        try:
            prepare(point.experiment)
        except UserError as error:
            raise UserError(f"{error}\n  at the sweep's point {point.label}") from None
    for warning in dict.fromkeys(
        each for point in sweep.points for each in point.experiment.warnings
    ):
        print(f"warning: {warning}", file=sys.stderr)
    folder = _open_folder(sweep, results)
    console.print(f"results: {folder}", highlight=False, soft_wrap=True)
    failed = _run_points(sweep, folder, console)
    from analysis.report import sweep_report

    sweep_report(folder)
    for point, error in failed:
        print(f"failed: {point.label}: {error}", file=sys.stderr)
    return 1 if failed else 0


def _open_folder(sweep: Sweep, results: Path) -> Path:
    """Make the sweep's folder, or find it, and note what is varied in it."""
    folder = results / sweep.name
    described = {
        "format": FORMAT,
        "name": sweep.name,
        "keys": list(sweep.keys),
        "points": [_described(point) for point in sweep.points],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't make the sweep's folder {folder}: {error.strerror}") from None
    hand_over(folder, below=True)
    return folder


def _described(point: Point) -> dict:
    """What analysis needs of a point: each value as text and, where it is one, as a number."""
    from testbed.experiment.sweep import number_of, shown

    values = {
        key: {"text": shown(value), "number": number_of(value)}
        for key, value in point.values.items()
    }
    return {"key": point.key, "system": point.experiment.system.name, "values": values}


def _run_points(sweep: Sweep, folder: Path, console: Console) -> list[tuple[Point, str]]:
    """Run what has not finished; returns the points that failed, with why."""
    failed: list[tuple[Point, str]] = []
    spent: list[float] = []
    count = len(sweep.points)
    todo = [point for point in sweep.points if not _finished(folder / point.key)]
    if len(todo) < count:
        console.print(f"{count - len(todo)} of {count} points have finished before")
    for number, point in enumerate(todo):
        left = f", about {_minutes(spent, len(todo) - number)} left" if spent else ""
        title = f"point {number + 1} of {len(todo)}{left}: {point.label}"
        console.print(title, markup=False, highlight=False, soft_wrap=True)
        started = time.monotonic()
        parent = folder / point.key
        shutil.rmtree(parent, ignore_errors=True)
        try:
            run_experiment(point.experiment, prepare(point.experiment), parent, console)
        except RunError as error:
            failed.append((point, str(error)))
            console.print(f"failed: {error}", style="red", markup=False)
        spent.append(time.monotonic() - started)
    return failed


def _finished(parent: Path) -> bool:
    return any(read(each).finished for each in find(parent))


def _minutes(spent: list[float], points: int) -> str:
    seconds = sum(spent) / len(spent) * points
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
