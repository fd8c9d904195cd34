"""Measured values of the rows of experiments/expected/fabric.yaml that are about several paths.

    .venv/bin/python -m tools.expected_paths [ROW...] [--write]

prints each row with its expected value and what was measured, by runs in virtual time of the
setting of `ina figure paths`. --write puts the measured values into the file, and nothing else.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

import testbed
from tools.expected_rows import command

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "experiments/expected/fabric.yaml"
SETTING = ROOT / "experiments/figures/paths.yaml"


def completed(paths: int, **choice: str) -> float:
    """The share of ESA's fragments that switches complete over so many equal paths, mean of the
    setting's repetitions."""
    base = yaml.safe_load(SETTING.read_text())
    kept = {key: value for key, value in base.items() if key not in ("sweep", "figure")}
    kept["topology"] |= {"spines": paths}
    kept["paths"] = choice
    with tempfile.TemporaryDirectory(prefix="ina-paths-") as folder:
        file = Path(folder, "paths.yaml")
        file.write_text(yaml.safe_dump(kept))
        result = testbed.run(testbed.load(file), results=folder, progress=False)
        tidy = result.tidy
    return float(tidy[tidy["measure"] == "in_switch_share"]["value"].mean())


def unpinned() -> float:
    """Sprayed over 4 paths, over pinned."""
    return completed(4, choice="spray", sums="unpinned") / completed(4, sums="pinned")


ROWS: dict[str, Callable[[], float]] = {"unpinned": unpinned}


if __name__ == "__main__":
    sys.exit(command(FILE, ROWS, __doc__))
