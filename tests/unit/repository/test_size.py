"""The project stays of a size: ceilings of lines, files and loose types.

A change that needs more raises the number in ceilings.yaml in the same commit, with the reason in a
comment beside it. A ceiling that is far above what is there is lowered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT, files_of_checkout

CEILINGS = yaml.safe_load(Path(__file__).with_name("ceilings.yaml").read_text())
HOUSES = {
    "p4engine": ("p4engine/src/",),
    "p4fabric": ("p4fabric/src/",),
    "testbed": ("testbed/", "analysis/", "traffic/", "topos/", "p4/", "run.py"),
    "labs": ("labs/",),
    "tools": ("tools/", "bench/", "examples/", "docs/", "setup.sh"),
}
TESTS = ("tests/", "p4engine/tests/", "p4fabric/tests/", "labs/tests/")
CODE = {".py", ".c", ".h", ".p4", ".js"}
TIMES = ROOT / "times.yaml"
SHORT = 50  # lines
REPEATED = 6  # lines of code that say the same twice
# Not code: comments, imports with their names, brackets and words that end a statement.
NO_CODE = re.compile(r"#.*|(?:from|import) .*|[\w.]+,?|\W*|(?:else|try|finally):")
ROOM = 0.02  # of a ceiling, that may be free


def _files() -> list[Path]:
    return [path for path in files_of_checkout() if path.suffix in CODE]


def _house(path: Path) -> str:
    name = str(path.relative_to(ROOT))
    if name.startswith(TESTS):
        return "tests"
    return next((h for h, begins in HOUSES.items() if name.startswith(begins)), "tools")


def _repeated(texts: dict[Path, str]) -> Iterator[Path]:
    """The file of each piece of Python code of at least REPEATED lines that is somewhere else."""
    seen: dict[tuple[str, ...], list[tuple[Path, int]]] = {}
    for path, text in texts.items():
        stripped = (line.strip() for line in text.splitlines())
        lines = [line for line in stripped if not NO_CODE.fullmatch(line)]
        for at in range(len(lines) - REPEATED + 1):
            seen.setdefault(tuple(lines[at : at + REPEATED]), []).append((path, at))
    again = {place for places in seen.values() if len(places) > 1 for place in places}
    return (path for path, at in again if (path, at - 1) not in again)


def measured() -> dict[str, Any]:
    """What the ceilings are about."""
    lines: Counter[str] = Counter()
    loose: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    short, python = 0, {}
    for path in _files():
        house, text = _house(path), path.read_text()
        count = text.count("\n")
        lines[house] += count
        if house == "tests":
            continue
        if path.suffix == ".py":
            python[path] = text
            loose[house] += len(re.findall(r"\bAny\b", text))
            folders[str(path.parent.relative_to(ROOT))] += path.name != "__init__.py"
        short += 0 < count <= SHORT and path.name != "__init__.py"
    most = {name: count for name, count in folders.items() if count > CEILINGS["files per folder"]}
    repeated = Counter(map(_house, _repeated(python)))
    return {
        "lines": lines,
        "Any": loose,
        "repeated places": repeated,
        "short files": short,
        "full folders": most,
    }


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return measured()


@pytest.mark.parametrize("what", ["lines", "Any", "repeated places"])
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


def test_no_ring_takes_longer_than_its_ceiling():
    """`./test --record-times` measures."""
    ceilings = CEILINGS["processor seconds"]
    if not TIMES.exists():
        pytest.skip(f"{TIMES.relative_to(ROOT)} is not there: ./test --record-times writes it")
    spent_s = yaml.safe_load(TIMES.read_text())
    assert set(spent_s) == set(ceilings)
    above = {ring: spent for ring, spent in spent_s.items() if spent > ceilings[ring]}
    assert not above, f"more processor seconds than {ceilings}: {above}"
