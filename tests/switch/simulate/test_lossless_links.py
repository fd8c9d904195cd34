"""On links that lose nothing, next to nothing is sent again: a worker that computes longer than the
others is no loss, whatever the model and the system.

Four jobs share a switch with too little memory, and the speeds of their workers differ. Virtual
time and counts are the same on every machine."""

from __future__ import annotations

import csv

import pytest

from testbed.traffic.trace import MODELS_FOLDER, shipped
from tests.support.experiments import experiment, memory_line
from tests.support.matrix import first_of
from tests.support.virtual import run_virtual

TEXT = """
name: lossless
runtime: virtual
seed: %(seed)d
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
SYSTEMS = {
    "esa": "name: esa, window: 256",
    "ps": "name: ps, window: 128",
    "ps with four servers": "name: ps, window: 128, servers: 4",
    "atp": "name: atp, window: 256",
    "atp without gaps": "name: atp, window: 256, gap: 0",
    "switchml": "name: switchml",
    "grid": "name: grid, window: 256",
    "ring": "name: ring, window: 512",
    "halving_doubling": "name: halving_doubling, window: 512",
    "colocated_ps": "name: colocated_ps, window: 512",
}
# GoogLeNet has many small tensors, and its workers compute longer than they communicate.
MODELS = ["googlenet", *(name for name in shipped() if name != "googlenet")]


def share_sent_again(model: str, system: str, values: int, compute: float, seed: int) -> float:
    """Retransmissions to gradient packets of four jobs of a model of so many values, with `compute`
    times its times of computation."""
    with open(MODELS_FOLDER / f"{model}.csv") as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        scale = min(1, values / sum(int(row["values"]) for row in rows))
    options = f"{{{SYSTEMS[system]}}}"
    text = TEXT % {
        "seed": seed,
        "system": SYSTEMS[system],
        "memory": memory_line(options, 1024 if system == "grid" else 128),
        "jobs": ", ".join([JOB % (model, scale, scale * compute)] * 4),
    }
    jobs = run_virtual(experiment(text))["jobs"]
    return sum(job["retransmissions"] for job in jobs) / sum(
        job["gradient_packets"] for job in jobs
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_slower_worker_is_no_loss(system):
    assert share_sent_again("googlenet", system, 250_000, 0.1, 1) < 0.001


# Each model with three systems, each system with five models; all pairs have been run so.
PAIRS = [
    (m, [*SYSTEMS][(n + 3 * k) % len(SYSTEMS)]) for n, m in enumerate(MODELS) for k in range(3)
]


@pytest.mark.parametrize("model, system", first_of(PAIRS, 0))
def test_no_model_is_sent_again(model, system):
    """SmallCNN has 1,140 fragments; few guesses are a large share of them."""
    limit = 0.005 if model == "smallcnn" else 0.001
    assert share_sent_again(model, system, 250_000, 0.1, 2) < limit
