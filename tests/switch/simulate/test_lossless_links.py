"""On links that lose nothing, next to nothing is sent again: a worker that computes longer than the
others is no loss, whatever the model and the system.

Four jobs share a switch with too little memory, and the speeds of their workers differ. Virtual
time and counts are the same on every machine."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of

from bench import harness
from testbed.traffic.trace import shipped
from tests.support.virtual import run_virtual

# Of those of bench/losses.yaml.
SYSTEMS = (
    *("name: esa, window: 256", "name: ps, window: 128", "name: ps, window: 128, servers: 4"),
    *("name: atp, window: 256", "name: atp, window: 256, gap: 0", "name: switchml"),
    *("name: grid, window: 256", "name: ring, window: 512", "name: halving_doubling, window: 512"),
    "name: colocated_ps, window: 512",
)
# GoogLeNet has many small tensors, and its workers compute longer than they communicate.
MODELS = ["googlenet", *(name for name in shipped() if name != "googlenet")]


def share_sent_again(model: str, system: str, seed: int) -> float:
    """Retransmissions to gradient packets of four jobs of a model of 250,000 values."""
    aggregators = 1024 if "grid" in system else 128
    changes = [f"jobs[*].model={model}", f"system={{{system}}}", f"seed={seed}"]
    bench = harness.load("losses", [*changes, f"memory.aggregators={aggregators}"])
    (point,) = bench.sweep.points
    jobs = run_virtual(point.experiment)["jobs"]
    sent = sum(job["gradient_packets"] for job in jobs)
    return sum(job["retransmissions"] for job in jobs) / sent


def test_the_sweep_has_every_model_that_ships():
    points = harness.load("losses", ["system=ring"]).sweep.points
    assert sorted(point.values["jobs[*].model"] for point in points) == shipped()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_slower_worker_is_no_loss(system):
    assert share_sent_again("googlenet", system, 1) < 0.001


# Each model with three systems, each system with five models; all pairs have been run so.
PAIRS = [(m, SYSTEMS[(n + 3 * k) % len(SYSTEMS)]) for n, m in enumerate(MODELS) for k in range(3)]


@pytest.mark.parametrize("model, system", first_of(PAIRS, 0))
def test_no_model_is_sent_again(model, system):
    """SmallCNN has 1,140 fragments; few guesses are a large share of them."""
    limit = 0.005 if model == "smallcnn" else 0.001
    assert share_sent_again(model, system, 2) < limit
