"""Measured compute times: published ones per gradient bucket, and our own per layer.

measured.csv holds the numbers of the source as they are. The source states no batch sizes; those
here are ours, and docs/models.md says how they follow from the times and from published throughput.
h200.csv has what measure.py has measured.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

PUBLISHED_GPUS = ("v100", "a100", "a100_v100_batch")
FILE = Path(__file__).resolve().parent / "measured.csv"
LAYERS_FILE = FILE.with_name("h200.csv")
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
class LayerTimes:
    """Our measurement of a model: its batch size, and the times of each layer in ns, in forward
    order."""

    batch: int
    names: list[str]
    values: list[int]
    forward_ns: list[int]
    backward_ns: list[int]
    update_ns: list[int]


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
    found: dict[tuple[str, str], tuple[Bucket, ...]] = {}
    for row in _rows(FILE):
        times = (int(row[f"{name}_ps"]) for name in ("forward", "backward", "update"))
        key = row["model"], row["gpu"]
        found[key] = (*found.get(key, ()), Bucket(int(row["values"]), *times))
    return found


def layer_times(model: str) -> LayerTimes | None:
    """Our times of a model on an H200; None: it was not measured."""
    rows = [row for row in _rows(LAYERS_FILE) if row["model"] == model]
    if not rows:
        return None
    names = ("values", "forward_ns", "backward_ns", "update_ns")
    columns = [[int(row[name]) for row in rows] for name in names]
    return LayerTimes(int(rows[0]["batch"]), [row["layer"] for row in rows], *columns)


def _rows(path: Path) -> list[dict[str, str]]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


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
    buckets = measured()[model, PUBLISHED_GPUS[0]]
    other = OTHER_VALUES.get(model, {})
    return [bucket.values - other.get(number, 0) for number, bucket in enumerate(buckets)]
