"""Each test process has a folder of its own for temporary files, in which no test leaves any.

In the machine's folder other processes make files, too, so nobody would notice one that stays.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Python's own folder, which goes when the process ends, that of a pytest that a test runs, and
# PyTorch's cache.
LASTING = ("pymp-", "pytest-of-", "torchinductor_")


@pytest.fixture(scope="session")
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where temporary files go: TMPDIR of this process and of those that it starts."""
    tmp_path_factory.getbasetemp()  # pytest keeps these after the tests, so they lie elsewhere
    before = os.environ.get("TMPDIR")
    folder = Path(tempfile.mkdtemp(prefix="tests-"))
    folder.chmod(0o1777)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it was looked up before
    yield folder
    tempfile.tempdir = None
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_temporary_file_left(temporary_folder: Path) -> Iterator[None]:
    """Fail a test that leaves a temporary file."""
    before = _names(temporary_folder)
    yield
    left = _names(temporary_folder) - before
    assert not left, f"left in {temporary_folder}: {', '.join(sorted(left))}"


def _names(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if not name.startswith(LASTING)}
