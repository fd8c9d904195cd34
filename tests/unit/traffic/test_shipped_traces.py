"""The traces that ship: totals as published, measured times of each bucket on each GPU, sources,
and the page that describes them."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from math import log2

import numpy as np
import pytest

from testbed.traffic.trace import GPUS, TIMES, load_gradients, load_trace, shipped
from tests.support.paths import ROOT
from tools.models.measured import PUBLISHED_GPUS, batch_of
from tools.models.page import model_table, throughput_table

PAGE = (ROOT / "docs" / "models.md").read_text()
VALUES = {
    "alexnet": 61_100_840,
    "vgg11": 132_863_336,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "googlenet": 6_624_904,
    "inception_v3": 23_834_568,
    "vit_b_16": 86_567_656,
    "bert_base": 109_482_240,
    "bert_large": 335_141_888,
    "gpt2": 124_439_808,
    "neumf": 31_832_577,
    "smallcnn": 18_346,
}
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
# The source's BERT-large has a longer vocabulary table and one more layer at the end.
ONLY_IN_THE_SOURCE = {("bert_large", 0): 30528 * 1024 - 30522 * 1024, ("bert_large", 37): 2050}
DERIVED = {
    "bert_base": "bert_large",
    "gpt2": "bert_large",
    "vit_b_16": "bert_large",
    "resnet18": "resnet50",
    "neumf": "resnet50",
}
STEPS = ("forward", "backward", "update")


def rows_of(name: str, *keys: str) -> dict[tuple[str, ...], list[dict[str, str]]]:
    """A data file of measured times by some columns, read without the testbed."""
    lines = (ROOT / "tools" / "models" / name).read_text().splitlines()
    found = defaultdict(list)
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        found[tuple(row[key] for key in keys)].append(row)
    return found


BUCKETS = {
    key: [{name: int(cell) for name, cell in row.items() if cell.isdigit()} for row in rows]
    for key, rows in rows_of("measured.csv", "model", "gpu").items()
}


# ---- each model ----


@pytest.mark.parametrize("name", VALUES)
def test_a_model_and_its_scaled_traces(name: str) -> None:
    """Its totals and sources; a smaller one has the same layers and a share of everything."""
    trace = load_trace(name)
    assert (trace.name, trace.values, trace.scaled(1)) == (name, VALUES[name], trace)
    names = [layer.name for layer in trace.layers]
    assert len({*names}) == len(names)
    for layer in trace.layers:
        assert layer.values == layer.full_values > 0 < layer.forward_ns
        assert layer.backward_ns > 0
    for scale in (0.5, 0.01, 1e-4, 1e-7):
        small = trace.scaled(scale)
        assert small.values == max(len(names), round(scale * trace.values))
        assert small.forward_ns == round(scale * trace.forward_ns)
        assert small.backward_ns == round(scale * trace.backward_ns)
        kept = [(layer.name, layer.full_values) for layer in small.layers]
        assert kept == [(layer.name, layer.values) for layer in trace.layers]
    assert trace.times in TIMES and trace.batch is not None
    assert {"layers", "times"} <= {source.split(":")[0] for source in trace.sources}
    (times,) = (source for source in trace.sources if source.startswith("times:"))
    assert "ours" in times
    if name == "smallcnn":
        assert (trace.gpus, trace.gpu, trace.update_ns) == ((), None, 0)
        assert f"batch of {trace.batch}" in times and "GFLOP/s" in times
    else:
        assert (trace.gpus, trace.gpu) == (tuple(GPUS), "v100")
        assert "SwitchML-omnetpp" in times and "floating-point operations" in times
        assert any(source.startswith("batch sizes: assumed (ours)") for source in trace.sources)


def test_which_models_ship() -> None:
    assert shipped() == sorted(VALUES)
    assert {*VALUES} == {*V100_MS, *DERIVED, "smallcnn"}
    for written in ("ResNet-50", "RESNET50", "resnet_50"):  # as in papers
        assert load_trace(written).name == "resnet50"


# ---- times ----


def test_the_data_file_is_as_published() -> None:
    assert {*BUCKETS} == {(model, gpu) for model in V100_MS for gpu in PUBLISHED_GPUS}
    for (model, _), buckets in BUCKETS.items():
        assert [bucket["bucket"] for bucket in buckets] == list(range(len(buckets)))
        sizes = [bucket["values"] for bucket in buckets]
        assert sizes == [bucket["values"] for bucket in BUCKETS[model, "v100"]]
    for model, published in V100_MS.items():
        for name, total in zip(STEPS, published, strict=False):
            measured = sum(bucket[f"{name}_ps"] for bucket in BUCKETS[model, "v100"])
            assert measured / 1e9 == pytest.approx(total, abs=0.06)


@pytest.mark.parametrize("model", V100_MS)
def test_a_measured_model(model: str) -> None:
    """Each bucket ends with a layer and takes as long as measured. The A100's batch is to the
    V100's as the power of two nearest to the ratio of the times; two buckets of VGG-16 on the A100
    take far longer than all others."""
    traces = {gpu: load_trace(model, gpu=gpu) for gpu in PUBLISHED_GPUS}
    for gpu, trace in traces.items():
        assert (trace.gpu, trace.times, trace.hardware) == (gpu, "published", gpu[:4].upper())
        layers = iter(trace.layers)
        for bucket in BUCKETS[model, gpu]:
            left = bucket["values"] - ONLY_IN_THE_SOURCE.get((model, bucket["bucket"]), 0)
            mine = []
            while left > 0:
                mine.append(next(layers))
                left -= mine[-1].values
            assert left == 0
            for name in STEPS:
                spent = sum(getattr(layer, f"{name}_ns") for layer in mine)
                assert spent == pytest.approx(bucket[f"{name}_ps"] / 1000, rel=0.01)
        assert next(layers, None) is None
    small, v100, a100 = traces["a100_v100_batch"], traces["v100"], traces["a100"]
    assert small.batch == v100.batch == batch_of(model, "v100")
    ratio = (a100.forward_ns + a100.backward_ns) / (small.forward_ns + small.backward_ns)
    ratio /= 2 if model == "vgg16" else 1
    assert a100.batch == v100.batch * 2 ** round(log2(ratio))


def test_an_h200_is_measured_layer_by_layer() -> None:
    """Its trace has the numbers and layers of our file, the batch sizes of the A100, and plausible
    rates. VGG-16 has two buckets on the A100 that take about ten times as long as they should."""
    rows = rows_of("h200.csv", "model")
    assert {model for (model,) in rows} == {*V100_MS, *DERIVED}
    for (model,), mine in rows.items():
        trace, a100 = load_trace(model, gpu="h200"), load_trace(model, gpu="a100")
        assert (trace.times, trace.hardware, trace.batch) == ("measured", "H200", a100.batch)
        assert [row["layer"] for row in mine] == [layer.name for layer in trace.layers]
        for name in ("values", *(f"{step}_ns" for step in STEPS)):
            found = [getattr(layer, name) for layer in trace.layers]
            assert found == [int(row[name]) for row in mine], name
        assert {int(row["batch"]) for row in mine} == {trace.batch}
        assert 1.2 < a100.compute_ns / trace.compute_ns < (15 if model == "vgg16" else 7), model


# ---- gradients ----


@pytest.mark.parametrize("scale", [0.01, 0.5, 1, 2.5])
def test_gradients_of_a_scaled_trace(scale: float) -> None:
    """Tensors lie one after the other and repeat over workers and iterations; whole ones are
    read-only."""
    full = load_trace("smallcnn")
    trace = full.scaled(scale)
    gradients, reference = load_gradients(trace), load_gradients(full)
    begin = 0
    for number, (layer, whole) in enumerate(zip(trace.layers, full.layers, strict=True)):
        end = begin + whole.values
        tensor = gradients.tensor(3, 1, number)
        expected = reference.values[3, 1, begin:end]
        assert expected.any()
        assert np.array_equal(tensor, np.resize(expected, layer.values))
        assert np.array_equal(gradients.tensor(11, 7, number), tensor)
        begin = end
    if scale == 1:
        with pytest.raises(ValueError):
            tensor[0] = 1


# ---- docs/models.md ----


@pytest.mark.parametrize(
    ("place", "table"), [("", model_table), (": throughput", throughput_table)]
)
def test_page_has_the_tables_of_the_files(place: str, table) -> None:
    begin = f"<!-- python -m tools.models.page{place} -->\n"
    assert PAGE.split(begin)[1].split("\n<!-- end -->")[0] == table()


def test_examples_of_the_page(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    example, code = (
        re.search(rf"```{kind}\n(.*?)```", PAGE, re.S)[1] for kind in ("text", "python")
    )
    file = tmp_path / "tiny.csv"
    file.write_text(example)
    trace = load_trace(file)
    assert (trace.title, trace.batch, trace.layers[1].shape) == ("Tiny example", 32, ((842,),))
    exec(code, {})
    assert capsys.readouterr().out.split() == ["255570", "107", "conv1", "float32"]
