"""The files that docs, comments and settings name exist.

Pages, docstrings and tables name files of the checkout by their paths. A file that moves leaves
such names behind, and nothing else would notice.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FOLDERS = (
    "analysis|bench|docs|examples|experiments|labs|p4|p4engine|p4fabric|testbed|tests|tools|topos"
    "|traffic"
)
ENDINGS = "c|csv|h|lua|md|npz|p4|py|sh|toml|txt|yaml|yml"
TEXTS = ("*.md", "*.py", "*.p4", "*.toml", "*.yaml", "*.sh", ".importlinter", "test", "demo")
# A file of the checkout, perhaps with a test of it; or a folder of tests.
PATH = re.compile(
    rf"(?<![\w./<{{}}-])((?:{FOLDERS})/[\w*/-]*\.(?:{ENDINGS})|tests/[\w/]+)\b(?:::(test_\w+))?"
)
TEST_FILE = re.compile(r"(?<![\w./*-])test_\w+\.py\b")
MODULE = re.compile(r"(?<![\w./])tests\.(?:unit|switch|network|bmv2|browser|support)(?:\.\w+)*")
MADE = {"results", "site"}  # by commands, at the top of the checkout
SKIPPED = {"node_modules", "__pycache__"}
PLACEHOLDER = re.compile(r"\bNAME\b")
# In tests/switch/docs/test_site.py, and pages of the site.
MADE_UP = {"labs/lab1/README.md", "labs/lab1/readme.md", "labs/index.md", "p4engine/index.md"}


def texts() -> list[Path]:
    """All texts of the checkout."""
    folders = [each for each in ROOT.iterdir() if each.is_dir() and not each.is_symlink()]
    found = {path for pattern in TEXTS for path in ROOT.glob(pattern)}
    for folder in folders:
        if not folder.name.startswith(".") and folder.name not in MADE:
            found.update(path for pattern in TEXTS for path in folder.rglob(pattern))
    return sorted(
        path
        for path in found
        if path.is_file() and not SKIPPED.intersection(path.relative_to(ROOT).parts)
    )


@functools.cache
def names_of_tests() -> set[str]:
    """The names of all files with tests."""
    folders = [ROOT / house / "tests" for house in (".", "p4engine", "p4fabric", "labs")]
    return {path.name for folder in folders for path in folder.rglob("test_*.py")}


def missing(text: str, place: Path) -> list[str]:
    """The paths, tests and modules that a text names and that do not exist. A text may
    also name files as seen from the folders of the other distributions, and its neighbours."""
    houses = [ROOT / "p4engine", ROOT / "p4fabric"]
    folders = [ROOT, *houses, *(house / "src" for house in houses), place]
    found = []
    for path, test in PATH.findall(text):
        if path in MADE_UP or PLACEHOLDER.search(path):
            continue
        files = [file for folder in folders for file in folder.glob(path)]
        if not files:
            found.append(path)
        elif test and f"\ndef {test}(" not in files[0].read_text():
            found.append(f"{path}::{test}")
    for module in MODULE.findall(text):
        # The last name may be one of the module's.
        paths = [ROOT.joinpath(*words.split(".")) for words in (module, module.rpartition(".")[0])]
        if not any(path.is_dir() or path.with_suffix(".py").is_file() for path in paths):
            found.append(module)
    found += [name for name in TEST_FILE.findall(text) if name not in names_of_tests()]
    return found


def test_the_files_that_texts_name_exist():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts()
        if path != Path(__file__)
        for name in missing(path.read_text(encoding="utf-8"), path.parent)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see `docs/esa.md` and p4/*.p4", []),
        ("see `docs/gone.md`.", ["docs/gone.md"]),
        ("test_layers.py and test_gone.py", ["test_gone.py"]),
        ("tests/unit/gone is a folder", ["tests/unit/gone"]),
        ("tests/unit/repository/test_layers.py::test_gone", [
            "tests/unit/repository/test_layers.py::test_gone"]),
        ("tests/unit/repository/test_layers.py::test_the_layers_hold", []),
        ("python -m tests.support.gone.gone, python -m tests.bmv2", ["tests.support.gone.gone"]),
    ],
)  # fmt: skip
def test_a_missing_file_is_found(text, names):
    assert missing(text, ROOT) == names
