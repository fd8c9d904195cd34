"""Compute times of the parts of a transformer's layers: by floating-point operations, or measured.

Computed: operations / (peak of the GPU x utilisation). A matrix product of n tokens with w weights
has 2 n w operations forward, as many for the gradient of its input, as many for that of its
weights. Attention itself has 4 n s h for a sequence of s tokens and width h, and twice that
backward; masked halves are counted, as in Megatron-LM's formula (arXiv 2104.04473). Peaks are the
dense bfloat16 ones of NVIDIA's data sheets.

Measured: the file layers.csv, forward and backward of attention and of the MLP of one layer by
tensor parallel size. What it lacks, embedding and head, is computed.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from testbed.traffic.trace import TraceError
from testbed.traffic.transformer_shapes import SHAPES, Shape

FILE = Path(__file__).resolve().parent / "layers.csv"
TERA = 10**12


@dataclass(frozen=True)
class Gpu:
    """peak: operations per second. bandwidth: bytes per second of its memory."""

    title: str
    peak: float
    bandwidth: float


GPUS = {
    "a100": Gpu("A100-SXM-80GB", 312 * TERA, 2.039 * TERA),
    "h100": Gpu("H100-SXM", 989 * TERA, 3.35 * TERA),
    "h200": Gpu("H200-SXM", 989 * TERA, 4.8 * TERA),
}
TIMES = ("computed", "measured")
# Adam with float32 moments and weights: reads and writes these, reads the gradient, and writes the
# 16-bit weights.
UPDATE_BYTES = 3 * 8 + 4 + 2


@dataclass(frozen=True)
class Part:
    """Times of a part in ns: forward, the gradient of its input, that of its weights. Attention:
    without the product of queries, keys and values (`core`)."""

    forward_ns: int
    input_ns: int
    weight_ns: int
    core_ns: int = 0
    core_input_ns: int = 0


@dataclass(frozen=True)
class Times:
    """Times of a rank's parts for one microbatch."""

    attention: Part
    mlp: Part  # of a layer with experts: of those that a rank's tokens go to
    router: Part
    head: Part
    update_ns_per_value: float


def times_of(
    shape: Shape,
    tokens: int,
    sequence: int,
    tp: int,
    gpu: Gpu,
    utilisation: float,
) -> Times:
    """Computed times. tokens: of a microbatch on a rank, all of which attend to `sequence`."""

    def took(operations: float) -> int:
        return round(operations / (gpu.peak * utilisation) * 1e9)

    def product(weights: float, core: float = 0) -> Part:
        one = took(2 * tokens * weights / tp)
        return Part(one, one, one, took(core / tp), took(2 * core / tp))

    return Times(
        attention=product(shape.attention, 4 * tokens * sequence * shape.core_width),
        mlp=product(shape.used * shape.mlp),
        router=product(shape.hidden * shape.experts),
        head=product(shape.vocabulary * shape.hidden),
        update_ns_per_value=UPDATE_BYTES / gpu.bandwidth * 1e9,
    )


def measured(times: Times, name: str, sequence: int, micro_batch: int, tp: int) -> Times:
    """The same with what is measured. Raises TraceError if that is not."""
    rows = _rows()
    shape = SHAPES[name]
    # Models may have the same layers.
    same = [each for each, other in SHAPES.items() if other.layer_shape == shape.layer_shape]
    keys = [(each, sequence, micro_batch, tp) for each in same]
    key = next((each for each in keys if (*each, "mlp") in rows), None)
    if key is None:
        has = sorted({found[:4] for found in rows if found[0] in same})
        shown = "; ".join(f"sequence {s}, micro_batch {b}, tp {t}" for _, s, b, t in has)
        models = ", ".join(sorted({found[0] for found in rows}))
        raise TraceError(
            f"times: measured: there are none of {name} with sequence {sequence}, micro_batch"
            f" {micro_batch}, tp {tp}. Measured are {shown or f'only {models}'}; take one of these,"
            " or times: computed"
        )

    def part(name: str, computed: Part) -> Part:
        forward, inputs, both = rows[(*key, name)]
        backward = both - forward
        to_input = min(inputs - forward, backward)
        return Part(forward, to_input, backward - to_input)

    return Times(
        attention=part("attention", times.attention),
        mlp=part("mlp", times.mlp),
        router=times.router,
        head=times.head,
        update_ns_per_value=times.update_ns_per_value,
    )


@lru_cache(maxsize=1)
def _rows() -> dict[tuple[str, int, int, int, str], tuple[int, int, int]]:
    """Times in ns by model, sequence, micro_batch, tp and part: forward; forward and gradient of
    the input; forward and both gradients."""
    lines = (line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    found = {}
    for row in csv.DictReader(lines):
        key = (row["model"], *(int(row[k]) for k in ("sequence", "micro_batch", "tp")), row["part"])
        us = (float(row[k]) for k in ("forward_us", "with_input_us", "with_both_us"))
        forward, inputs, both = (round(1000 * each) for each in us)
        found[key] = forward, inputs, both
    return found  # type: ignore[return-value]
