"""No packet can take an index of our programs out of its array, whatever it says of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from p4engine.indices.bounds import index_warnings

from tests.support.paths import ROOT

P4, FOLDERS = ROOT / "p4", [ROOT / name for name in ("p4", "labs/common")]
DEFINITIONS = [
    {"VALUES": 1, "DEPARTURES": 1, "ZEROS": 1},
    pytest.param(
        {"VALUES": 64, "DEPARTURES": 1, "JOBS": 65536, "TREES": 1}, marks=pytest.mark.slow
    ),
    pytest.param(
        {"VALUES": 1, "AGGREGATORS": 1000, "SETS": 1, "MEMORY": 0}, marks=pytest.mark.slow
    ),
    pytest.param(
        {"VALUES": 1, "DEPARTURES": 1, "DELIVERY": 1, "VALUE_BITS": 16, "ZEROS": 1},
        marks=pytest.mark.slow,
    ),
]


def is_program(path: Path) -> bool:
    """True if a file has a `main`, or includes one that has."""
    text = path.read_text()
    found = [P4 / name for name in re.findall(r'#include "(.*)"', text)]
    return ") main;" in text or any(is_program(each) for each in found if each.exists())


def programs(*folders: str) -> list:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.p4"))]
    return [pytest.param(p, id=str(p.relative_to(ROOT))) for p in found if is_program(p)]


@pytest.mark.parametrize("definitions", DEFINITIONS, ids=str)
@pytest.mark.parametrize("path", programs("p4"))
def test_the_systems(path, definitions):
    if path.name == "forward.p4" and "DELIVERY" in definitions:
        pytest.skip("no pool")
    assert [str(each) for each in index_warnings(path, definitions, FOLDERS)] == []


@pytest.mark.parametrize(
    "path", programs("labs", "examples", "bench", "tests/data", "p4fabric/tests")
)
def test_labs_and_examples(path):
    definitions = {"VALUES": 8, "EVICTION_AGE": 1}
    assert [str(each) for each in index_warnings(path, definitions, FOLDERS)] == []
