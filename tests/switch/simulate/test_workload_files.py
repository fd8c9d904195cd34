"""Workloads of SimAI and traces of others as a job's model, in virtual time."""

from __future__ import annotations

import re

import pytest
from p4fabric_testing.matrix import first_of

from testbed.experiment import load_text
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual
from tests.support.workloads import workload

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: star, hosts: %d}
links: {bandwidth: %s, delay: 1 us}
system: %s
values_per_packet: 256
memory: {aggregators: 2048}
jobs:
  - {name: job, model: %s, workers: %d, iterations: 1, scale: %s}
"""
FRAME = 14 + 20 + 8 + 24 + 4 + 4 * 256  # bytes of a packet with 256 values


def experiment(model: str, ranks: int, system="ring", scale="1", rate="10 Gbit/s"):
    text = EXPERIMENT % (ranks + 1, rate, system, model, ranks, scale)
    if system == "ring":
        text = re.sub("memory:.*\n", "", text)
    return load_text(text)


def least_ns(size: int, ranks: int, system: str, rate_bps: int) -> float:
    """The least time of an all_reduce of `size` bytes over one switch: S/B in the switch, 2(n-1)/n
    S/B as a ring; S counts whole frames."""
    wire = size / 1024 * FRAME * 8 * 1e9 / rate_bps
    return wire * (2 * (ranks - 1) / ranks if system == "ring" else 1)


@pytest.mark.parametrize("system", first_of(["ring", "switchml", "esa"], 2))
def test_an_all_reduce_of_a_workload_takes_the_least_time(system, tmp_path):
    """16 MiB and 64 MiB as in SimAI's example, at a fiftieth and a tenth of the rate."""
    path = tmp_path / "work.txt"
    rows = (f"embedding 556000 ALLREDUCE {size << 20} 1 NONE 0 1 NONE 0 1" for size in (16, 64))
    path.write_text(workload(*rows, tp=8, gpus=8))
    tables = run_virtual(experiment(f"{{file: {path}}}", 8, system, "0.02"))
    (job,) = tables["jobs"]
    assert job["exact"]
    moved = sum(round((size << 20) * 0.02 / 4) * 4 for size in (16, 64))
    least = least_ns(moved, 8, system, 10**10)
    compute_ns = 2 * 556_000 * 0.02
    assert least < job["jct_ns"] - compute_ns < 1.05 * least
    (row,) = [each for each in tables["collectives"] if each["worker"] == 0]
    assert (row["calls"], row["bytes"], row["communicator"]) == (2, moved, "all")


def test_the_other_groups_of_a_workload_overlap_with_its_computation(tmp_path):
    """Weight gradients are summed beside the backward pass of the layers before."""
    path = tmp_path / "work.txt"
    row = "layer 1000 ALLREDUCE 4096 100000 NONE 0 1000 ALLREDUCE 65536 10"
    path.write_text(workload(*[row] * 4, tp=2, gpus=4))
    tables = run_virtual(experiment(f"{{file: {path}}}", 4))
    (job,) = tables["jobs"]
    assert job["exact"]
    alone = 4 * least_ns(65536, 2, "ring", 10**10)
    assert alone > 150_000  # hidden behind 400 us
    assert 408_000 < job["jct_ns"] < 400_000 + alone
    found = {(row["communicator"], row["calls"], row["bytes"]) for row in tables["collectives"]}
    assert found == {
        *((pair, 4, 4 * 4096) for pair in ("0 1", "2 3")),
        *((pair, 4, 4 * 65536) for pair in ("0 2", "1 3")),
    }


def test_a_scale_makes_calls_and_computation_smaller(tmp_path):
    made = Ranks(everyone=(0, 1))
    for rank in range(2):
        made.add(rank, "compute", duration_ns=10_000_000)
        made.add(rank, "all_reduce", group="everyone", bytes=40_000, dtype="float32")
        made.add(rank, "reduce_scatter", group="everyone", bytes=16, dtype="bfloat16")
        made.add(rank, "barrier", group="everyone")
    path = made.write(tmp_path / "run.et")
    tables = run_virtual(experiment(str(path), 2, scale="0.01"))
    rows = {row["collective"]: row["bytes"] for row in tables["collectives"]}
    # At least one value for each rank; what has no bytes stays so.
    assert rows == {"all_reduce": 400, "reduce_scatter": 4, "barrier": 0}
    assert 100_000 < tables["jobs"][0]["jct_ns"] < 150_000
    slow = experiment(str(path), 2, scale="0.01, compute_scale: 0.02")
    assert 200_000 < run_virtual(slow)["jobs"][0]["jct_ns"] < 250_000


def test_a_loaded_experiment_names_the_file_and_the_slice(tmp_path):
    (tmp_path / "work.txt").write_text(workload("a 1 NONE 0 1 NONE 0 1 NONE 0 1", pp=2, gpus=8))
    text = EXPERIMENT % (4, "1 Gbit/s", "esa", "{file: work.txt, stage: 0, replicas: 3}", 3, "1")
    loaded = load_text(text, folder=tmp_path)
    shown = loaded.resolved_yaml()
    assert f"file: {tmp_path}/work.txt" in shown and "replicas: 3" in shown
    assert load_text(shown).resolved_yaml() == shown
    assert "stage 0 of 2" in loaded.jobs[0].trace().title


@pytest.mark.parametrize(
    "model, message",
    [
        ("{file: other.txt}", "other.txt can't be read"),
        ("{file: work.csv}", "work.csv: not a program of ranks; name Chakra traces"),
        ("{file: work.txt, stage: 1}", r"model.stage: found 1; allowed"),
        ("{file: work.txt, replica: 2}", r"model.replica: unknown key; did you mean .?replicas"),
        ("{file: work.txt}", r"workers: found 3; the program has 4 ranks. Write 4"),
        ("{file: run.et, replicas: 2}", r"run.0.et: traces have all ranks.*take replicas out"),
        ("{}", r"model: found neither; allowed: one of file, transformer"),
        ("{file: work.txt, layers: 2}", r"model: found layers; allowed: keys that belong to file"),
        ("[1]", r"model: found .*; allowed: text, or a mapping {file: run.et}"),
    ],
)
def test_what_is_wrong_with_a_model_is_named(model, message, tmp_path):
    (tmp_path / "work.txt").write_text(workload("a 1 NONE 0 1 NONE 0 1 NONE 0 1", gpus=4))
    Ranks(everyone=(0, 1, 2)).write(tmp_path / "run.et")
    text = EXPERIMENT % (4, "1 Gbit/s", "esa", model, 3, "1")
    with pytest.raises(Exception, match=message):
        load_text(text, folder=tmp_path)
