"""Generated transformers as a job's model, in virtual time."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from tests.support.experiments import memory_line
from tests.support.paths import ROOT
from tests.support.virtual import run_virtual

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: star, hosts: %d}
links: {bandwidth: 100 Gbit/s, delay: 1 us%s}
system: %s
%s
values_per_packet: 256
jobs:
  - model: {%s}
    parallel: {%s}
    workers: %d
    iterations: %d
    scale: %s
"""
LLAMA = "transformer: llama2-7b, sequence: 4096, global_batch: 4, layers: 2"


def experiment(model, parallel, ranks, system="esa", links="", iterations=1, scale="0.0005"):
    memory = memory_line(system, 4096)
    shown = (ranks + 1, links, system, memory, model, parallel, ranks, iterations, scale)
    return load_text(EXPERIMENT % shown)


@pytest.mark.parametrize(
    "model, parallel, ranks",
    [
        (LLAMA, "pp: 2, cp: 2", 4),
        (
            "transformer: mixtral-8x7b, sequence: 2048, global_batch: 4, layers: 2",
            "tp: 2, ep: 2, sequence_parallel: true",
            4,
        ),
    ],
)
def test_stages_and_experts_are_replayed(model, parallel, ranks):
    (job,) = run_virtual(experiment(model, parallel, ranks))["jobs"]
    assert job["exact"]


def test_a_job_takes_its_computation_and_its_blocking_collectives():
    """Two ranks of tp: forward and backward hold up, so times add up, except for the gradients of
    weights, which are computed beside an all_reduce."""
    spec = experiment(f"{LLAMA}, gpu: h100", "tp: 2", 2, "switchml", scale="0.01")
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    computing = spec.jobs[0].trace().compute_ns
    calls = sum(row["time_ns"] for row in tables["collectives"] if row["worker"] == 0)
    assert job["exact"] and computing < job["jct_ns"] < computing + calls
    # 4 microbatches of 2 layers: 2 of 4 all_reduces in each are beside the gradients of weights.
    assert job["jct_ns"] > computing + calls / 3


def test_a_file_is_printed_with_all_defaults():
    loaded = experiment(LLAMA, "tp: 2, dp: 2, sharding: fsdp", 4)
    shown = loaded.resolved_yaml()
    assert load_text(shown).resolved_yaml() == shown
    for each in ("utilisation: 50 %", "gpu: a100", "micro_batch: 1", "sharding: fsdp", "layers: 2"):
        assert each in shown
    assert "file:" not in shown.partition("jobs:")[2]
    title = loaded.jobs[0].trace().title
    assert title.startswith("llama2-7b with 2 layers, ") and "4 ranks (tp 2, dp 2, fsdp)" in title


@pytest.mark.parametrize(
    "change, message",
    [
        (("llama2-7b", "llama2-8b"), r"model.transformer: found 'llama2-8b'; allowed: llama2-7b"),
        (("sequence: 4096, ", ""), "model: found no sequence; allowed: transformer with sequence"),
        (("layers: 2", "replicas: 2"), "model: found replicas; allowed: keys that belong to trans"),
        (("workers: 4", "workers: 8"), "workers: found 8; the program has 4 ranks. Write 4"),
        (("dp: 2", "dp: 2, pp: 3"), "model: parallel.pp: found 3, which does not divide the 2"),
        (("tp: 2", "tp: 64"), "model: parallel.tp: found 64, which does not divide the 32 heads"),
        (("model: {transformer: llama2-7b, ", "model: resnet18\n    x: {"), "unknown key"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    text = EXPERIMENT % (5, "", "ring", "", LLAMA, "tp: 2, dp: 2", 4, 1, "0.01")
    changed = text.replace(*change)
    assert changed != text
    with pytest.raises(Exception, match=message):
        load_text(changed)


def test_parallel_of_another_job_is_refused():
    text = EXPERIMENT % (5, "", "ring", "", LLAMA, "tp: 2, dp: 2", 4, 1, "0.01")
    with pytest.raises(Exception, match=r"parallel: is for jobs that are programs"):
        load_text(text.replace(f"{{{LLAMA}}}", "resnet18"))


@pytest.mark.slow
def test_llama_on_rails_is_exact_and_its_times_add_up():
    """experiments/llama.yaml at a tenth of its scale: 64 ranks, ESA. Computation and blocking calls
    follow each other; calls of dp and gradients of weights are beside them."""
    text = (ROOT / "experiments" / "llama.yaml").read_text().replace("0.001", "0.0001")
    spec = load_text(text)
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    assert job["exact"]
    computing = spec.jobs[0].trace().compute_ns
    rows = [row for row in tables["collectives"] if row["worker"] == 0]
    own = {row["communicator"] for row in rows}
    assert own == {" ".join(map(str, range(8))), " ".join(map(str, range(0, 64, 8)))}
    blocking = sum(row["time_ns"] for row in rows if row["communicator"].startswith("0 1 "))
    others = sum(row["time_ns"] for row in rows) - blocking
    assert blocking < job["jct_ns"] < computing + blocking + others
