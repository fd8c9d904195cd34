"""Programs of ranks on Mininet."""

from __future__ import annotations

from pathlib import Path

import pytest

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


TRANSFORMER = """
name: transformer
runtime: %s
topology: {kind: rails, servers: 2, ranks: 4, scale_up: 1 Gbit/s, nic: 200 Mbit/s, server_ps: 1}
links: {loss: 1 %%}
system: esa
memory: {aggregators: 512}
jobs:
  - name: llama
    model: {transformer: llama2-7b, sequence: 4096, micro_batch: 1, global_batch: 8, gpu: a100}
    parallel: {tp: 2, pp: 2, dp: 2}
    workers: 8
    iterations: 1
    scale: 0.00002
"""


@pytest.mark.slow
def test_a_transformer_on_two_servers_is_exact_under_losses_on_both_runtimes(tmp_path: Path):
    """Tensor parallel pairs within servers, stages and replicas across them: the same calls, bytes
    and checked values on Mininet and in virtual time."""
    found = {}
    for runtime in ("mininet", "virtual"):
        read = succeeded(TRANSFORMER % runtime, tmp_path / runtime)
        (job,) = read.jobs.itertuples()
        assert job.exact and job.retransmissions > 0
        rows = read.table("collectives").drop(columns="time_ns")
        found[runtime] = job.values_checked, rows.to_dict("records")
    assert found["mininet"] == found["virtual"]
    routes = {(row["collective"], row["route"]) for row in found["virtual"][1]}
    assert routes == {("all_reduce", "system"), ("send", "flow"), ("recv", "flow")}
    groups = {row["communicator"] for row in found["virtual"][1] if row["route"] == "system"}
    assert {"0 1", "6 7", "0 2", "5 7"} <= groups
