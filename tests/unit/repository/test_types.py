"""The type checker agrees, strictly. Exceptions are in pyproject.toml; public modules have none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT


@pytest.mark.parametrize(
    "folder",
    [ROOT, ROOT / "p4fabric", pytest.param(ROOT / "p4engine", marks=pytest.mark.slow)],
    ids=["testbed", "p4fabric", "p4engine"],
)
def test_the_types_are_right(folder):
    words = [sys.executable, "-m", "mypy"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
