"""Models of many short tensors on links that lose nothing: with the default order all workers send
in the same order, so no fragment waits for another worker until it looks lost.

Virtual time and counts are the same on every machine."""

from __future__ import annotations

import csv

import pytest

from testbed.traffic.trace import MODELS_FOLDER
from tests.support.experiments import experiment, memory_line
from tests.support.matrix import first_of
from tests.support.virtual import run_virtual

TEXT = """
name: order
runtime: virtual
seed: 1
topology: {kind: star, hosts: 40}
links: {bandwidth: 100 Gbit/s, delay: 1 us, queue: 4000 packets, ecn_threshold: 400 packets}
system: {%(system)s}
%(memory)s
jobs: [%(jobs)s]
"""
JOB = (
    "{model: %s, workers: 4, iterations: 3, scale: %.6f, compute_scale: %.8f,"
    " compute_jitter: 10 %%, speed_spread: 10 %%}"
)
VALUES = 1_000_000  # of a scaled model: 60 windows of 256 fragments of 64 values
SYSTEMS = {
    "esa": "name: esa, window: 256",
    "ps": "name: ps, window: 128",
    "ps with four servers": "name: ps, window: 128, servers: 4",
    "grid": "name: grid, window: 256",
    "ring": "name: ring, window: 512",
}


@pytest.mark.parametrize("system", first_of(SYSTEMS, 1))
@pytest.mark.parametrize("model", first_of(["bert_large", "bert_base", "gpt2", "vit_b_16"], 1))
def test_a_model_of_many_tensors_is_not_sent_again(model, system):
    with open(MODELS_FOLDER / f"{model}.csv") as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        scale = VALUES / sum(int(row["values"]) for row in rows)
    options = f"{{{SYSTEMS[system]}}}"
    text = TEXT % {
        "system": SYSTEMS[system],
        "memory": memory_line(options, 1024 if system == "grid" else 128),
        "jobs": ", ".join([JOB % (model, scale, scale / 10)] * 4),
    }
    jobs = run_virtual(experiment(text))["jobs"]
    again = sum(job["retransmissions"] for job in jobs)
    assert again < 0.001 * sum(job["gradient_packets"] for job in jobs)
