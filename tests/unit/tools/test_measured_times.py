"""The shipped traces carry the measured times of each bucket, on each GPU, and what follows from
them for models that are not measured."""

from __future__ import annotations

import csv
from collections import defaultdict
from math import log2

import pytest

from testbed.traffic.trace import Trace, load_trace, shipped
from tests.support.paths import ROOT
from tools.models.measured import PUBLISHED_GPUS, batch_of

# Forward and backward time of the whole model on a V100, in ms, as published.
V100_MS = {
    "alexnet": (133.0, 122.4),
    "resnet50": (99.2, 223.9),
    "resnet101": (98.5, 196.9),
    "resnet152": (140.0, 280.8),
    "vgg11": (74.2, 106.8),
    "vgg16": (146.0, 279.2),
    "vgg19": (174.4, 345.2),
    "googlenet": (76.9, 174.3),
    "inception_v3": (158.6, 339.9),
    "bert_large": (31.2, 198.2),
}
# Single buckets as published: number; values; forward, backward and update in ps.
SAMPLES = {
    ("resnet50", "a100"): (4, 3102696, 1358134500, 2980309000, 446999148),
    ("bert_large", "v100"): (1, 8927232, 1422774000, 123723840000, 201594349),
    ("vgg19", "a100_v100_batch"): (3, 107484160, 5907947500, 4054030500, 781255849),
}
# The source's BERT-large has a longer vocabulary table and one more layer at the end.
ONLY_IN_THE_SOURCE = {("bert_large", 0): 30528 * 1024 - 30522 * 1024, ("bert_large", 37): 2050}
DERIVED = {
    "bert_base": "bert_large",
    "gpt2": "bert_large",
    "vit_b_16": "bert_large",
    "resnet18": "resnet50",
    "neumf": "resnet50",
}


def rows() -> dict[tuple[str, str], list[dict[str, int]]]:
    """The data file, read without the testbed."""
    lines = (ROOT / "tools" / "models" / "measured.csv").read_text().splitlines()
    found = defaultdict(list)
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        key = row.pop("model"), row.pop("gpu")
        found[key].append({name: int(cell) for name, cell in row.items()})
    return found


ROWS = rows()


def test_the_data_file_is_whole() -> None:
    assert set(ROWS) == {(model, gpu) for model in V100_MS for gpu in PUBLISHED_GPUS}
    for (model, gpu), buckets in ROWS.items():
        assert [bucket["bucket"] for bucket in buckets] == list(range(len(buckets)))
        sizes = [bucket["values"] for bucket in buckets]
        assert sizes == [bucket["values"] for bucket in ROWS[model, "v100"]], gpu
    for model, published in V100_MS.items():
        for name, total in zip(("forward_ps", "backward_ps"), published, strict=True):
            measured = sum(bucket[name] for bucket in ROWS[model, "v100"])
            assert measured / 1e9 == pytest.approx(total, abs=0.06)


@pytest.mark.parametrize(("model", "gpu"), SAMPLES)
def test_the_data_file_has_the_published_numbers(model: str, gpu: str) -> None:
    number, *expected = SAMPLES[model, gpu]
    found = ROWS[model, gpu][number]
    names = ("values", "forward_ps", "backward_ps", "update_ps")
    assert [found[name] for name in names] == expected


@pytest.mark.parametrize("gpu", PUBLISHED_GPUS)
@pytest.mark.parametrize("model", V100_MS)
def test_each_bucket_takes_as_long_as_measured(model: str, gpu: str) -> None:
    trace = load_trace(model, gpu=gpu)
    assert (trace.gpu, trace.times, trace.hardware) == (gpu, "published", gpu[:4].upper())
    layers = iter(trace.layers)
    for bucket in ROWS[model, gpu]:
        left = bucket["values"] - ONLY_IN_THE_SOURCE.get((model, bucket["bucket"]), 0)
        sums = {"forward": 0, "backward": 0, "update": 0}
        while left > 0:
            layer = next(layers)
            left -= layer.values
            for name in sums:
                sums[name] += getattr(layer, f"{name}_ns")
        assert left == 0, "the bucket ends with a layer"
        for name, total in sums.items():
            assert total == pytest.approx(bucket[f"{name}_ps"] / 1000, rel=0.01)
    assert next(layers, None) is None


def test_updates_within_a_bucket_follow_the_values() -> None:
    first = load_trace("alexnet").layers[:2]
    values = [layer.values for layer in first]
    updates = [layer.update_ns for layer in first]
    assert updates[0] / sum(updates) == pytest.approx(values[0] / sum(values), abs=0.001)


