"""Gradient buckets as PyTorch's DistributedDataParallel (DDP) makes them.

DDP does not exchange every parameter's gradient on its own. It collects gradients in buckets, in
the order in which backward makes them ready, which is the reverse of the forward order. A bucket is
closed by the parameter with which it reaches its limit: 1 MiB for the first bucket, so that the
exchange begins early, and 25 MiB for the others. A large parameter makes a large bucket, since none
is divided.

A bucket becomes ready with the last backward step of its layers, and the next forward pass waits
for the bucket before the first of its layers. So a bucket is one entry of a trace, with the summed
times of its layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from testbed.traffic.scaled_integers import share_out
from testbed.traffic.trace import Layer, Trace

BUCKETS = ("layers", "ddp")  # ways to divide a trace's gradients into tensors

FIRST_BYTES = 2**20
LIMIT_BYTES = 25 * 2**20
VALUE_BYTES = 4


def bucket_counts(sizes: Sequence[int]) -> list[int]:
    """The number of parameters in each bucket; `sizes`: values of each, in the order in which their
    gradients become ready."""
    counts, count, filled, limit = [], 0, 0, FIRST_BYTES
    for size in sizes:
        count += 1
        filled += size * VALUE_BYTES
        if filled >= limit:
            counts.append(count)
            count, filled, limit = 0, 0, LIMIT_BYTES
    return counts + [count] if count else counts


def in_buckets(trace: Trace, buckets: str) -> Trace:
    """The trace, not yet scaled, with one entry for each tensor: a layer ("layers") or a bucket of
    DDP ("ddp").

    A layer may have its weight in one bucket and its bias in the next one. Its times then belong to
    the rear one, which becomes ready with it and without which its forward step cannot start; the
    time of the update is divided in proportion to the values.
    """
    return trace if buckets == "layers" else _of_ddp(trace)


@lru_cache(maxsize=64)  # a sweep has the same few traces at each of its points
def _of_ddp(trace: Trace) -> Trace:
    parameters = [parameter for layer in trace.layers for parameter in _parameters(layer)]
    counts = bucket_counts([each.values for each in reversed(parameters)])
    layers, end = [], len(parameters)
    for count in counts:
        layers.append(_merged(parameters[end - count : end]))
        end -= count
    return replace(trace, layers=tuple(reversed(layers)))


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a layer, the name of a bucket that begins or ends with it, and the times that
    go with it: the layer's last parameter has those of forward and backward."""

    first_name: str
    last_name: str
    shape: tuple[int, ...]
    values: int
    forward_ns: int
    backward_ns: int
    update_ns: int


def _parameters(layer: Layer) -> list[_Parameter]:
    """A layer's parameters, in forward order."""
    sizes = [math.prod(part) for part in layer.shape]
    updates = share_out(layer.update_ns, sizes)
    last = len(sizes) - 1
    return [
        _Parameter(
            first_name=layer.name if number == 0 else f"{layer.name}.{number}",
            last_name=layer.name if number == last else f"{layer.name}.{number}",
            shape=shape,
            values=sizes[number],
            forward_ns=layer.forward_ns if number == last else 0,
            backward_ns=layer.backward_ns if number == last else 0,
            update_ns=updates[number],
        )
        for number, shape in enumerate(layer.shape)
    ]


def _merged(parameters: Sequence[_Parameter]) -> Layer:
    """The bucket of these parameters, in forward order."""
    first, last = parameters[0].first_name, parameters[-1].last_name
    return Layer(
        name=first if first == last else f"{first}:{last}",
        shape=tuple(each.shape for each in parameters),
        values=sum(each.values for each in parameters),
        forward_ns=sum(each.forward_ns for each in parameters),
        backward_ns=sum(each.backward_ns for each in parameters),
        update_ns=sum(each.update_ns for each in parameters),
    )
