"""A hash of all values that a run has measured, so that equal runs are easy to recognise.

The digest covers values, not files: Parquet may write equal tables in different bytes. Tables come
in the order of their names, columns as declared, rows by their keys; a null is no value. Columns
and tables of things that few runs have are left out where they are empty (`OPTIONAL`). Facts that
are in no table (when, where and for how long a run ran) are not in the digest. Nor are tables,
columns and counters that came after the first digests were published (`LATER`): equal runs keep
equal digests.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from testbed.results.counters import OVERWRITTEN, SUMS
from testbed.results.reader import Results
from testbed.results.schema import TABLES, Table

OPTIONAL = {
    *("flows", "measures", "collectives", "pauses", "buffers"),
    *("jobs.batch", "jobs.compute_ns", "jobs.fallback", "jobs.refused", "jobs.trees"),
    *("links.refused", "links.down_drops", "links.tie_drops"),
    *("faults.entries", "faults.rate_bps"),
    *("jobs.layers", "jobs.layers_simulated", "jobs.layers_ns", "jobs.answers_dropped"),
    "jobs.messages_simulated",
}
LATER = {
    "sums",  # a run that keeps them is the same run
    *("departures", "queues", "losses", "resent", "steps", "tuning", "requests"),
    "rates",
    *("links.marks", "jobs.marked_results"),
    *("flows.marked", "flows.cnps", "flows.cuts", "flows.resent_gap", "flows.resent_timeout"),
}
LATER_COUNTERS = {SUMS, OVERWRITTEN}  # rows of table switch_counters


def digest(results: Results) -> str:
    """SHA-256 of all tables of a run, as 64 hexadecimal digits."""
    whole = hashlib.sha256()
    for name in sorted(TABLES):
        frame = results.table(name)
        if name not in LATER and (len(frame) or name not in OPTIONAL):
            whole.update(name.encode() + b"\0" + _table(TABLES[name], frame))
    return whole.hexdigest()


def table_digest(results: Results, name: str) -> str:
    """SHA-256 of one table of a run."""
    return _table(TABLES[name], results.table(name)).hex()


def _table(table: Table, frame: Any) -> bytes:
    """Digest of one table."""
    content = hashlib.sha256()
    if table.name == "switch_counters":
        frame = frame[~frame["counter"].isin(LATER_COUNTERS)]
    if len(frame):
        frame = frame.sort_values(list(table.key), kind="stable", na_position="first")
    for column in table.columns:
        series = frame[column.name]
        missing = series.isna()
        name = f"{table.name}.{column.name}"
        if name in LATER or name in OPTIONAL and missing.all():
            continue
        content.update(f"{column.name}:{column.dtype}:{len(frame)}\0".encode())
        content.update(missing.to_numpy(bool).tobytes())
        content.update(_values(column.dtype, series[~missing]))
    return content.digest()


def _values(dtype: str, series: Any) -> bytes:
    """A column's values without its nulls, in one form on every machine."""
    if dtype in ("string", "binary"):
        words = [value.encode() if dtype == "string" else value for value in series]
        return b"".join(struct.pack("<I", len(word)) + word for word in words)
    if dtype.startswith("float"):
        return (series.to_numpy("<f8") + 0.0).tobytes()  # -0.0 is 0.0
    return series.to_numpy("<i8").tobytes()
