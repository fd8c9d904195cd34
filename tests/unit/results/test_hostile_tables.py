"""Tables that anybody may have made: nothing is read before its size in memory is known."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from testbed.results import ResultsError, reader
from testbed.results.schema import TABLES
from testbed.results.schema_check import arrow_schema

TABLE = TABLES["jobs"]
MIB = 1 << 20


@pytest.fixture
def write(tmp_path):
    """write(rows, text): the file of a table whose rows are all alike."""

    def made(rows: int, text: str = "a"):
        schema = arrow_schema(TABLE)
        values = {
            field.name: pa.repeat(
                pa.scalar(text if pa.types.is_string(field.type) else 0, field.type)
                if not pa.types.is_boolean(field.type)
                else pa.scalar(True),
                rows,
            )
            for field in schema
        }
        path = tmp_path / "tables" / f"{TABLE.name}.parquet"
        path.parent.mkdir(exist_ok=True)
        parquet.write_table(pa.table(values, schema), path, compression="zstd")
        return path

    return made


def test_rows_are_counted_before_they_are_read(write, monkeypatch):
    monkeypatch.setattr(reader, "MAX_TABLE_BYTES", 4 * MIB)
    path = write(100_000)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(parquet.ParquetFile, "read", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ResultsError, match=rf"{path} can't be read: it needs \d+ MiB; at most 4"):
        reader._load(TABLE, path)
    assert reader.bytes_of_tables(path.parent.parent) == 8 * 100_000 * len(TABLE.columns)


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1.5, None], pa.float64()), ([1, None], pa.int8()), ([1, None], pa.int64())],
)
def test_a_gap_is_no_whole_number(write, values, kind):
    path = write(2)
    name = next(each.name for each in TABLE.columns if each.dtype == "int64" and not each.nullable)
    rows = parquet.read_table(path)
    at = rows.column_names.index(name)
    parquet.write_table(rows.set_column(at, name, pa.array(values, kind)), path)
    with pytest.raises(ResultsError, match=f"{path} can't be read: column {name} does not hold"):
        reader._load(TABLE, path)


def test_a_long_text_is_not_repeated_for_each_row(write, monkeypatch):
    monkeypatch.setattr(reader, "MAX_TABLE_BYTES", 4 * MIB)
    path = write(1000, "x" * 10_000)
    assert path.stat().st_size < 100_000
    with pytest.raises(ResultsError, match="can't be read: it needs 9 MiB; at most 4"):
        reader._load(TABLE, path)
    assert len(reader._load(TABLE, write(1000, "x" * 100))) == 1000


def test_what_is_no_file_is_one_message(tmp_path):
    path = tmp_path / "jobs.parquet"
    os.mkfifo(path)
    with pytest.raises(ResultsError, match="can't be read: it is a device, FIFO or socket"):
        reader._load(TABLE, path)
