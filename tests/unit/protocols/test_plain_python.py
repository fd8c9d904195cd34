"""Protocols without numba, as plain Python: what follows packet by packet must hold there, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
# Of what numba compiles and keeps, and this file.
NOT_HERE = ("test_compile_cache.py", Path(__file__).name)


@pytest.mark.slow
def test_plain_python_passes_the_same_tests():
    files = [str(path) for path in sorted(FOLDER.glob("test_*.py")) if path.name not in NOT_HERE]
    # Wrapping integers, on which the protocols rely, are worth a warning to plain numpy.
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-W", "ignore::RuntimeWarning"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
