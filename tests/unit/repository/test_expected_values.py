"""Files of experiments/expected: each row can be read and judged without asking its author."""

import pytest
import yaml

from tests.support.paths import ROOT
from tools.expected_rows import holds

FILES = sorted((ROOT / "experiments/expected").glob("*.yaml"))
OF_FIGURES = {"figure", "series", "x", "column"}
KEYS = {"name", "what", "unit", "expected", "tolerance", "source", "measured"}
REASONED = {"fabric"}  # files whose failing rows have a reason


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rows_have_a_range_a_source_and_a_place_for_the_result(file):
    document = yaml.safe_load(file.read_text())
    rows = document["rows"]
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert set(row) - OF_FIGURES - {"reason"} == KEYS, row["name"]
        assert row["source"] in document["sources"] and row["what"] and row["unit"], row["name"]
        expected = row["expected"]
        low, high = expected if isinstance(expected, list) else (expected, expected)
        assert low <= high and row["tolerance"] >= 0, row["name"]
        values = row["measured"] if isinstance(row["measured"], list) else [row["measured"]]
        fails = not all(value is None or holds(row, value) for value in values)
        assert fails or "reason" not in row, row["name"]
        assert "reason" in row or not fails or file.stem not in REASONED, row["name"]
    assert {row["source"] for row in rows} == set(document["sources"])
