"""Counts a model's operations layer by layer, without running it.

The model is called once on torch's meta device, where tensors have a shape and no content. A
dispatch mode sees every operation that torch would perform. An operation that touches a parameter
for the first time opens that parameter's layer; everything up to the next such operation is
charged to the open layer. So the layers come out in forward order whatever order the module lists
them in, and functional operations (additions of a residual block, attention, pooling) need no
special treatment.

What counts: two operations per multiply-add of a convolution or matrix product, one per element
of the largest tensor for everything else, nothing for views. Backward: a convolution or matrix
product costs twice its forward operations (gradient of the input and of the weight), once where
its input is the model's own input; everything else costs the same as forward. Loss and optimiser
step are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# Operations that only make or relabel memory but are not views by their signature.
_FREE = {torch.ops.aten._unsafe_view, torch.ops.aten.empty, torch.ops.aten.detach}


@dataclass(eq=False)
class Counted:
    """One layer: parameter shapes and the operations of one iteration of a batch."""

    name: str
    shape: list[tuple[int, ...]] = field(default_factory=list)
    values: int = 0
    forward_operations: int = 0
    backward_operations: int = 0


class _Counter(TorchDispatchMode):
    def __init__(self, layer_of: dict[int, Counted], inputs: tuple[Tensor, ...]) -> None:
        super().__init__()
        self.layer_of = layer_of
        self.inputs = {id(tensor) for tensor in inputs}
        self.order: list[Counted] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [arg for arg in _flat(args) if isinstance(arg, Tensor)]
        for tensor in tensors:
            layer = self.layer_of.get(id(tensor))
            # A tied parameter that comes up again leaves the open layer open.
            if layer is not None and layer not in self.order:
                self.order.append(layer)
        if not self.order or func.is_view or func.overloadpacket in _FREE:
            return result
        layer = self.order[-1]
        if func.overloadpacket in flop_registry:
            count = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=result)
            from_input = any(id(tensor) in self.inputs for tensor in tensors)
            layer.forward_operations += count
            layer.backward_operations += count if from_input else 2 * count
        else:
            data = [t for t in tensors if id(t) not in self.layer_of]
            data += [t for t in _flat((result,)) if isinstance(t, Tensor)]
            count = max((tensor.numel() for tensor in data), default=0)
            layer.forward_operations += count
            layer.backward_operations += count
        return result


def _flat(items: tuple | list) -> list:
    """Arguments with lists of tensors (as of `cat`) taken apart."""
    out: list = []
    for item in items:
        out += _flat(item) if isinstance(item, (tuple, list)) else [item]
    return out


def profile(
    build: Callable[[], nn.Module], inputs: Callable[[int], tuple[Tensor, ...]], batch: int
) -> list[Counted]:
    """The layers of a model in forward order with their operations for `batch` samples.

    Raises ValueError if a parameter is never used: it would be missing from the trace.
    """
    with torch.device("meta"):
        model = build().eval()  # dropout has no parameters, and hardly any cost
        arguments = inputs(batch)
    layers: dict[str, Counted] = {}
    layer_of: dict[int, Counted] = {}
    for name, parameter in model.named_parameters():
        module, _, last = name.rpartition(".")
        owner = module if last in ("weight", "bias") else name
        layer = layers.setdefault(owner, Counted(owner))
        layer.shape.append(tuple(parameter.shape))
        layer.values += parameter.numel()
        layer_of[id(parameter)] = layer
    counter = _Counter(layer_of, arguments)
    with torch.no_grad(), counter:
        model(*arguments)
    unused = [layer.name for layer in layers.values() if layer not in counter.order]
    if unused:
        raise ValueError(f"parameters that the forward pass does not use: {', '.join(unused)}")
    return counter.order
