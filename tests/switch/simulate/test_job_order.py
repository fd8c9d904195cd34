"""The order of jobs in the file, which gives them their numbers, does not decide about them."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.experiment import load_text
from tests.support.virtual import run_virtual

TEXT = """
name: order
runtime: virtual
topology: {kind: star, hosts: 12}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
system: {%s}
memory: {aggregators: %d}
values_per_packet: 4
seed: %d
jobs:
"""
SIZES = {"a": ("resnet18", 8), "b": ("resnet50", 4), "c": ("vgg16", 0.8), "d": ("resnet18", 6)}
ORDERS = "abcd", "bcda", "cdab", "dabc"  # each job at each place
SEEDS = 4


def jcts(system: str, pool: int, scale: float, order: str, seed: int) -> list[int]:
    """JCTs of jobs a, b, c and d in ns."""
    text = TEXT % (system, pool, seed)
    for name in order:
        model, size = SIZES[name]
        text += (
            f"  - {{name: {name}, model: {model}, scale: {size * scale:g}, compute_scale: 0,"
            " workers: 2, iterations: 1}\n"
        )
    jobs = run_virtual(load_text(text))["jobs"]
    return [int(job["jct_ns"]) for job in sorted(jobs, key=lambda job: str(job["name"]))]


@pytest.mark.parametrize(
    ("system", "pool", "scale"),
    [
        ("name: atp, rehash: false, window: 100, index: consecutive", 300, 1e-4),
        pytest.param("name: atp, rehash: false, window: 16", 64, 2e-4, marks=pytest.mark.slow),
        pytest.param("name: a2tp, rehash: false, window: 100", 600, 1e-4, marks=pytest.mark.slow),
    ],
)
def test_orders_differ_by_no_more_than_seeds_let_expect(system, pool, scale):
    found = np.array(
        [[jcts(system, pool, scale, o, s) for s in range(SEEDS)] for o in ORDERS], float
    )
    found /= found.mean(axis=(0, 1))
    # Analysis of variance: the ratio is about 1 where the order has no effect of its own.
    between = SEEDS * found.mean(axis=1).var(axis=0, ddof=1).mean()
    within = found.var(axis=1, ddof=1).mean()
    assert between / within < 3.5  # 3.49 is the 95 % point of F(3, 12)
