"""Measures the compute times of the shipped models on a GPU: `python -m tools.models.measure`.

Prints a line per layer, in the form of layer_times.csv, from which generate.py takes them. Needs
the extra `traces` of pyproject.toml and a GPU of CUDA.

An iteration (forward, backward, update; bfloat16 by autocast, parameters in float32, SGD with
momentum, images in channels-last order) is captured as a CUDA graph with events in it. So the
times are those of the GPU alone, without the time in which it waits for Python. A layer's forward
step begins with the first operation that touches its parameters, as profile.py has it. Its
backward step lasts from the moment at which all gradients of the layers behind it are ready until
its own are. The update's time is split by values. Each number is the median over repetitions.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from testbed.traffic.scaled_integers import share_out
from tools.models.definitions import MODELS

HEADER = "model,batch,layer,values,forward_ns,backward_ns,update_ns"
# Samples of an iteration: those of the A100 (measured.py, and docs/models.md for derived models).
BATCHES = {
    "alexnet": 2048, "bert_base": 32, "bert_large": 32, "googlenet": 512, "gpt2": 8,
    "inception_v3": 256, "neumf": 131072, "resnet18": 256, "resnet50": 256, "resnet101": 256,
    "resnet152": 128, "vgg11": 512, "vgg16": 512, "vgg19": 256, "vit_b_16": 128,
}  # fmt: skip
WARM, ROUNDS = 3, 15


@dataclass
class _Layer:
    """A layer's values, and the events at the begin of its forward step and when its gradients are
    ready (one for each parameter)."""

    name: str
    values: int
    begin: Any
    ready: list[Any]


class _Marks(TorchDispatchMode):
    """Records a layer's event before the first operation on one of its parameters."""

    def __init__(self, layer_of: dict[int, _Layer]) -> None:
        super().__init__()
        self.layer_of = layer_of
        self.order: list[_Layer] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for each in args:
            for tensor in each if isinstance(each, list | tuple) else (each,):
                layer = self.layer_of.get(id(tensor)) if isinstance(tensor, Tensor) else None
                if layer is not None and layer not in self.order:
                    layer.begin.record()
                    self.order.append(layer)
        return func(*args, **(kwargs or {}))


def measure(name: str, batch: int) -> list[str]:
    """The lines of a model, in forward order."""
    model = MODELS[name]
    torch.manual_seed(0)
    with torch.device("cuda"):
        module = model.build().train()
        inputs = tuple(_filled(tensor) for tensor in model.inputs(batch))
    if inputs[0].ndim == 4:
        module = module.to(memory_format=torch.channels_last)
        inputs = tuple(each.contiguous(memory_format=torch.channels_last) for each in inputs)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4, momentum=0.9, foreach=True)
    layers, layer_of = _layers(module)
    marks = _Marks(layer_of)
    begin, middle, end, over = (_event() for _ in range(4))

    def forward() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            return _loss(module(*inputs))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM):
            forward().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    torch.cuda.current_stream().wait_stream(side)
    hooks = [
        parameter.register_post_accumulate_grad_hook(_recorder(layer_of[id(parameter)]))
        for parameter in module.parameters()
    ]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        begin.record()
        with marks:
            loss = forward()
        middle.record()
        loss.backward()
        end.record()
        optimizer.step()
        over.record()
    for hook in hooks:
        hook.remove()
    assert len(marks.order) == len(layers), "a parameter is not used"
    rounds = [_round(graph, marks.order, begin, middle, end, over) for _ in range(WARM + ROUNDS)][
        WARM:
    ]
    forward_ns, backward_ns, (update,) = (
        [round(statistics.median(each)) for each in zip(*times, strict=True)]
        for times in zip(*rounds, strict=True)
    )
    update_ns = share_out(update, [layer.values for layer in marks.order])
    return [
        f"{name},{batch},{layer.name},{layer.values},{times[0]},{times[1]},{times[2]}"
        for layer, *times in zip(marks.order, forward_ns, backward_ns, update_ns, strict=True)
    ]


def _round(
    graph: Any, order: Sequence[_Layer], begin: Any, middle: Any, end: Any, over: Any
) -> tuple[list[float], list[float], list[float]]:
    """One iteration: ns of each layer forward and backward, and of the whole update."""
    graph.replay()
    torch.cuda.synchronize()

    def since(first: Any, second: Any) -> float:
        return float(first.elapsed_time(second)) * 1e6

    begins = [0.0, *(since(begin, layer.begin) for layer in order[1:]), since(begin, middle)]
    ready = [max(since(middle, event) for event in layer.ready) for layer in order]
    forward = [max(1.0, after - before) for before, after in pairwise(begins)]
    backward, done = [], 0.0
    for each in reversed(ready):
        backward.append(max(1.0, each - done))
        done = max(done, each)
    return forward, backward[::-1], [since(end, over)]


def _layers(module: nn.Module) -> tuple[list[_Layer], dict[int, _Layer]]:
    """The layers by name, and the layer of each parameter (by its id)."""
    layers: dict[str, _Layer] = {}
    layer_of: dict[int, _Layer] = {}
    for name, parameter in module.named_parameters():
        owner, _, last = name.rpartition(".")
        owner = owner if last in ("weight", "bias") else name
        layer = layers.setdefault(owner, _Layer(owner, 0, _event(), []))
        layer.values += parameter.numel()
        layer_of[id(parameter)] = layer
    return list(layers.values()), layer_of


def _recorder(layer: _Layer) -> Callable[[Tensor], None]:
    def record(_: Tensor) -> None:
        event = _event()
        event.record()
        layer.ready.append(event)

    return record


def _event() -> Any:
    """An event that is a node of the graph, so that each replay records it."""
    return torch.cuda.Event(enable_timing=True, external=True)


def _filled(tensor: Tensor) -> Tensor:
    """Random pixels, or ids that every table has."""
    return torch.randint_like(tensor, 2) if tensor.dtype == torch.long else torch.randn_like(tensor)


def _loss(result: Any) -> Tensor:
    """A number of which every output is a part."""
    parts = result if isinstance(result, tuple | list) else (result,)
    return sum((part.float().mean() for part in parts), start=torch.zeros((), device="cuda"))


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.models.measure", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(BATCHES))
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.models) - set(BATCHES):
        parser.error(f"there is no model {min(unknown)}; models: {', '.join(BATCHES)}")
    if not torch.cuda.is_available():
        print("there is no GPU of CUDA here, whose times could be measured", file=sys.stderr)
        return 2
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(HEADER)
    for name in chosen.models or BATCHES:
        for line in measure(name, BATCHES[name]):
            print(line, flush=True)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
