"""Compute times of the shipped models on each GPU: measured per bucket, or derived from those.

There is no accelerator where traces are made, and a CPU's times would mislead. Times of an H200 are
our own, measured per layer (measure.py). The others come from a publication (measured.py), which
has them for gradient buckets. The time of a bucket is split over
its layers: forward and backward by floating-point operations, the weight update by values.

A model that is not measured is derived from one that is (`Model.like`): its operations times the
time per operation of that model, forward and backward for themselves, and its values times the
update's time per value. A bucket that holds time of other layers (`measured.OUTLIERS`) tells
nothing about forward and backward. It is left out of both times per operation, which then have the
proportion of all other buckets, and both are scaled alike until the whole model again takes as long
as measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from testbed.traffic.scaled_integers import share_out
from testbed.traffic.trace import GPUS
from tools.models.definitions import MODELS, Model
from tools.models.measured import (
    OUTLIERS,
    PUBLISHED_GPUS,
    SOURCE,
    Bucket,
    batch_of,
    by_bucket,
    layer_times,
    measured,
)
from tools.models.profile import Counted, profile

# The small trained model is no accelerator's work; a round number for one CPU core.
SMALL_OPERATIONS_PER_S = 10 * 10**9

H200 = (
    "times (h200): ours, measured per layer on one NVIDIA H200 in bfloat16 by"
    " python -m tools.models.measure"
)
BATCHES = "batch sizes: assumed (ours), the source states none; docs/models.md says how they follow"


@dataclass(frozen=True)
class Timing:
    """Times of one model on one GPU: per layer in ns, and a trace file's notes about them (`times`:
    their kind)."""

    forward_ns: list[int]
    backward_ns: list[int]
    update_ns: list[int]
    hardware: str
    batch: int
    times: str


def operations(model: Model, batch: int | None = None) -> list[Counted]:
    """The model's layers with the operations of one iteration (default: at its own batch size)."""
    return profile(model.build, model.inputs, batch or model.batch)


def timings(name: str, layers: list[Counted]) -> tuple[dict[str, Timing], list[str]]:
    """(times by GPU, their sources) of the shipped model `name`; `layers`: its counted layers in
    forward order. Our own small model has one set of times, for no GPU ("")."""
    found, sources = _published(name, layers)
    ours = layer_times(name)
    if ours is None:
        return found, sources
    counted = [(layer.name, layer.values) for layer in layers]
    if list(zip(ours.names, ours.values, strict=True)) != counted:
        raise ValueError(f"{name}: h200.csv has other layers; measure it again (measure.py)")
    times = ours.forward_ns, ours.backward_ns, ours.update_ns
    found["h200"] = Timing(*times, GPUS["h200"], ours.batch, "measured")
    return found, [*sources, H200]


def _published(name: str, layers: list[Counted]) -> tuple[dict[str, Timing], list[str]]:
    """The same of published times, or of what follows from them."""
    model = MODELS[name]
    if model.like:
        derived = {gpu: _derived(model, layers, gpu) for gpu in PUBLISHED_GPUS}
        like = MODELS[model.like].title
        source = (
            f"times: ours, derived from those of {like} in {SOURCE} by floating-point operations"
        )
        if model.like in OUTLIERS:
            source += ", without its outlier"
        return derived, [f"{source}; weight updates by values", BATCHES]
    if (name, PUBLISHED_GPUS[0]) in measured():
        source = (
            f"times: measured per gradient bucket, from {SOURCE}; split over the layers of a bucket"
            " by floating-point operations, weight updates by values (ours)"
        )
        return {gpu: _measured(name, layers, gpu) for gpu in PUBLISHED_GPUS}, [source, BATCHES]
    source = (
        f"times: ours, floating-point operations of a batch of {model.batch} divided by"
        f" {SMALL_OPERATIONS_PER_S / 1e9:.0f} GFLOP/s, a nominal rate of one CPU core; weight"
        " updates take no time"
    )
    return {"": _nominal(model, layers)}, [source]


