"""The traces that ship: totals as published, order, sources, and the page that describes them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from testbed.traffic.trace import (
    GPUS,
    MODELS_FOLDER,
    TIMES,
    load_gradients,
    load_trace,
    shipped,
)
from tests.support.paths import ROOT
from tools.models.page import model_table, throughput_table

PAGE = ROOT / "docs" / "models.md"

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

# First and last layer of the forward pass, and pairs that must come in this order.
ENDS = {
    "alexnet": ("features.0", "classifier.6"),
    "vgg11": ("features.0", "classifier.6"),
    "vgg16": ("features.0", "classifier.6"),
    "vgg19": ("features.0", "classifier.6"),
    "resnet18": ("conv1", "fc"),
    "resnet50": ("conv1", "fc"),
    "resnet101": ("conv1", "fc"),
    "resnet152": ("conv1", "fc"),
    "googlenet": ("conv1.conv", "fc"),
    "inception_v3": ("Conv2d_1a_3x3.conv", "fc"),
    "vit_b_16": ("conv_proj", "head"),
    "bert_base": ("word_embeddings", "pooler"),
    "bert_large": ("word_embeddings", "pooler"),
    "gpt2": ("wte", "ln_f"),
    "neumf": ("mf_user", "final"),
    "smallcnn": ("conv1", "fc2"),
}
IN_ORDER = {
    "resnet50": ["bn1", "layer1.0.bn3", "layer1.0.downsample.0", "layer1.1.conv1", "layer4.2.bn3"],
    "inception_v3": ["Mixed_5b.branch1x1.conv", "Mixed_5b.branch_pool.bn", "Mixed_7c.branch1x1.bn"],
    "vit_b_16": ["class_token", "pos_embedding", "layers.0.ln_1", "layers.11.mlp.2", "ln"],
    "gpt2": ["wpe", "h.0.c_attn", "h.0.attn_proj", "h.0.mlp_proj", "h.11.ln_1"],
    "bert_base": [
        "token_type_embeddings",
        "embeddings_norm",
        "encoder.0.query",
        "encoder.11.query",
    ],
}


def test_every_model_ships() -> None:
    assert shipped() == sorted(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_total_values(name: str) -> None:
    trace = load_trace(name)
    assert trace.values == VALUES[name]
    assert all(layer.values == layer.full_values for layer in trace.layers)


@pytest.mark.parametrize("name", VALUES)
def test_layers(name: str) -> None:
    trace = load_trace(name)
    names = [layer.name for layer in trace.layers]
    assert (names[0], names[-1]) == ENDS[name]
    places = [names.index(each) for each in IN_ORDER.get(name, [])]
    assert places == sorted(places)
    assert len(set(names)) == len(names)
    assert all(layer.values > 0 for layer in trace.layers)
    assert all(layer.forward_ns > 0 and layer.backward_ns > 0 for layer in trace.layers)


@pytest.mark.parametrize("name", VALUES)
def test_sources(name: str) -> None:
    trace = load_trace(name)
    assert trace.name == name
    assert trace.times in TIMES
    kinds = {source.split(":")[0] for source in trace.sources}
    assert {"layers", "times"} <= kinds
    times = next(source for source in trace.sources if source.startswith("times:"))
    assert "ours" in times and trace.batch is not None
    if name == "smallcnn":
        assert trace.gpus == () and trace.gpu is None and trace.update_ns == 0
        assert f"batch of {trace.batch}" in times and "GFLOP/s" in times
    else:
        assert trace.gpus == tuple(GPUS) and trace.gpu == "v100"
        assert "SwitchML-omnetpp" in times and "floating-point operations" in times
        assert any(source.startswith("batch sizes: assumed (ours)") for source in trace.sources)


def test_the_bigger_share_of_time_is_where_the_operations_are() -> None:
    """VGG's last two linear layers hold 15 % of its values and hardly any of its operations."""
    trace = load_trace("vgg16")
    linear = trace.layers[-2:]
    assert [layer.name for layer in linear] == ["classifier.3", "classifier.6"]
    assert sum(layer.values for layer in linear) > 0.15 * trace.values
    assert sum(layer.forward_ns for layer in linear) < 0.01 * trace.forward_ns


