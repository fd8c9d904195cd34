"""Tables are checked on their way in: what is refused, and how the refusal reads."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from testbed.results import TABLES, SchemaError, schema_check
from testbed.results.counters import ABSORBED, COUNTERS, ENDINGS, EVENTS, FILLING, HELD
from testbed.results.results_page import markdown
from testbed.results.schema import DeclaredFigure
from testbed.results.schema_check import to_arrow
from tests.support.paths import ROOT

ITERATIONS = TABLES["iterations"]


def rows(**changes):
    row = {
        "repetition": 0,
        "job": 0,
        "worker": 0,
        "iteration": 0,
        "start_ns": 10,
        "compute_end_ns": 20,
        "end_ns": 30,
    }
    return [row | changes]


def columns(**changes):
    return {name: [value] for name, value in rows()[0].items()} | changes


def test_rows_columns_and_frames_give_the_same_table():
    expected = to_arrow(ITERATIONS, rows())
    assert to_arrow(ITERATIONS, columns()).equals(expected)
    assert to_arrow(ITERATIONS, pd.DataFrame(rows())).equals(expected)
    arrays = {name: np.array(values, np.int64) for name, values in columns().items()}
    assert to_arrow(ITERATIONS, arrays).equals(expected)
    assert expected.schema.field("job").type == pa.int32()
    assert expected.schema.field("start_ns").metadata[b"unit"] == b"ns"


def test_a_constant_fills_its_column_in_every_row():
    data = columns()
    del data["repetition"]
    data = {name: values * 2 for name, values in data.items()} | {"worker": [0, 1]}
    assert to_arrow(ITERATIONS, data, repetition=3)["repetition"].to_pylist() == [3, 3]
    with pytest.raises(SchemaError, match="column repetition is given twice"):
        to_arrow(ITERATIONS, rows(), repetition=3)


def test_no_rows_are_a_table_without_rows():
    assert to_arrow(ITERATIONS, []).num_rows == 0
    assert to_arrow(ITERATIONS, {}, repetition=0).num_rows == 0


def test_what_is_no_frame_is_not_taken_for_one():
    class Columns(dict):
        columns = ()

    assert to_arrow(ITERATIONS, Columns(columns())).equals(to_arrow(ITERATIONS, rows()))


@pytest.mark.parametrize(
    "stored, message",
    [
        ("jct", "figure: found no keys and values"),
        ({"panels": "jct"}, "figure.panels: found no list of words"),
        ({"panels": ["jct", 3]}, "figure.panels: found no list of words"),
        ({"panels": ["jct", "speed"]}, "there is no measure speed"),
        ({"x": 3}, "figure.x: found 3"),
    ],
)
def test_a_declared_figure_is_checked(stored, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}$"):
        DeclaredFigure.from_json(stored)
    known = DeclaredFigure.from_json({"panels": ["jct"], "occupancy": True, "claim": "faster"})
    assert known == DeclaredFigure(panels=("jct",), occupancy=True)


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_null_is_kept_where_allowed_and_refused_elsewhere(nothing):
    assert to_arrow(ITERATIONS, rows(end_ns=nothing))["end_ns"].to_pylist() == [None]
    with pytest.raises(SchemaError, match="iterations: column start_ns is null in row 0"):
        to_arrow(ITERATIONS, rows(start_ns=nothing))


def test_a_nullable_column_may_be_left_out_but_no_other():
    data = columns()
    del data["end_ns"]
    assert to_arrow(ITERATIONS, data)["end_ns"].null_count == 1
    del data["start_ns"]
    with pytest.raises(SchemaError, match="column start_ns is missing"):
        to_arrow(ITERATIONS, data)
    with pytest.raises(SchemaError, match="row 1 has no start_ns"):
        to_arrow(ITERATIONS, rows() + [{name: values[0] for name, values in data.items()}])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_ns": 1.5}, "start_ns: int64 wanted"),
        ({"start_ns": "10"}, "start_ns: int64 wanted, not string"),
        ({"start_ns": True}, "start_ns: int64 wanted, not bool"),
        ({"start_ns": -1}, "start_ns is -1 in row 0, below 0"),
        ({"job": 2**40}, "job: int32 wanted"),
        ({"end_ns": 9}, "start_ns = 10 exceeds end_ns = 9 in row 0"),
        ({"strat_ns": 1}, "iterations has no column strat_ns; did you mean start_ns?"),
    ],
)
def test_wrong_rows_are_refused(changes, message):
    with pytest.raises(SchemaError, match=message.replace("?", r"\?")):
        to_arrow(ITERATIONS, rows(**changes))


def test_the_row_is_named():
    data = {name: values * 3 for name, values in columns().items()}
    data |= {"worker": [0, 1, 2], "end_ns": [30, 30, 5]}
    with pytest.raises(SchemaError, match="exceeds end_ns = 5 in row 2"):
        to_arrow(ITERATIONS, data)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(SchemaError, match="column repetition has 1 rows, others have 2"):
        to_arrow(ITERATIONS, columns(job=[0, 1]))
    with pytest.raises(SchemaError, match="rows or columns wanted, not int"):
        to_arrow(ITERATIONS, 7)


@pytest.mark.parametrize("few", [0, schema_check.FEW])  # 0: tables of any size are large
def test_a_key_occurs_once_and_a_null_in_it_equals_a_null(monkeypatch, few):
    monkeypatch.setattr(schema_check, "FEW", few)
    with pytest.raises(SchemaError, match="more than one row with repetition=0, job=0, worker=0"):
        to_arrow(ITERATIONS, rows() + rows(start_ns=11))
    counter = {"repetition": 0, "switch": "s1", "job": None, "counter": "passes", "value": 1}
    table = TABLES["switch_counters"]
    to_arrow(table, [counter, counter | {"job": 0}])
    with pytest.raises(SchemaError, match="more than one row with .*job=None"):
        to_arrow(table, [counter, counter])


def test_a_string_outside_its_list_is_refused_with_its_neighbours():
    counter = {"repetition": 0, "switch": "s1", "job": 0, "counter": "completion", "value": 1}
    with pytest.raises(SchemaError, match="'completion'; did you mean completions"):
        to_arrow(TABLES["switch_counters"], [counter])


def test_every_declaration_is_sound():
    for table in TABLES.values():
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert names[0] == "repetition" or table.name == "tuning"  # which comes before all of them
        assert set(table.key) <= set(names)
        for first, second in table.ordered:
            assert {first, second} <= set(names)
        for column in table.columns:
            assert column.meaning
            assert column.name.endswith("_ns") == (column.unit == "ns"), column.name


def test_counters_are_told_apart():
    assert len(COUNTERS) == len(EVENTS) + 2 * len(ENDINGS) + 4
    assert set(ABSORBED) <= set(EVENTS)
    assert set(FILLING) | set(HELD) == {name for name in COUNTERS if name.endswith("_ns")}


def test_the_documentation_is_that_of_the_schema():
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == markdown(), "run: python -m testbed.results.results_page > docs/results.md"
