"""Workloads of SimAI made by tests, and the examples beside the checkout, if they are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import ROOT

EXAMPLES = ROOT.parent / "shared" / "workloads"
POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
HEADER = "model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} vpp: 1 ga: 1 all_gpus: {gpus}"
NOTHING = "1 NONE 0 1 NONE 0 1 NONE 0 1"


def example(name: str) -> Path:
    """A file of the examples; skips the test without it."""
    path = EXAMPLES / name
    if not path.exists():
        pytest.skip(f"there is no ../shared/workloads/{name} beside the checkout")
    return path


def workload(*rows: str, tp: int = 1, ep: int = 1, pp: int = 1, gpus: int = 1) -> str:
    """The text of a workload. A row: its name and the columns after the dependency."""
    lines = [f"{POLICY} {HEADER.format(tp=tp, ep=ep, pp=pp, gpus=gpus)} checkpoints: 0"]
    lines.append(str(len(rows)))
    for row in rows:
        name, rest = row.split(" ", 1)
        lines.append(f"{name}\t-1\t" + "\t".join(rest.split()))
    return "\n".join(lines) + "\n"
