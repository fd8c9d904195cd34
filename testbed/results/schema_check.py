"""Rows before they go into a table: converted to the declared dtypes, or refused with a clear
error.

A wrong column found at the end of a ten-minute run costs ten minutes. Found a month later in a
figure, it costs a paper. So everything is checked before it is written, and readers trust it.
Conversion is always exact: a fraction never becomes an integer, a null never a zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import did_you_mean, sentence

from testbed.results.schema import FORMAT, Column, Row, Table

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 100_000  # rows whose keys Python compares sooner than Arrow imports what it groups with


class SchemaError(ValueError):
    """Rows that do not fit their declared table: a defect of the code that wrote them, never
    corrected silently. The message names table, column and row."""


def arrow_schema(table: Table) -> pa.Schema:
    """The Parquet schema of `table`; unit and meaning of each column stand in its metadata."""
    import pyarrow as pa

    types = {
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "string": pa.string(),
        "binary": pa.binary(),
    }
    return pa.schema(
        [
            pa.field(
                column.name,
                types[column.dtype],
                nullable=column.nullable,
                metadata={"unit": column.unit, "meaning": column.meaning},
            )
            for column in table.columns
        ],
        metadata={"table": table.name, "format": str(FORMAT)},
    )


def to_arrow(table: Table, data: Any, **constants: Any) -> pa.Table:
    """`data` as an Arrow table that fits the declaration, or SchemaError.

    `data` is a mapping of column name to sequence (list, numpy array, pandas series), a sequence of
    rows (mappings), or a pandas data frame. `constants` are columns with one value for all rows.
    A column that may be null may be left out; None, and NaN in a number, are null.
    """
    import pyarrow as pa

    columns = _columns(table, data)
    rows = max((len(values) for values in columns.values()), default=0)
    for name, value in constants.items():
        if name in columns:
            raise SchemaError(f"table {table.name}: column {name} is given twice")
        columns[name] = [value] * rows
    _check_names(table, columns, rows)
    for name, values in columns.items():
        if len(values) != rows:
            raise SchemaError(
                f"table {table.name}: column {name} has {len(values)} rows, others have {rows}"
            )
    schema = arrow_schema(table)
    arrays = []
    for column, entry in zip(table.columns, schema, strict=True):
        values = columns.get(column.name, [None] * rows)
        arrays.append(_array(table, column, entry.type, values))
    result = pa.Table.from_arrays(arrays, schema=schema)
    _check_order(table, result)
    check_key(table, result)
    return result


def _columns(table: Table, data: Any) -> dict[str, Any]:
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a data frame, pandas not imported
        return {str(name): data[name] for name in data.columns}
    if isinstance(data, Mapping):
        return dict(data)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        rows: Sequence[Row] = list(data)
        names = {name: None for row in rows for name in row}
        columns: dict[str, Any] = {}
        for name in names:
            column = table.by_name.get(name)
            if column is None or not column.nullable:
                for number, row in enumerate(rows):
                    if name not in row:
                        raise SchemaError(f"table {table.name}: row {number} has no {name}")
            columns[name] = [row.get(name) for row in rows]
        return columns
    raise SchemaError(f"table {table.name}: rows or columns wanted, not {type(data).__name__}")


def _check_names(table: Table, columns: Mapping[str, Any], rows: int) -> None:
    for name in columns:
        if name not in table.by_name:
            hint = did_you_mean(name, table.by_name)
            raise SchemaError(sentence(f"table {table.name} has no column {name}", hint))
    for column in table.columns:
        if column.name not in columns and not column.nullable and rows:
            raise SchemaError(f"table {table.name}: column {column.name} is missing")


def _array(table: Table, column: Column, arrow_type: pa.DataType, values: Any) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    place = f"table {table.name}: column {column.name}"
    try:
        array = pa.array(values, from_pandas=True)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if not pa.types.is_null(array.type) and _kind(array.type) not in _ACCEPTED[column.dtype]:
            raise SchemaError(f"{place}: {column.dtype} wanted, not {array.type}")
        array = array.cast(arrow_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"{place}: {column.dtype} wanted: {error}") from None
    if array.null_count and not column.nullable:
        row = array.is_null().index(True).as_py()
        raise SchemaError(f"{place} is null in row {row}; only a nullable column may be")
    if column.minimum is not None and len(array):
        smallest = pc.min(array).as_py()
        if smallest is not None and smallest < column.minimum:
            row = pc.index(array, pa.scalar(smallest, array.type)).as_py()
            raise SchemaError(f"{place} is {smallest} in row {row}, below {column.minimum}")
    if column.allowed:
        for value in pc.unique(array).to_pylist():
            if value is not None and value not in column.allowed:
                known = ", ".join(column.allowed[:8])
                hint = did_you_mean(value, column.allowed) or f"known are {known}"
                raise SchemaError(sentence(f"{place} is {value!r}", hint))
    return array


# Which kinds of value may be brought to a dtype. A float may become an integer only where it is
# one (Arrow's cast refuses the rest): pandas turns a column of integers with a gap into floats.
_ACCEPTED: Mapping[str, frozenset[str]] = {
    "int16": frozenset({"integer", "float"}),
    "int32": frozenset({"integer", "float"}),
    "int64": frozenset({"integer", "float"}),
    "float64": frozenset({"integer", "float"}),
    "bool": frozenset({"bool"}),
    "string": frozenset({"string"}),
    "binary": frozenset({"binary"}),
}


def _kind(arrow_type: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_integer(arrow_type):
        return "integer"
    if pa.types.is_floating(arrow_type):
        return "float"
    if pa.types.is_boolean(arrow_type):
        return "bool"
    if pa.types.is_dictionary(arrow_type):
        return _kind(arrow_type.value_type)
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return "string"
    return str(arrow_type)


def _check_order(table: Table, rows: pa.Table) -> None:
    import pyarrow.compute as pc

    for first, second in table.ordered:
        late = pc.fill_null(pc.greater(rows[first], rows[second]), False)
        row = pc.index(late, True).as_py()
        if row >= 0:
            raise SchemaError(
                f"table {table.name}: {first} = {rows[first][row].as_py()} exceeds "
                f"{second} = {rows[second][row].as_py()} in row {row}"
            )


def check_key(table: Table, rows: pa.Table) -> None:
    """Raises SchemaError when two of `rows` carry the same key (a null equals a null)."""
    keys = rows.select(list(table.key))
    if keys.num_rows <= FEW:
        counts = Counter(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        twice = next((key for key, count in counts.items() if count > 1), None)
    else:
        import pyarrow.compute as pc

        groups = keys.group_by(list(table.key)).aggregate([([], "count_all")])
        more = groups.filter(pc.greater(groups["count_all"], 1)).slice(0, 1).to_pylist()
        twice = tuple(more[0][name] for name in table.key) if more else None
    if twice is not None:
        key = ", ".join(f"{name}={value}" for name, value in zip(table.key, twice, strict=True))
        raise SchemaError(f"table {table.name}: more than one row with {key}")
