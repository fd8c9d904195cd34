"""On links that lose nothing, next to nothing is sent again: a worker that computes longer than the
others is no loss, whatever the model and the system.

Four jobs share a switch with too little memory, and the speeds of their workers differ. Virtual
time and counts are the same on every machine."""

from __future__ import annotations

import pytest

from bench.losses import Case, run
from testbed.traffic.trace import shipped
from tests.support.matrix import first_of

# Of those of bench/losses.py.
SYSTEMS = (
    *("esa", "ps", "ps, 4 servers", "atp", "atp, gap 0"),
    *("switchml", "grid", "ring", "halving_doubling", "colocated_ps"),
)
# GoogLeNet has many small tensors, and its workers compute longer than they communicate.
MODELS = ["googlenet", *(name for name in shipped() if name != "googlenet")]


def share_sent_again(model: str, system: str, seed: int) -> float:
    """Retransmissions to gradient packets of four jobs of a model of 250,000 values."""
    aggregators = 1024 if system == "grid" else 128
    share, _ = run(Case(model, system, loss=0, seed=seed, aggregators=aggregators))
    return share


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
