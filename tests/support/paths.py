"""Paths of the checkout's folders."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
P4 = ROOT / "p4"
DATA = ROOT / "tests" / "data"
GRID_EXAMPLE = ROOT / "topos" / "graphs" / "grid-example.txt"


def files_of_checkout(*patterns: str) -> list[Path]:
    """The files that git has or would take, sorted; with patterns, those that match one."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    return [path for name in sorted({*names}) if (path := ROOT / name).is_file()]
