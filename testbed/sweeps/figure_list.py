"""The figures that `run.py figure` knows, with their claims. It imports little, so that the list
appears at once; checking the files is left to the run of a figure."""

from __future__ import annotations

from pathlib import Path

from testbed.config.yaml_document import read_yaml
from testbed.errors import UserError
from testbed.paths import EXPERIMENTS

FOLDER = EXPERIMENTS / "figures"
# Figures without a file: planner_figures.py draws them.
OF_PLANS = {
    "grid-rate": "Choosing where to aggregate, with links in mind, keeps the slowest worker fast as"
    " workers are added.",
    "grid-skew": "The further apart a fragment's copies arrive, the more aggregators are held, and"
    " the more memory limits what switches can add.",
}


def names(folder: Path = FOLDER) -> list[str]:
    """The figures that have a file, in alphabetical order."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def listing(folder: Path = FOLDER) -> str:
    """A line per figure: its name and what it should show. Raises UserError for a file that cannot
    be read or claims nothing."""
    return "\n".join(f"{name:<12}{claim}" for name, claim in claims(folder).items())


def claims(folder: Path = FOLDER) -> dict[str, str]:
    """What each figure should show, by its name. Raises UserError as `listing` does."""
    found = {name: _claim(folder / f"{name}.yaml") for name in names(folder)}
    return found | OF_PLANS


def _claim(path: Path) -> str:
    try:
        text = path.read_text()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    data = read_yaml(text, str(path)).data
    figure = data.get("figure") if isinstance(data, dict) else None
    claim = figure.get("claim") if isinstance(figure, dict) else None
    if not isinstance(claim, str):
        raise UserError(f"{path}: the key figure.claim is missing; it says what the figure shows")
    return claim
