"""Recordings to test with, made without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from testbed.collective import ina_recorder as recorder
from testbed.traffic.rank_graph import Node, Program

# Two buckets in the order in which they become ready; the last one is the model's front.
BUCKETS = [
    {"dtype": "float32", "parameters": [{"name": "head.weight", "shape": [10, 30]}]},
    {
        "dtype": "float32",
        "parameters": [{"name": "body.bias", "shape": [7]}, {"name": "body.weight", "shape": [5]}],
    },
]
SIZES = (300, 12)
MS = 1_000_000

# Three ranks, with nodes of all sorts.
WORLD, PAIR = {"group": "world"}, {"group": "pair"}
PROGRAM = Program(
    {"world": (0, 1, 2), "pair": (2, 0)},
    (
        (
            Node("compute", duration_ns=1_234_567),
            Node("all_reduce", (0,), bytes=4096, dtype="bfloat16", id=1, **WORLD),
            Node("all_to_all", (0,), bytes=9, parts=(4, 0, 5), dtype="float32", id=2, **WORLD),
            Node("compute", (0, 1, 2), duration_ns=1, id=3),
            Node("broadcast", (3,), bytes=16, peer=2, id=4, **PAIR),
            Node("send", (3,), bytes=2**33, peer=1, tag=7, id=5, **WORLD),
            Node("barrier", (4, 5), id=6, **WORLD),
        ),
        (
            Node("all_reduce", bytes=4096, dtype="bfloat16", **WORLD),
            Node("all_to_all", bytes=1, parts=(0, 1, 0), dtype="float32", id=1, **WORLD),
            Node("recv", (0,), bytes=2**33, peer=0, tag=7, id=2, **WORLD),
            Node("barrier", (2,), id=3, **WORLD),
        ),
        (
            Node("all_reduce", bytes=4096, dtype="bfloat16", **WORLD),
            Node("all_to_all", bytes=0, dtype="float32", id=1, **WORLD),
            Node("broadcast", bytes=16, peer=2, id=2, **PAIR),
            Node("barrier", id=3, **WORLD),
        ),
    ),
    about={"script": "train.py", "torch": "2.13.0"},
)


def values_of(rank: int, step: int, bucket: int) -> np.ndarray:
    """Gradients of a rank: numbers of very different sizes, and zeros."""
    random = np.random.default_rng((rank, step, bucket))
    size = SIZES[bucket]
    found = random.normal(size=size) * 10.0 ** random.integers(-6, 3, size)
    return np.where(random.random(size) < 0.2, 0, found).astype(np.float32)


def sparse(rank: int, step: int, bucket: int) -> np.ndarray:
    """Fragments of four values of which each rank has some in a third, and all ranks none in
    another third."""
    size, random = SIZES[bucket], np.random.default_rng((rank, step, bucket))
    fragments = -(-size // 4)
    shared = np.random.default_rng((step, bucket)).random(fragments) < 1 / 3
    zeros = shared | (random.random(fragments) < 1 / 2)
    values = random.normal(size=size) * 10.0 ** random.integers(-3, 3, size)
    return np.where(np.repeat(zeros, 4)[:size], 0, values).astype(np.float32)


def header_of(size: int, count: int, **changed: Any) -> dict[str, Any]:
    return {
        "format": recorder.FORMAT,
        "version": recorder.VERSION,
        "script": "train_tiny.py",
        "model": "Tiny",
        "torch": "2.4.0",
        "world": size,
        "ranks": list(range(size)),
        "devices": ["GPU"] * size,
        "steps": list(range(5, 5 + count)),
        "values": True,
        "divided": True,
        "buckets": BUCKETS,
        **changed,
    }


def times_of(ranks: int, steps: int) -> dict[str, np.ndarray]:
    """Forward 1 + 2 ms, backward 3 + 4 ms, an update of 3.12 ms and 5 ms until the next step; later
    ranks and steps take (1 + rank) and (1 + step) times as long."""
    factor = (1 + np.arange(ranks))[:, None] * (1 + np.arange(steps))[None, :] * MS
    each = {
        "forward_end_ns": 3,
        "update_start_ns": 20,
        "update_end_ns": 23.12,
        "next_ns": 28.12,
    }
    found = {name: (factor * time).astype(np.int64) for name, time in each.items()}
    found["needed_ns"] = np.stack([factor * 1, factor * 0], axis=2)
    found["ready_ns"] = np.stack([factor * 6, factor * 10], axis=2)
    return found


def write_recording(
    path: Path, ranks: int = 2, count: int = 3, values: Any = values_of, **changed: Any
) -> Path:
    """A recording of so many steps; `changed`: other entries of its header."""
    header = header_of(ranks, count, **changed)
    members = (
        (recorder.member_of(rank, step, bucket), values(rank, step, bucket))
        for rank in range(ranks)
        for step in range(count)
        for bucket in range(len(BUCKETS))
    )
    recorder.write(path, header, times_of(ranks, count), members)
    return path
