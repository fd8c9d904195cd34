"""Layers of a transformer that stand for all: how many of a stage are simulated.

Layers are alike, so what a job takes grows by the same time with each further layer of its stages,
or, where several layers share a bucket of gradients, with each bucket. So sizes differ by whole
buckets: the buckets of the smallest one are also those at the ends of the whole stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from testbed.traffic.rank_layout import Layout
from testbed.traffic.trace import TraceError
from testbed.traffic.transformer_shapes import Shape
from testbed.traffic.transformer_stage import bucket_values

SIZES = 3, 16  # fewest and most: at least two differences, which have to agree
USUAL_SIZES = 4  # two differences agree by chance, and show no trend
TOLERANCE = 0.02


@dataclass(frozen=True)
class LayerSample:
    """Numbers of layers of a stage: first: of the smallest size; step: more of each next one;
    count: how many sizes; stage: of the whole; stages: of the pipeline."""

    first: int
    step: int
    count: int
    stage: int
    stages: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layers of all stages together, of each size."""
        return tuple(self.stages * (self.first + self.step * each) for each in range(self.count))

    @property
    def steps(self) -> int:
        """From the largest size to the whole."""
        return (self.stage - self.first) // self.step - (self.count - 1)

    def added(self, size: int) -> str:
        """Layers of a stage that size number `size` has in addition, such as `layers 3 to 4`."""
        last = self.first + self.step * size
        of_stage = " of each stage" if self.stages > 1 else ""
        which = f"layers {last - self.step + 1} to {last}" if self.step > 1 else f"layer {last}"
        return which + of_stage


def sample_of(shape: Shape, layout: Layout, sharding: str, least: int, count: int) -> LayerSample:
    """The sample of `count` sizes, with at least `least` layers of a stage in the smallest one.
    Raises TraceError if that leaves none out."""
    stage = shape.layers // layout.pp
    step, first = 1, max(least, 1)
    dense, experts = shape.layer(layout.tp, layout.ep)
    for group, values in {"dp": dense, "dp_ep": experts}.items():
        if sharding == "fsdp" or layout.group_size(group) == 1 or not values:
            continue  # a sum for each layer, or none
        full = bucket_values(layout, group)
        step = math.lcm(step, -(-full // values))
        tied = shape.words(layout.tp) if shape.gpt and layout.pp > 1 else 0
        head = shape.head(layout.tp) + tied
        beside = full - (head if group == "dp" else 0)
        first = max(first, -(-beside // values))
    first += (stage - first) % step
    found = LayerSample(first, step, count, stage, layout.pp)
    if found.steps < 1:
        shown = ", ".join(str(size // layout.pp) for size in found.sizes)
        raise TraceError(
            f"layers: sampled simulates {shown} layers of a stage, and a stage has {stage}. Take"
            " layers out, or a smaller sample.least or sample.sizes"
        )
    return found
