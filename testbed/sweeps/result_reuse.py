"""Points of a sweep that have been run already: by an earlier call, or by another figure.

`finished` finds the runs of a point in its own folder. Figures look at the same setting from
several sides, so they have experiments in common: the same key, since a key leaves out the name.
Results of the same code would come out the same again. They are copied, so that each sweep's folder
can be moved or removed by itself.

A point whose inputs have changed has another key, so it is run; the earlier run stays in its own
folder, where it is found again when the inputs are as they were.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.experiment import inputs
from testbed.results import SWEEP_FILE, Results, ResultsError, find, read
from testbed.results.environment import of_this_code
from testbed.results.reader import has_finished

if TYPE_CHECKING:
    from testbed.analysis.data.sweep_data import Point as EarlierPoint
    from testbed.experiment import Experiment
    from testbed.experiment.sweep_file import Point


def finished(parent: Path) -> list[Results]:
    """The finished runs of a point's folder, oldest first."""
    return [run for run in map(read, find(parent)) if run.finished]


def is_done(parent: Path) -> bool:
    """True if a point has a finished run; little is read for it."""
    return any(map(has_finished, find(parent)))


def remove_unfinished(parent: Path) -> None:
    """Remove the unfinished runs of a point that has finished: a killed worker left them."""
    runs = {folder: has_finished(folder) for folder in find(parent)}
    if any(runs.values()):
        for folder, is_finished in runs.items():
            if not is_finished:
                shutil.rmtree(folder, ignore_errors=True)


def take_over(points: Sequence[Point], folder: Path) -> int:
    """Copy from sweeps beside `folder` the `points` that are missing in it; returns their
    number."""
    beside = [path.parent for path in folder.parent.glob(f"*/{SWEEP_FILE}")]
    taken = 0
    for point in points:
        if is_done(folder / point.key):
            continue
        known = (run for other in beside for run in finished(other / point.key))
        run = next((run for run in known if of_this_code(run.environment)), None)
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
    """The number of points that have finished with code other than the code that runs here."""
    runs = (finished(folder / point.key)[-1:] for point in points)
    return sum(not of_this_code(run.environment) for last in runs for run in last)


def why_again(points: Iterable[Point], folder: Path) -> list[str]:
    """Sentences about those of these points, to be run, that an earlier call has finished with
    other inputs: how many, and what has changed. To be asked before the sweep's file is written."""
    from testbed.analysis.data.sweep_data import read_sweep
    from testbed.experiment.sweep_file import shown

    try:
        earlier = {_values(p): p.results for p in read_sweep(folder).points if p.finished}
    except ResultsError:  # there is no earlier call
        return []
    reasons: Counter[str] = Counter()
    for point in points:
        values = frozenset((key, shown(value)) for key, value in point.values.items())
        if run := earlier.get(values):
            reasons[_why(run, point.experiment)] += 1
    return [
        f"{count} point{'s run' if count > 1 else ' runs'} again: {why}"
        for why, count in reasons.items()
    ]


def _values(point: EarlierPoint) -> frozenset[tuple[str, str]]:
    return frozenset((key, value.text) for key, value in point.values.items())


def _why(run: Results, experiment: Experiment) -> str:
    from p4fabric.base.config.yaml_document import read_yaml

    from testbed.analysis.style.plot_style import differing

    was = inputs.recorded(run.environment)
    if was is None:
        return f"the earlier results {inputs.OLDER}"
    if names := inputs.changes(was, experiment.inputs):
        return inputs.have_changed(names)
    now = read_yaml(experiment.resolved_yaml(), "the experiment").data
    keys = [key for key in differing([run.experiment, now]) if key != "name"]
    return inputs.have_changed(keys or ["the experiment"])
