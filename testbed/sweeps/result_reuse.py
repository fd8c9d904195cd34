"""Points of a sweep that have been run already: by an earlier call, or by another figure.

`finished` finds the runs of a point in its own folder. Figures look at the same setting from
several sides, so they have experiments in common: the same key, since a key leaves out the name.
Results of the same code, a commit of this checkout without changes, would come out the same again.
They are copied, so that each sweep's folder can be moved or removed by itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.results import SWEEP_FILE, Results, checkout, find, read

if TYPE_CHECKING:
    from testbed.experiment.sweep import Point


def finished(parent: Path) -> list[Results]:
    """The finished runs of a point's folder, oldest first."""
    return [run for run in map(read, find(parent)) if run.finished]


def remove_unfinished(parent: Path) -> None:
    """Remove the unfinished runs of a point that has finished: a killed worker left them."""
    runs = [read(folder) for folder in find(parent)]
    if any(run.finished for run in runs):
        for run in runs:
            if not run.finished:
                shutil.rmtree(run.folder, ignore_errors=True)


def take_over(points: Sequence[Point], folder: Path) -> int:
    """Copy from sweeps beside `folder` the `points` that are missing in it; returns their
    number."""
    code = checkout()
    if code["commit"] is None or code["dirty"] is not False:
        return 0
    beside = [path.parent for path in folder.parent.glob(f"*/{SWEEP_FILE}")]
    taken = 0
    for point in points:
        if finished(folder / point.key):
            continue
        known = (run for other in beside for run in finished(other / point.key))
        run = next((run for run in known if is_of(code, run)), None)
        if run is not None:
            target = folder / point.key / run.folder.name
            shutil.rmtree(target.parent, ignore_errors=True)  # remains of an unfinished run
            half = folder / f"{point.key}.part"  # an interrupted copy must not look like a run
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(run.folder, half / run.folder.name)
            half.rename(target.parent)
            taken += 1
    return taken


def of_other_code(points: Sequence[Point], folder: Path) -> int:
    """The number of points that have finished with code other than this checkout's."""
    code = checkout()
    runs = (finished(folder / point.key)[-1:] for point in points)
    return sum(not is_of(code, run) for last in runs for run in last)


def is_of(code: dict, run: Results) -> bool:
    """True if a run was made by this code."""
    return all(run.environment.get(key) == code[key] for key in ("commit", "dirty"))
