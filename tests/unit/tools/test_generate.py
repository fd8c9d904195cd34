"""The generator makes the files that ship. Needs torch (the extra `traces`); skipped without it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from p4fabric.base.errors import UserError

from testbed.traffic.trace import MODELS_FOLDER, load_gradients, load_trace, shipped
from tools.models import generate


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed (the extra `traces`)")


@pytest.mark.parametrize("name", shipped())
def test_text_reads_back(name: str) -> None:
    """Without torch: the writer and the reader agree on every shipped file."""
    traces = [load_trace(name, gpu=gpu) for gpu in load_trace(name).gpus or (None,)]
    assert generate.trace_text(traces) == (MODELS_FOLDER / f"{name}.csv").read_text()


def test_missing_torch_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert generate.main(["alexnet"]) == 2
    assert "needs torch" in capsys.readouterr().err


def test_neither_models_nor_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        generate.main([])
    assert caught.value.code == 2
    assert "name the models, or give --all" in capsys.readouterr().err


def test_every_definition_ships(torch) -> None:
    from tools.models.definitions import MODELS

    assert sorted(MODELS) == shipped()


@pytest.mark.parametrize("name", shipped())
def test_generated_equals_shipped(torch, name: str, tmp_path: Path) -> None:
    generate.generate(name, tmp_path)
    assert (tmp_path / f"{name}.csv").read_text() == (MODELS_FOLDER / f"{name}.csv").read_text()
    shipped_trace = load_trace(name)
    if shipped_trace.gradients is None:
        return
    old, new = load_gradients(shipped_trace), load_gradients(load_trace(tmp_path / f"{name}.csv"))
    assert np.array_equal(old.iterations, new.iterations)
    # Another processor adds up in another order, and training carries the difference on.
    for iteration in range(old.values.shape[1]):
        before, after = old.values[:, iteration], new.values[:, iteration]
        assert np.abs(before - after).max() <= 1e-3 * np.abs(before).max()
    assert np.allclose(old.loss, new.loss, rtol=1e-3)


def test_unknown_model(torch, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown model 'vgg61'; did you mean vgg16?"):
        generate.generate("vgg61", tmp_path)


def test_operations_of_a_known_model(torch) -> None:
    """Counted by hand: a convolution, its activation, and a linear layer used twice."""
    from torch import nn

    from tools.models.profile import profile

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.late = nn.Linear(32, 32, bias=False)
            self.early = nn.Conv2d(1, 2, 3, padding=1)

        def forward(self, x):
            y = torch.relu(self.early(x)).flatten(1)
            return self.late(self.late(y) + y)

    first, second = profile(Tied, lambda batch: (torch.empty(batch, 1, 4, 4),), 5)
    assert (first.name, first.shape, first.values) == ("early", [(2, 1, 3, 3), (2,)], 20)
    convolution, activation = 5 * 2 * 9 * 32, 5 * 32
    assert first.forward_operations == convolution + activation
    assert first.backward_operations == convolution + activation  # its input is the model's
    product, addition = 5 * 2 * 32 * 32, 5 * 32
    assert (second.name, second.values) == ("late", 1024)
    assert second.forward_operations == 2 * product + addition
    assert second.backward_operations == 4 * product + addition


def test_unused_parameter_is_an_error(torch) -> None:
    from torch import nn

    from tools.models.profile import profile

    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    with pytest.raises(ValueError, match="does not use: unused"):
        profile(Unused, lambda batch: (torch.empty(batch, 2),), 1)