def test_other_models_are_derived() -> None:
    assert set(shipped()) == {*V100_MS, *DERIVED, "smallcnn"}
    for name in DERIVED:
        assert {load_trace(name, gpu=gpu).times for gpu in PUBLISHED_GPUS} == {"computed"}


@pytest.mark.parametrize("gpu", PUBLISHED_GPUS)
@pytest.mark.parametrize("name", DERIVED)
def test_derived_models_spend_what_their_like_does(name: str, gpu: str) -> None:
    trace, like = load_trace(name, gpu=gpu), load_trace(DERIVED[name], gpu=gpu)
    assert trace.hardware == like.hardware
    each = [one.update_ns / one.values for one in (trace, like)]
    assert each[0] == pytest.approx(each[1], rel=0.01)
    batches = [load_trace(name, gpu="v100").batch, load_trace(DERIVED[name], gpu="v100").batch]
    assert trace.batch * batches[1] == like.batch * batches[0]


def backward_share(trace: Trace) -> float:
    """Backward compared with forward."""
    return trace.backward_ns / trace.forward_ns


def test_the_outlier_is_not_inherited() -> None:
    """A bucket of BERT-large has 124 of 198 ms backward. In the others, backward takes 2.5 times as
    long as forward, not 6.35 times."""
    large = load_trace("bert_large")
    assert backward_share(large) > 6
    buckets = [bucket for bucket in ROWS["bert_large", "v100"] if bucket["bucket"] != 1]
    times = [sum(bucket[name] for bucket in buckets) for name in ("backward_ps", "forward_ps")]
    rest = times[0] / times[1]
    assert rest == pytest.approx(2.50, abs=0.01)
    for name in ("bert_base", "gpt2", "vit_b_16"):
        trace = load_trace(name)
        assert backward_share(trace) == pytest.approx(rest, rel=0.05)
    layers = [layer for layer in load_trace("bert_base").layers if layer.name.startswith("encoder")]
    first, last = layers[: len(layers) // 12], layers[-len(layers) // 12 :]
    equal = [sum(layer.backward_ns for layer in block) for block in (first, last)]
    assert equal[0] == pytest.approx(equal[1], rel=0.01)


def test_derived_throughput_follows_that_of_the_measured_model() -> None:
    """An encoder layer of BERT-base has about 9/16 of the operations of one of BERT-large, and
    there are half as many."""
    base, large = load_trace("bert_base"), load_trace("bert_large")
    assert (base.batch, base.sample) == (large.batch, large.sample)
    times = [trace.forward_ns + trace.backward_ns for trace in (base, large)]
    assert times[0] / times[1] == pytest.approx(9 / 32, rel=0.05)


@pytest.mark.parametrize("model", V100_MS)
def test_batch_sizes_agree_with_the_times(model: str) -> None:
    """The A100's batch is to the V100's as the power of two nearest to the ratio of the times. Two
    buckets of VGG-16 on the A100 take far longer than all others."""
    times = {gpu: load_trace(model, gpu=gpu) for gpu in PUBLISHED_GPUS}
    assert times["a100_v100_batch"].batch == times["v100"].batch == batch_of(model, "v100")
    ratio = times["a100"].forward_ns + times["a100"].backward_ns
    ratio /= times["a100_v100_batch"].forward_ns + times["a100_v100_batch"].backward_ns
    if model == "vgg16":
        ratio /= 2
    assert times["a100"].batch == times["v100"].batch * 2 ** round(log2(ratio))


def test_an_h200_is_measured_layer_by_layer() -> None:
    """Its trace has the numbers of our file, the batch sizes of the A100, and plausible rates."""
    lines = (ROOT / "tools" / "models" / "h200.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert {row["model"] for row in rows} == {*V100_MS, *DERIVED}
    for model in {*V100_MS, *DERIVED}:
        trace, a100 = load_trace(model, gpu="h200"), load_trace(model, gpu="a100")
        assert (trace.times, trace.hardware, trace.batch) == ("measured", "H200", a100.batch)
        mine = [row for row in rows if row["model"] == model]
        assert [row["layer"] for row in mine] == [layer.name for layer in trace.layers]
        for name in ("values", "forward_ns", "backward_ns", "update_ns"):
            found = [getattr(layer, name) for layer in trace.layers]
            assert found == [int(row[name]) for row in mine], name
        assert {int(row["batch"]) for row in mine} == {trace.batch}
        # VGG-16 has two buckets on the A100 that take about ten times as long as they should.
        assert 1.2 < a100.compute_ns / trace.compute_ns < (15 if model == "vgg16" else 7), model
