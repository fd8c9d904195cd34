"""Published compute times per gradient bucket, and the batch sizes that go with them.

measured.csv holds the numbers of the source as they are. The source states no batch sizes; those
here are ours, and docs/models.md says how they follow from the times and from published throughput.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from testbed.traffic.trace import GPUS

FILE = Path(__file__).resolve().parent / "measured.csv"
SOURCE = "ModelStats in the SwitchML-omnetpp simulator (github.com/ChenYuHo/SwitchML-omnetpp)"

# Batch sizes of the V100 and of the A100 (ours: the source states none).
BATCHES = {
    "alexnet": (1024, 2048),
    "bert_large": (16, 32),
    "googlenet": (256, 512),
    "inception_v3": (128, 256),
    "resnet50": (128, 256),
    "resnet101": (64, 256),
    "resnet152": (64, 128),
    "vgg11": (128, 512),
    "vgg16": (128, 512),
    "vgg19": (128, 256),
}

# Buckets whose backward time is not that of their own layers (docs/models.md).
OUTLIERS = {"bert_large": (1,)}

# The source's BERT-large pads its vocabulary to 30,528 and ends with an output for questions.
OTHER_VALUES = {"bert_large": {0: 6144, 37: 2050}}

T = TypeVar("T")


@dataclass(frozen=True)
class Bucket:
    """A gradient bucket of the source: values, and times in ps."""

    values: int
    forward_ps: int
    backward_ps: int
    update_ps: int


@lru_cache
def measured() -> dict[tuple[str, str], tuple[Bucket, ...]]:
    """Buckets in forward order, by model and GPU."""
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    found: dict[tuple[str, str], tuple[Bucket, ...]] = {}
    for row in csv.DictReader(lines):
        times = (int(row[f"{name}_ps"]) for name in ("forward", "backward", "update"))
        key = row["model"], row["gpu"]
        found[key] = (*found.get(key, ()), Bucket(int(row["values"]), *times))
    return found


def batch_of(model: str, gpu: str) -> int:
    """The batch size that goes with the times of a measured model."""
    v100, a100 = BATCHES[model]
    return a100 if gpu == "a100" else v100


def by_bucket(model: str, layers: Iterable[tuple[T, int]]) -> list[list[T]]:
    """The layers that each bucket of a measured model holds; `layers`: each with its values, in
    forward order. Raises ValueError if the buckets' ends are not ends of layers."""
    sizes = _sizes(model)
    groups: list[list[T]] = [[] for _ in sizes]
    bucket = filled = 0
    for layer, values in layers:
        groups[min(bucket, len(sizes) - 1)].append(layer)
        filled += values
        if bucket < len(sizes) and filled == sizes[bucket]:
            bucket, filled = bucket + 1, 0
    if bucket != len(sizes) or filled:
        raise ValueError(f"{model}: the layers do not fill the measured buckets")
    return groups


def _sizes(model: str) -> Sequence[int]:
    """Values of each bucket in the testbed's definition of the model."""
    buckets = measured()[model, next(iter(GPUS))]
    other = OTHER_VALUES.get(model, {})
    return [bucket.values - other.get(number, 0) for number, bucket in enumerate(buckets)]
