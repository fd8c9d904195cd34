"""Workloads of SimAI on Mininet: the graphs of virtual time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from testbed import results
from tests.support.runs import succeeded
from tests.support.workloads import workload

EXPERIMENT = """
runtime: %s
topology: {kind: star, hosts: 9}
links: {bandwidth: 100 Mbit/s, delay: 10 us%s}
system: esa
memory: {aggregators: 1024}
jobs:
  - {model: {file: work.txt}, workers: 8, iterations: 1, scale: 0.5}
"""


def given(folder: Path) -> Counter[tuple]:
    """Bytes and calls of all ranks, by communicator and kind."""
    found: Counter[tuple] = Counter()
    (made,) = folder.iterdir()
    for row in results.read(made).table("collectives").itertuples():
        assert row.route == "system"
        key = row.worker, row.communicator, row.collective
        found[(*key, "calls")] += row.calls
        found[(*key, "bytes")] += row.bytes
    return found


def test_a_graph_is_exact_under_losses_and_the_same_as_in_virtual_time(tmp_path):
    row = "layer 100000 ALLGATHER 40000 100000 REDUCESCATTER 40000 100000 ALLREDUCE 80000 10"
    (tmp_path / "work.txt").write_text(workload(*[row] * 3, tp=4, gpus=8))
    for runtime, losses in ("mininet", ", loss: 1 %"), ("virtual", ""):
        succeeded(EXPERIMENT % (runtime, losses), tmp_path / runtime)
    assert given(tmp_path / "mininet") == given(tmp_path / "virtual")
