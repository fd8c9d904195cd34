"""Gradient buckets: DDP's rule against an implementation of its own, and traces with buckets."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.experiment import load_text
from testbed.protocols.host_spec import Tensor
from testbed.traffic.buckets import bucket_counts, in_buckets
from testbed.traffic.trace import Layer, Trace, load_gradients, load_trace, shipped
from tests.support.experiments import changed
from tests.support.graphs import training_loop
from tools.models.measured import measured

MIB = 2**20 // 4  # values


def reference(sizes: list[int]) -> list[list[int]]:
    """DDP's buckets by number of parameter: a bucket is full when it has 25 MiB, the first when it
    has 1 MiB."""
    buckets: list[list[int]] = []
    for number, _ in enumerate(sizes):
        limit = 1 if len(buckets) <= 1 else 25
        if not buckets or sum(sizes[n] for n in buckets[-1]) >= limit * MIB:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


@given(st.lists(st.integers(1, 8 * MIB) | st.sampled_from((MIB, 25 * MIB, 40 * MIB)), max_size=80))
def test_the_rule(sizes: list[int]) -> None:
    counts = bucket_counts(sizes)
    assert counts == [len(bucket) for bucket in reference(sizes)]
    assert sum(counts) == len(sizes)


@pytest.mark.parametrize("model", sorted({model for model, _ in measured()}))
def test_the_measured_buckets_follow_the_rule_in_forward_order(model: str) -> None:
    """They are those that DDP begins with, before it knows in which order gradients get ready. The
    source's BERT-large has 30,528 words and an output for questions."""
    sizes = [layer.values for layer in load_trace(model).layers]
    if model == "bert_large":
        sizes[0] = 30_528 * 1024
        sizes.append(2 * 1024 + 2)
    ends = np.cumsum(bucket_counts(sizes))
    found = [sum(sizes[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    assert found == [bucket.values for bucket in measured()[model, "v100"]]


@pytest.mark.parametrize("model", shipped())
def test_buckets_of_shipped_models(model: str) -> None:
    trace = load_trace(model)
    merged = in_buckets(trace, "ddp")
    for name in ("values", "forward_ns", "backward_ns", "update_ns"):
        assert getattr(merged, name) == getattr(trace, name)
    assert [part for layer in merged.layers for part in layer.shape] == [
        part for layer in trace.layers for part in layer.shape
    ]
    sizes = [math.prod(part) for layer in trace.layers for part in layer.shape]
    expected = [len(bucket) for bucket in reference(sizes[::-1])]
    assert [len(layer.shape) for layer in reversed(merged.layers)] == expected
    assert len({layer.name for layer in merged.layers}) == len(merged.layers)
    assert in_buckets(trace, "layers") is trace


def trace_of(*layers: Layer) -> Trace:
    return Trace("t", "t", layers, "computed", "none", ("test",), Path("t.csv"))


def test_buckets_by_hand() -> None:
    """From the rear: c reaches 1 MiB; the weight of b reaches 25 MiB with its bias; a is left."""
    trace = trace_of(
        Layer("a", ((8,), (2,)), 10, 1, 2, 3),
        Layer("b", ((25 * MIB,), (4,)), 25 * MIB + 4, 10, 20, 30),
        Layer("c", ((MIB,),), MIB, 100, 200, 300),
    )
    assert in_buckets(trace, "ddp").layers == (
        trace.layers[0],
        trace.layers[1],
        trace.layers[2],
    )
    trace = trace_of(
        Layer("a", ((8,), (2,)), 10, 1, 2, 3),
        Layer("b", ((4,), (4,)), 8, 10, 20, 30),
        Layer("c", ((MIB,),), MIB, 100, 200, 300),
    )
    front, rear = in_buckets(trace, "ddp").layers
    assert front == Layer("a:b", ((8,), (2,), (4,), (4,)), 18, 11, 22, 33)
    assert rear == trace.layers[2]


def test_a_layer_in_two_buckets() -> None:
    """The bias of b fills the rear bucket. The layer's steps belong to it: it is ready with them,
    and they cannot start without it."""
    trace = trace_of(
        Layer("a", ((3,),), 3, 1, 2, 3),
        Layer("b", ((MIB,), (MIB,)), 2 * MIB, 10, 20, 30),
        Layer("c", ((1,),), 1, 100, 200, 300),
    )
    front, rear = in_buckets(trace, "ddp").layers
    assert front == Layer("a:b.0", ((3,), (MIB,)), MIB + 3, 1, 2, 18)
    assert rear == Layer("b.1:c", ((MIB,), (1,)), MIB + 1, 110, 220, 315)


def test_a_bucket_is_ready_with_its_last_layer_and_the_next_forward_pass_waits_for_it() -> None:
    """Against the times of the single layers."""
    trace = load_trace("resnet50").scaled(0.01)
    merged = in_buckets(load_trace("resnet50"), "ddp").scaled(0.01)
    tensors = tuple(
        Tensor(each.name, each.values, each.forward_ns, each.backward_ns, each.update_ns)
        for each in merged.layers
    )
    loop = training_loop(tensors, 2)
    board, end = loop.scoreboard, 10**12
    loop.run(end)
    starts = [sum(len(each.shape) for each in merged.layers[:n]) for n in range(len(tensors))]
    ends = np.cumsum([len(layer.shape) for layer in trace.layers])
    first_layers = [int(np.searchsorted(ends, start, side="right")) for start in starts]
    ready = [
        trace.forward_ns + sum(layer.backward_ns for layer in trace.layers[first:])
        for first in first_layers
    ]
    assert board.ready_ns[0].tolist() == pytest.approx(ready, abs=len(trace.layers))
    arrivals = [end + 10**9 * number for number in range(len(tensors))]
    for number, when in enumerate(arrivals):
        loop.arrive(number, when)
    loop.run(2 * end)
    assert loop.graph.forward_start_ns[1].tolist() == arrivals


def test_float_gradients_of_a_bucket() -> None:
    """SmallCNN has less than 1 MiB, so all of it is one bucket."""
    trace = load_trace("smallcnn")
    merged = in_buckets(trace, "ddp")
    whole, single = load_gradients(merged), load_gradients(trace)
    parts = [single.tensor(2, 3, layer) for layer in range(len(trace.layers))]
    assert len(merged.layers) == 1
    assert np.array_equal(whole.tensor(2, 3, 0), np.concatenate(parts))


def test_the_key_of_a_job() -> None:
    assert [job.buckets for job in load_text(changed("name: base", "seed: 2")).jobs] == [
        "layers"
    ] * 2
    experiment = load_text(changed("scale: 0.01", "scale: 0.01, buckets: ddp"))
    buckets, layers = experiment.jobs
    assert buckets.trace() == in_buckets(load_trace("resnet50"), "ddp").scaled(0.01)
    assert layers.trace() == load_trace("vgg16").scaled(0.001)
    assert load_text(experiment.resolved_yaml()) == experiment
    tensors = [layer.values for layer in buckets.trace().layers]
    assert buckets.trace().fragments(64) == sum(-(-values // 64) for values in tensors)
