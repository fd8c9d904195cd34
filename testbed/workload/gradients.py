"""Recorded float gradients of a trace, quantised as the workers do it.

A worker sends round(g * scale) as int32. The scale is the largest power of two for which no sum
over W workers can leave int32: W * max|g| * scale < 2^31. The received integers are exactly the sum
of the workers' integers; the error of the sum of the floats is at most W / (2 scale), half a step
per worker.

A recording's values (testbed.traffic.recording) have a scale for each block, that on which the
ranks of a program agree (testbed.collective.prelude). The preludes themselves are not sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np

from testbed.collective import prelude
from testbed.number_formats import FORMATS
from testbed.protocols import block_float
from testbed.protocols.formats import recorded_floats
from testbed.protocols.formats.kept_sums import by_position
from testbed.protocols.formats.sum_errors import ExactSums
from testbed.protocols.host_spec import HostSpec, RecordedGradients, SlotsSpec
from testbed.protocols.pool_worker import Gradients
from testbed.protocols.sizes import fragments_of
from testbed.traffic.buckets import in_buckets
from testbed.traffic.recording import load_model, load_values
from testbed.traffic.trace import Gradients as Recorded


def quantisation_scale(largest: float, workers: int) -> float:
    """Largest power of two with workers * largest * scale < 2^31; 2^30 if all gradients are 0."""
    if largest <= 0:
        return float(2**30)
    share, exponent = math.frexp(2**31 / (workers * largest))  # exact, which a logarithm is not
    return math.ldexp(1.0, exponent - 2 if share == 0.5 else exponent - 1)


def block_scales(gradients: np.ndarray, block: int, value_bits: int = 32) -> np.ndarray:
    """Steps per unit of each value, float64[n], for what W ranks of a program give to a collective,
    finite float32[W, n]: each block of `block` values has the exponent of its largest value.
    `value_bits`: of a step in a packet, 32, 16 or 8."""
    workers, count = gradients.shape
    levels = np.max([prelude.levels_of(each, block)[0] for each in gradients], axis=0)
    exponents = [prelude.exponent_of(int(level)) for level in levels]
    if value_bits < 32:
        scales = [block_float.short_scale_of(each, value_bits) for each in exponents]
    else:
        scales = [prelude.steps(workers, each, False) for each in exponents]
    return np.repeat(scales, block)[:count]


def quantise(gradients: np.ndarray, scale: float | np.ndarray) -> np.ndarray:
    """round(g * scale) as int32; `gradients` is float32 of any shape, and fits by the scale."""
    return np.rint(gradients.astype(np.float64) * scale).astype(np.int32)


def of_worker(spec: HostSpec) -> Gradients | None:
    """(own, sums) of a worker's specification, int32[I, F * V] both, or the same in a format of
    floats; None if values are generated.

    Fragment f's values start at f * V. Workers beyond the recorded ones take the recorded ones' in
    turn, iterations likewise."""
    source = spec.job.gradients
    if source is None:
        return None
    if FORMATS[spec.job.sum].is_float:
        return recorded_floats.of_workers(spec.job, spec.number, all_gradients(spec))
    recorded = recorded_gradients(source)
    values, layers = spec.job.values, recorded.trace.layers
    first = fragments_of([layer.values for layer in layers], values)
    iterations = recorded.values.shape[1]
    own = np.zeros((iterations, int(first[-1]) * values), np.int32)
    sums = np.zeros_like(own)
    for i in range(iterations):
        for tensor, layer in enumerate(layers):
            start = int(first[tensor]) * values
            given = [recorded.tensor(worker, i, tensor) for worker in range(spec.job.workers)]
            scale = _scale_of(spec, np.stack(given))
            for worker in range(spec.job.workers):
                part = quantise(given[worker], scale)
                sums[i, start : start + layer.values] += part
                if worker == spec.number:
                    own[i, start : start + layer.values] = part
    if spec.job.value_bits < 32:
        sums = block_float.rounded(sums, spec.job.workers)
    return own, sums


def _scale_of(spec: HostSpec, given: np.ndarray) -> float | np.ndarray:
    """Steps per unit of a tensor's values, float32[W, N], for all or for each of them."""
    source = spec.job.gradients
    assert source is not None
    if source.block:
        return block_scales(given, source.block, spec.job.value_bits)
    return shared_scale(source, spec.job.workers)


def exact_sums(spec: HostSpec, iteration: int) -> ExactSums | None:
    """The exact sums of the recorded floats. None if a received integer does not say what it stands
    for: where packets have scales of their own, or may have floats."""
    source, job, options = spec.job.gradients, spec.job, spec.options
    assert source is not None
    is_float = FORMATS[job.sum].is_float
    positions = getattr(options, "positions", None) is not None and job.value_bits == 32
    if not is_float and (isinstance(options, SlotsSpec) or positions):
        return None
    recorded = recorded_gradients(source)
    i = iteration % recorded.values.shape[1]
    sums, sizes, units = [], [], []
    for tensor in range(len(recorded.trace.layers)):
        given = np.stack([recorded.tensor(worker, i, tensor) for worker in range(job.workers)])
        sums.append(given.sum(axis=0, dtype=np.float64))
        sizes.append(np.abs(given).sum(axis=0, dtype=np.float64))
        scale = 1.0 if is_float else _scale_of(spec, given)
        units.append(np.broadcast_to(1 / scale, sums[-1].shape))
    return ExactSums(*map(np.concatenate, (sums, sizes, units)))


def words_sent(spec: HostSpec, iteration: int) -> Iterator[np.ndarray]:
    """The recorded floats as each worker sends them in an iteration, uint32[N] of their bits."""
    for given in all_gradients(spec):
        words = recorded_floats.numbers_sent(spec.job, given[iteration % len(given)])
        yield by_position(spec, words[None])[0]


def all_gradients(spec: HostSpec) -> np.ndarray:
    """The recorded floats of a job's W workers, float32[W, I, F * V]; fragment f's values start at
    f * V."""
    source, job = spec.job.gradients, spec.job
    assert source is not None
    recorded = recorded_gradients(source)
    iterations = recorded.values.shape[1]
    first = fragments_of([layer.values for layer in recorded.trace.layers], job.values)
    found = np.zeros((job.workers, iterations, int(first[-1]) * job.values), np.float32)
    for tensor, layer in enumerate(recorded.trace.layers):
        start = int(first[tensor]) * job.values
        for worker in range(job.workers):
            for i in range(iterations):
                part = recorded.tensor(worker, i, tensor)
                found[worker, i, start : start + layer.values] = part
    return found


def recorded_gradients(source: RecordedGradients) -> Recorded:
    """The floats of a trace; `source`: its file, the scale of its values, and its tensors."""
    trace = in_buckets(load_model(source.trace), source.buckets)
    return load_values(trace.scaled(source.scale, 1.0), source.steps or None)


@cache
def shared_scale(source: RecordedGradients, workers: int) -> float:
    """The quantisation scale that all workers of a job use, from the largest recorded gradient."""
    return quantisation_scale(float(np.abs(recorded_gradients(source).values).max()), workers)
