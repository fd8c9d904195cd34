"""The type checker agrees: strictly with the P4 engine and the testbed's public modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

# What users of the package import.
PUBLIC = (
    "testbed",
    "testbed.api.drawing",
    "testbed.api.experiments",
    "testbed.api.parts",
    "testbed.api.results",
    "testbed.api.running",
    "testbed.topology",
    "testbed.errors",
    "testbed.paths",
    "testbed.plugins",
)


@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        (ROOT, ()),
        pytest.param(ROOT / "p4engine", (), marks=pytest.mark.slow),
        pytest.param(
            ROOT,
            ("--strict", "--follow-imports=silent", *(f"-m{name}" for name in PUBLIC)),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["testbed", "p4engine", "public"],
)
def test_the_types_are_right(folder, arguments):
    words = [sys.executable, "-m", "mypy", *arguments]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
