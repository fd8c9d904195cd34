"""`ina figure`: the figures of folder experiments/figures, each a file with a sweep and what is
drawn of it. The file's name is the figure's. The list of figures and their claims appears at once:
what a run needs is imported by the run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.config.data_files import read_text
from p4fabric.base.config.yaml_document import read_yaml
from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed.paths import EXPERIMENTS

if TYPE_CHECKING:
    from testbed.experiment.figure import Figure, Size
    from testbed.experiment.sweep_file import Sweep

FOLDER = EXPERIMENTS / "figures"
# Figures without a file: planner_figures.py draws them.
OF_PLANS = {
    "grid-rate": "Choosing where to aggregate, with links in mind, keeps the slowest worker fast as"
    " workers are added.",
    "grid-skew": "The further apart a fragment's copies arrive, the more aggregators are held, and"
    " the more memory limits what switches can add.",
}
MIN_SCALE, MAX_SCALE = 0.001, 100.0


def names(folder: Path = FOLDER) -> list[str]:
    """The figures that have a file, in alphabetical order."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def listing(folder: Path = FOLDER) -> str:
    """A line per figure: its name and its claim. Raises UserError for a file that cannot be read or
    claims nothing."""
    return "\n".join(f"{name:<12}{claim}" for name, claim in claims(folder).items())


def claims(folder: Path = FOLDER) -> dict[str, str]:
    """The claims of the figures, by name. Raises UserError as `listing` does."""
    found = {name: _claim(folder / f"{name}.yaml") for name in names(folder)}
    return found | OF_PLANS


def _claim(path: Path) -> str:
    data = read_yaml(read_text(path), str(path)).data
    figure = data.get("figure") if isinstance(data, dict) else None
    claim = figure.get("claim") if isinstance(figure, dict) else None
    if not isinstance(claim, str):
        raise UserError(f"{path}: the key figure.claim is missing; it says what the figure shows")
    return claim


def find(name: str, folder: Path = FOLDER) -> Path:
    """The file of a figure. Raises UserError for an unknown name."""
    known = names(folder)
    if name in known:
        return folder / f"{name}.yaml"
    known += OF_PLANS
    remedy = did_you_mean(name, known) or f"figures are: {', '.join(known)}"
    raise UserError(sentence(f"there is no figure `{name}`", remedy))


def declared(path: Path, size: Size | None = None) -> tuple[Sweep, Figure]:
    """A figure's sweep and its drawing. Raises UserError if the file is not sound."""
    from testbed.experiment.sweep_file import load_sweep

    sweep = load_sweep(path, size)
    if sweep.figure is None:
        raise UserError(f"{path}: the key figure is missing; it says what is drawn")
    return sweep, sweep.figure


def size_of(path: Path, scale: float | None, quick: bool, seeds: int | None = None) -> Size:
    """The size in which a figure was asked for; its results have a folder of their own. `seeds`: at
    most so many of them.

    Raises UserError."""
    from testbed.experiment.figure import Size

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
    path: Path,
    size: Size,
    results: Path,
    processes: int | None = None,
    dask: str | None = None,
    slurm: str | None = None,
) -> int:
    """Run the points that neither this figure nor another one has, and draw it. Returns the exit
    code.

    Raises UserError before anything is run."""
    from testbed.sweeps.sweep_runner import run_sweep

    sweep, figure = declared(path, size)
    print(f"{path.stem}: {figure.claim}")
    return run_sweep(sweep, results, processes, dask, slurm, share=True)
