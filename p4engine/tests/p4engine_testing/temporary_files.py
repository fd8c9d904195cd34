"""Each test process has a folder of its own for temporary files, in which no test leaves any.

In the machine's folder other processes make files, too, so nobody would notice one that stays.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from p4engine_testing.leftovers import nothing_left

# Python's own folder, which goes when the process ends, that of a pytest that a test runs, and
# PyTorch's cache.
LASTING = ("pymp-", "pytest-of-", "torchinductor_")


@pytest.fixture(scope="session")
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of temporary files: TMPDIR of this process and of those that it starts."""
    tmp_path_factory.getbasetemp()  # pytest keeps these after the tests, so they lie elsewhere
    with (
        tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        folder = Path(name)
        folder.chmod(0o1777)
        patch.setenv("TMPDIR", name)
        patch.setattr(tempfile, "tempdir", None)  # it was looked up before
        yield folder


@pytest.fixture(autouse=True)
def no_temporary_file_left(temporary_folder: Path) -> Iterator[None]:
    """Fail a test that leaves a temporary file."""

    def files() -> set[str]:
        names = os.listdir(temporary_folder)
        return {f"file {name}" for name in names if not name.startswith(LASTING)}

    with nothing_left(files):
        yield