def test_tied_projection_is_charged_to_the_end() -> None:
    trace = load_trace("gpt2")
    assert trace.layers[-1].forward_ns == max(layer.forward_ns for layer in trace.layers)
    assert trace.layers[0].forward_ns < 0.001 * trace.forward_ns


@pytest.mark.parametrize("written", ["ResNet-50", "RESNET50", "resnet_50"])
def test_names_as_in_papers(written: str) -> None:
    assert load_trace(written).name == "resnet50"


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys; from testbed.traffic.trace import load_trace; load_trace('resnet152');"
        "print([m for m in ('torch', 'pandas', 'numpy', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PAGE.parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_gradients_are_those_of_a_training() -> None:
    trace = load_trace("smallcnn")
    gradients = load_gradients(trace)
    workers, iterations, values = gradients.values.shape
    assert (workers, values) == (8, trace.values) and iterations >= 4
    assert gradients.values.dtype == np.float32
    assert gradients.loss[:, -1].mean() < 0.3 * gradients.loss[:, 0].mean()
    assert list(gradients.iterations) == sorted(set(gradients.iterations))
    for layer in range(len(trace.layers)):
        for worker in range(workers):
            for iteration in range(iterations):
                assert gradients.tensor(worker, iteration, layer).any()
    # Workers see different data and the same weights: alike in direction, never equal.
    first = gradients.values[:, 0]
    assert not np.array_equal(first[0], first[1])
    assert np.corrcoef(first)[0, 1] > 0.2
    assert trace.gradients is not None and trace.gradients.stat().st_size < 5_000_000


def test_gradient_tensors_lie_one_after_the_other_and_are_read_only() -> None:
    trace = load_trace("smallcnn")
    gradients = load_gradients(trace)
    parts = [gradients.tensor(3, 1, layer) for layer in range(len(trace.layers))]
    assert [len(part) for part in parts] == [layer.values for layer in trace.layers]
    assert np.array_equal(np.concatenate(parts), gradients.values[3, 1])
    assert np.array_equal(gradients.tensor(11, 7, 2), gradients.tensor(3, 1, 2))
    with pytest.raises(ValueError):
        parts[0][0] = 1


@pytest.mark.parametrize("scale", [0.01, 0.5, 2.5])
def test_gradients_of_a_scaled_trace(scale: float) -> None:
    full = load_trace("smallcnn")
    trace = full.scaled(scale)
    gradients, reference = load_gradients(trace), load_gradients(full)
    for number, layer in enumerate(trace.layers):
        tensor = gradients.tensor(1, 2, number)
        assert len(tensor) == layer.values
        whole = reference.tensor(1, 2, number)
        assert np.array_equal(tensor, np.resize(whole, layer.values))


@pytest.mark.parametrize(
    ("place", "table"), [("", model_table), (": throughput", throughput_table)]
)
def test_page_has_the_tables_of_the_files(place: str, table: Callable[[], str]) -> None:
    match = re.search(
        rf"<!-- python -m tools.models.page{place} -->\n(.*?)\n<!-- end -->",
        PAGE.read_text(),
        re.S,
    )
    assert match and match.group(1) == table()


def test_page_example_is_a_valid_trace(tmp_path: Path) -> None:
    example = re.search(r"```text\n(.*?)```", PAGE.read_text(), re.S)
    assert example
    file = tmp_path / "tiny.csv"
    file.write_text(example.group(1))
    trace = load_trace(file)
    assert (trace.title, trace.batch, trace.layers[1].shape) == ("Tiny example", 32, ((842,),))


def test_page_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert example
    exec(example.group(1), {})
    assert capsys.readouterr().out.split() == ["255570", "107", "conv1", "float32"]


def test_page_loads_into_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(MODELS_FOLDER / "resnet50.csv", comment="#")
    assert frame["values"].sum() == VALUES["resnet50"]
