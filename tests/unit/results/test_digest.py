"""The content hash of results: equal for equal values, whatever the files look like."""

from __future__ import annotations

from testbed.results import Writer, describe, digest, read
from testbed.results.counters import SUMS

LINK = {
    "node": "s1",
    "neighbour": "h1",
    "direction": "ingress",
    "packets": 7,
    "bytes": 700,
    "queue_drops": None,
    "losses": 0,
    "duplicates": 0,
    "reordered": 0,
    "unmodelled_drops": None,
    "max_queue": 3,
}


def digest_of(folder, rows, table="links"):
    with Writer.create(folder, "test", "", describe(1)) as writer:
        writer.write(table, rows, repetition=0)
        writer.fail("only a table")
    return digest(read(writer.folder))


def test_the_order_of_rows_and_the_folder_do_not_count(tmp_path):
    rows = [{**LINK, "port": port} for port in (1, 2, 3)]
    assert digest_of(tmp_path, rows) == digest_of(tmp_path, rows[::-1])


def test_every_value_counts(tmp_path):
    plain = {**LINK, "port": 1}
    changed = (
        {"bytes": 701},
        {"queue_drops": 0},  # none was measured, which is not the same as null
        {"neighbour": "h2"},
        {"port": 2},
    )
    found = {digest_of(tmp_path, [{**plain, **change}]) for change in ({}, *changed)}
    assert len(found) == 1 + len(changed)


def test_a_missing_row_counts(tmp_path):
    rows = [{**LINK, "port": port} for port in (1, 2)]
    assert digest_of(tmp_path, rows) != digest_of(tmp_path, rows[:1])


def test_a_column_that_came_later_counts_only_where_it_has_a_value(tmp_path):
    row = {**LINK, "port": 1}
    none, value = digest_of(tmp_path, [row]), digest_of(tmp_path, [{**row, "down_drops": 0}])
    assert none != value
    # As computed before the column existed.
    assert none == "327c8cda1cdf8ec596e7daf64f207f2b41102ece1bbc6dcd6b141752002f723e"


def test_counters_that_came_later_do_not_count(tmp_path):
    rows = [{"switch": "s1", "job": 0, "counter": name, "value": 3} for name in ("additions", SUMS)]
    first, both = (digest_of(tmp_path, rows[:count], "switch_counters") for count in (1, 2))
    assert first == both != digest_of(tmp_path, [], "switch_counters")
