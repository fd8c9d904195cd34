"""How a GPU's events become the times of layers. The measurement itself needs a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from tools.models import measure  # noqa: E402


@dataclass
class At:
    """An event at a time in ms."""

    ms: float

    def elapsed_time(self, later: At) -> float:
        return later.ms - self.ms


class Graph:
    def replay(self) -> None:
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.main(["vgg16"]) == 2
    assert "there is no GPU of CUDA" in capsys.readouterr().err


def test_an_unknown_model_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        measure.main(["vgg"])
    assert error.value.code == 2 and "no model vgg; models: alexnet" in capsys.readouterr().err


def test_every_shipped_model_has_a_batch_size() -> None:
    assert {*measure.BATCHES, "smallcnn"} == set(measure.MODELS)


def test_steps_are_the_times_between_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of the second layer is ready after that of the third, and before its own bias's;
    the first layer's weight is ready before the second's: it takes no time of its own."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    layers = [
        measure._Layer("first", 10, At(0.5), [At(16.0)]),
        measure._Layer("second", 20, At(2.0), [At(14.0), At(18.0)]),
        measure._Layer("third", 30, At(5.0), [At(13.0)]),
    ]
    found = measure._round(Graph(), layers, At(0), At(10.0), At(20.0), At(21.5))
    assert found == ([2e6, 3e6, 5e6], [1.0, 5e6, 3e6], [1.5e6])


def test_a_layer_begins_with_its_first_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a parameter comes in a list; tied ones stay with the first name."""
    began: list[str] = []

    class Event:
        def record(self) -> None:
            began.append("begun")

    monkeypatch.setattr(measure, "_event", Event)
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    module.tied = module[0].weight
    layers, layer_of = measure._layers(module)
    assert [(layer.name, layer.values) for layer in layers] == [("tied", 6), ("0", 3), ("1", 8)]
    marks = measure._Marks(layer_of)
    with marks:
        torch.cat([module[1].weight.t(), torch.zeros(3, 2)])
        module(torch.zeros(1, 2))
    assert [layer.name for layer in marks.order][0] == "1" and len(began) == 3
