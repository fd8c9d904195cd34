"""Compute times of the shipped models: published totals, and a rate for models that have none.

There is no accelerator where traces are made, and a CPU's times would mislead. So times come from
a publication where there is one, and are split over the layers by floating-point operations. For
other models we divide operations by the rate that the published models of the same kind imply.
That rate needs a batch size, which the publication does not state; the one assumed here is ours
and is printed in every file that depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from testbed.traffic.definitions import MODELS, Model
from testbed.traffic.profile import Counted, profile
from testbed.traffic.scaling import share_out

SOURCE = (
    "ModelStats in the SwitchML-omnetpp simulator (github.com/ChenYuHo/SwitchML-omnetpp), "
    "NVIDIA V100, batch size not stated"
)

# Forward and backward time of one iteration in ms, as published (SOURCE).
PUBLISHED_MS: dict[str, tuple[float, float]] = {
    "alexnet": (133.0, 122.4),
    "vgg11": (74.2, 106.8),
    "vgg16": (146.0, 279.2),
    "vgg19": (174.4, 345.2),
    "resnet50": (99.2, 223.9),
    "resnet101": (98.5, 196.9),
    "resnet152": (140.0, 280.8),
    "googlenet": (76.9, 174.3),
    "inception_v3": (158.6, 339.9),
    "bert_large": (31.2, 198.2),
}

# The small trained model is no accelerator's work; a round number for one CPU core.
SMALL_OPERATIONS_PER_S = 10 * 10**9

# Whose published times a kind of model without any takes its rate from.
RATE_FROM = {"images": "images", "text": "text", "recommender": "images"}


@dataclass(frozen=True)
class Timing:
    """Times of one model: per layer in ns, and what a trace file says about them."""

    forward_ns: list[int]
    backward_ns: list[int]
    times: str
    hardware: str
    source: str
    batch: int | None


def operations(model: Model) -> list[Counted]:
    """The model's layers with the operations of one iteration at its batch size."""
    return profile(model.build, model.inputs, model.batch)


@lru_cache
def implied_rates(kind: str) -> tuple[int, int]:
    """Forward and backward operations per second of the published models of one kind.

    All operations of these models at their assumed batch size, over all their published time.
    """
    forward = backward = forward_ns = backward_ns = 0
    for name, (forward_ms, backward_ms) in PUBLISHED_MS.items():
        if MODELS[name].kind != kind:
            continue
        layers = operations(MODELS[name])
        forward += sum(layer.forward_operations for layer in layers)
        backward += sum(layer.backward_operations for layer in layers)
        forward_ns += _ns(forward_ms)
        backward_ns += _ns(backward_ms)
    return forward * 10**9 // forward_ns, backward * 10**9 // backward_ns


def timing(name: str, layers: list[Counted]) -> Timing:
    """Times of the shipped model `name`, whose counted `layers` are given in forward order."""
    model = MODELS[name]
    forward = [layer.forward_operations for layer in layers]
    backward = [layer.backward_operations for layer in layers]
    batch: int | None = model.batch
    if name in PUBLISHED_MS:
        forward_ms, backward_ms = PUBLISHED_MS[name]
        totals = _ns(forward_ms), _ns(backward_ms)
        times, hardware, batch = "published", "V100", None
        source = (
            f"times: forward {forward_ms} ms and backward {backward_ms} ms from {SOURCE}; "
            "split over the layers by floating-point operations (ours)"
        )
    else:
        if model.kind == "small":
            rates = SMALL_OPERATIONS_PER_S, SMALL_OPERATIONS_PER_S
            hardware = "CPU core (nominal)"
            basis = "a nominal rate of one CPU core"
        else:
            kind = RATE_FROM[model.kind]
            rates = implied_rates(kind)
            hardware = "V100"
            basis = f"the rate that the published times imply: {_basis(kind)}"
        forward_ns, backward_ns = (
            -(-sum(parts) * 10**9 // rate)
            for parts, rate in zip((forward, backward), rates, strict=True)
        )
        totals = forward_ns, backward_ns
        times = "computed"
        giga = " and ".join(f"{rate / 1e9:.0f}" for rate in rates)
        source = (
            f"times: ours, floating-point operations of a batch of {model.batch} divided by "
            f"{giga} GFLOP/s (forward and backward), {basis}"
        )
    return Timing(
        _split(totals[0], forward), _split(totals[1], backward), times, hardware, source, batch
    )


def _basis(kind: str) -> str:
    names = [name for name in PUBLISHED_MS if MODELS[name].kind == kind]
    model = MODELS[names[0]]
    titles = ", ".join(MODELS[name].title for name in names)
    samples = model.sample.replace("sequence", "sequences") if kind == "text" else "images"
    return f"{titles}, if their batch was {model.batch} {samples} (assumed, not published)"


def _split(total_ns: int, weights: Iterable[int]) -> list[int]:
    """`total_ns` in proportion to `weights`, at least 1 ns each."""
    weights = list(weights)
    shares = share_out(total_ns - len(weights), weights)
    return [share + 1 for share in shares]


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1_000_000)
