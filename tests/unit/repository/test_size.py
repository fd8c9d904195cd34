"""The project stays of a size: ceilings of lines, files and loose types.

A change that needs more raises the number in ceilings.yaml in the same commit, with the reason in a
comment beside it. A ceiling that is far above what is there is lowered.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT, files_of_checkout

CEILINGS = yaml.safe_load(Path(__file__).with_name("ceilings.yaml").read_text())
HOUSES = {
    "p4engine": ("p4engine/src/",),
    "testbed": ("testbed/", "analysis/", "traffic/", "topos/", "p4/", "run.py"),
    "labs": ("labs/",),
    "tools": ("tools/", "bench/", "examples/", "docs/", "setup.sh"),
}
TESTS = ("tests/", "p4engine/tests/")
CODE = {".py", ".c", ".h", ".p4", ".js"}
SHORT = 50  # lines
ROOM = 0.02  # of a ceiling, that may be free


def _files() -> list[Path]:
    return [path for path in files_of_checkout() if path.suffix in CODE]


def _house(path: Path) -> str:
    name = str(path.relative_to(ROOT))
    if name.startswith(TESTS):
        return "tests"
    return next((h for h, begins in HOUSES.items() if name.startswith(begins)), "tools")


def measured() -> dict[str, Any]:
    """What the ceilings are about."""
    lines: Counter[str] = Counter()
    loose: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    short = 0
    for path in _files():
        house, text = _house(path), path.read_text()
        count = text.count("\n")
        lines[house] += count
        if house == "tests":
            continue
        if path.suffix == ".py":
            loose[house] += len(re.findall(r"\bAny\b", text))
            folders[str(path.parent.relative_to(ROOT))] += path.name != "__init__.py"
        short += 0 < count <= SHORT and path.name != "__init__.py"
    most = {name: count for name, count in folders.items() if count > CEILINGS["files per folder"]}
    return {"lines": lines, "Any": loose, "short files": short, "full folders": most}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return measured()


@pytest.mark.parametrize("what", ["lines", "Any"])
def test_no_house_outgrows_its_ceiling(what, found):
    ceilings = CEILINGS[what]
    assert set(found[what]) <= set(ceilings)
    above = {
        house: f"{found[what][house]}, allowed {ceilings[house]}"
        for house in ceilings
        if found[what][house] > ceilings[house]
    }
    assert not above, f"{what} above tests/unit/repository/ceilings.yaml: {above}"
    room = {
        house: f"{found[what][house]}, allowed {ceilings[house]}"
        for house in ceilings
        if found[what][house] < (1 - ROOM) * ceilings[house] - 10
    }
    assert not room, f"lower the ceilings of {what}: {room}"


def test_few_files_are_short_and_no_folder_is_full(found):
    assert found["short files"] <= CEILINGS["short files"]
    allowed = CEILINGS["full folders"]
    above = {name: n for name, n in found["full folders"].items() if n > allowed.get(name, 0)}
    assert not above, f"more Python files than tests/unit/repository/ceilings.yaml has: {above}"
