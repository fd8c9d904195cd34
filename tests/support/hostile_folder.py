"""A folder like /tmp, in which somebody has put modules for others to import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from testbed.paths import import_path

IMPORTED = "imported.txt"
NAMES = {*sys.stdlib_module_names, "numpy", "numba", "rich", "mininet"}
NAMES |= {"testbed", "p4fabric", "p4engine"}
TEXT = f"""
import os
with open(os.path.join(os.path.dirname(__file__), {IMPORTED!r}), "a") as file:
    file.write(__name__ + " ")
raise ImportError("a module of the current folder was imported")
"""


def make_hostile(folder: Path) -> Path:
    """Fill a folder with modules that note their import and fail."""
    for name in NAMES:
        (folder / f"{name}.py").write_text(TEXT)
    return folder


def run_in(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a Python script with arguments in the folder, with this checkout's packages."""
    path = import_path(environment={})
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )


def imported(folder: Path) -> str:
    """The names of the folder's modules that have been imported."""
    file = folder / IMPORTED
    return file.read_text() if file.exists() else ""