def _measured(name: str, layers: Sequence[Counted], gpu: str) -> Timing:
    forward_ns: list[int] = []
    backward_ns: list[int] = []
    update_ns: list[int] = []
    groups = by_bucket(name, [(layer, layer.values) for layer in layers])
    for bucket, group in zip(measured()[name, gpu], groups, strict=True):
        forward_ns += _split(bucket.forward_ps, [layer.forward_operations for layer in group])
        backward_ns += _split(bucket.backward_ps, [layer.backward_operations for layer in group])
        update_ns += _split(bucket.update_ps, [layer.values for layer in group])
    batch = batch_of(name, gpu)
    return Timing(forward_ns, backward_ns, update_ns, GPUS[gpu], batch, "published")


@dataclass(frozen=True)
class _Rates:
    """Times of a measured model: ps per operation, forward and backward, and per value updated."""

    forward: Fraction
    backward: Fraction
    update: Fraction


@lru_cache
def rates(name: str, gpu: str) -> _Rates:
    """The times per operation of a measured model at its batch size, without its outliers."""
    layers = operations(MODELS[name], batch_of(name, gpu))
    groups = by_bucket(name, [(layer, layer.values) for layer in layers])
    buckets = measured()[name, gpu]
    kept = [number for number in range(len(buckets)) if number not in OUTLIERS.get(name, ())]

    def per_operation(pass_name: str) -> Fraction:
        time_ps = sum(getattr(buckets[number], f"{pass_name}_ps") for number in kept)
        counted = [layer for number in kept for layer in groups[number]]
        return Fraction(time_ps, sum(_operations(counted, pass_name)))

    forward, backward = per_operation("forward"), per_operation("backward")
    whole = forward * sum(_operations(layers, "forward"))
    whole += backward * sum(_operations(layers, "backward"))
    stretch = sum(bucket.forward_ps + bucket.backward_ps for bucket in buckets) / whole
    return _Rates(forward * stretch, backward * stretch, _update_rate(buckets))


def _operations(layers: Iterable[Counted], pass_name: str) -> list[int]:
    return [getattr(layer, f"{pass_name}_operations") for layer in layers]


def _update_rate(buckets: Iterable[Bucket]) -> Fraction:
    buckets = list(buckets)
    return Fraction(
        sum(bucket.update_ps for bucket in buckets), sum(bucket.values for bucket in buckets)
    )


def _derived(model: Model, layers: Sequence[Counted], gpu: str) -> Timing:
    """The times of a model at its batch size, which grows with that of the measured one."""
    found = rates(model.like, gpu)
    batch = model.batch * batch_of(model.like, gpu) // batch_of(model.like, PUBLISHED_GPUS[0])
    if batch != model.batch:
        layers = operations(model, batch)
    forward, backward = (_operations(layers, name) for name in ("forward", "backward"))
    values = [layer.values for layer in layers]
    return Timing(
        _split(round(found.forward * sum(forward)), forward),
        _split(round(found.backward * sum(backward)), backward),
        _split(round(found.update * sum(values)), values),
        GPUS[gpu],
        batch,
        "computed",
    )


def _nominal(model: Model, layers: Sequence[Counted]) -> Timing:
    def of_pass(name: str) -> list[int]:
        weights = _operations(layers, name)
        return _split(-(-sum(weights) * 10**9 // SMALL_OPERATIONS_PER_S) * 1000, weights)

    nothing = [0] * len(layers)
    hardware = "CPU core (nominal)"
    times = of_pass("forward"), of_pass("backward"), nothing
    return Timing(*times, hardware, model.batch, "computed")


def _split(total_ps: int, weights: Sequence[int]) -> list[int]:
    """A time in ns, in proportion to `weights`, at least 1 ns each."""
    shares = share_out(round(Fraction(total_ps, 1000)) - len(weights), weights)
    return [share + 1 for share in shares]
