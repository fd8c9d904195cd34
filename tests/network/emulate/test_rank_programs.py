"""Programs of ranks on Mininet."""

from __future__ import annotations

from pathlib import Path

from tests.support.ranks import every_transfer, text
from tests.support.runs import succeeded


def test_sums_and_transfers_are_exact_under_losses(tmp_path: Path):
    path = every_transfer().write(tmp_path / "all.et")
    links = ", loss: 1 %"
    read = succeeded(
        text(path, "esa", 4, 1, links, iterations=2)
        .replace("runtime: virtual", "runtime: mininet")
        .replace("1 Gbit/s", "100 Mbit/s"),
        tmp_path / "results",
    )
    found = read
    (job,) = found.jobs.itertuples()
    assert job.exact and job.retransmissions > 0
    rows = found.table("collectives")
    routes = {(row.collective, row.route) for row in rows.itertuples()}
    flows = ("all_to_all", "gather", "scatter", "send", "recv")
    assert routes == {
        *((name, "flow") for name in flows),
        ("all_reduce", "system"),
        ("barrier", "system"),
    }
    assert rows.loc[rows["collective"] == "send", "bytes"].tolist() == [60_200] * 4
