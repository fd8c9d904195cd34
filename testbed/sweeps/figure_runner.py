"""`run.py figure`: the figures of folder experiments/figures, each a file with a sweep and what is
drawn of it. The file's name is the figure's."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from testbed.errors import UserError, did_you_mean, sentence
from testbed.experiment.figure import Figure, Size
from testbed.experiment.sweep import Sweep, load_sweep
from testbed.sweeps.figure_list import FOLDER, names

MIN_SCALE, MAX_SCALE = 0.001, 100.0


def find(name: str, folder: Path = FOLDER, others: Iterable[str] = ()) -> Path:
    """The file of a figure. Raises UserError for an unknown name; `others`: figures without a file,
    which may have been meant."""
    known = names(folder)
    if name in known:
        return folder / f"{name}.yaml"
    known += others
    remedy = did_you_mean(name, known) or f"figures are: {', '.join(known)}"
    raise UserError(sentence(f"there is no figure `{name}`", remedy))


def declared(path: Path, size: Size | None = None) -> tuple[Sweep, Figure]:
    """A figure's sweep and what it draws. Raises UserError if the file is not sound."""
    sweep = load_sweep(path, size)
    if sweep.figure is None:
        raise UserError(f"{path}: the key figure is missing; it says what is drawn")
    return sweep, sweep.figure


def size_of(path: Path, scale: float | None, quick: bool, seeds: int | None = None) -> Size:
    """The size in which a figure was asked for; its results have a folder of their own. `seeds`: at
    most so many of them.

    Raises UserError."""
    if quick and (scale is not None or seeds is not None):
        raise UserError("--quick and --scale or --seeds: give one of them")
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds: found {seeds}; allowed: a number from 1")
    if quick:
        return Size.quick(path.stem, declared(path)[1])
    name = path.stem if seeds is None else f"{path.stem}-seeds{seeds}"
    if scale is None or scale == 1:
        return Size(name, repetitions=seeds)
    if not math.isfinite(scale) or not MIN_SCALE <= scale <= MAX_SCALE:
        allowed = f"a number from {MIN_SCALE:g} to {MAX_SCALE:g}"
        raise UserError(f"--scale: found {scale:g}; allowed: {allowed}")
    return Size(f"{name}-x{scale:g}", scale, repetitions=seeds)


def run_figure(
    path: Path, size: Size, results: Path, processes: int | None = None, dask: str | None = None
) -> int:
    """Run what has not been run of a figure or of another one, and draw it. Returns the exit code.

    Raises UserError before anything is run."""
    from testbed.sweeps.sweep_runner import run_sweep

    sweep, figure = declared(path, size)
    print(f"{path.stem}: {figure.claim}")
    return run_sweep(sweep, results, processes, dask, share=True)
