"""A transformer is trained by a mesh of ranks: tensor parallel in its rows, data parallel in its
columns.

    sudo ina experiments/train_mesh.yaml

An ordinary PyTorch script: nothing in it knows of the testbed but the backend's name and the lines
that report the loss. With 8 ranks and `--tensor 4`, four ranks share each layer, by heads of the
attention and by rows of the MLP, and add up their activations. Two such groups learn from
different samples, and average their gradients. The text and the model are in `small_text.py`.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from small_text import Layer, drawn, loss_of, mlp, tested, text, transformer
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import testbed

PLAN = {
    "layers.*.attention.inner": ColwiseParallel(),
    "layers.*.attention.outer": RowwiseParallel(),
    "layers.*.mlp.0": ColwiseParallel(),
    "layers.*.mlp.2": RowwiseParallel(),
}


def average(parameters: list[torch.nn.Parameter], group: dist.ProcessGroup) -> None:
    """Average the gradients of what this rank has of the parameters."""
    works = []
    for parameter in parameters:
        gradient = parameter.grad
        own = gradient.to_local() if isinstance(gradient, DTensor) else gradient
        works.append(dist.all_reduce(own, dist.ReduceOp.AVG, group, async_op=True))
    for work in works:
        work.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=16, help="samples of a step, of all ranks")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tensor", type=int, default=4, help="ranks that share a layer")
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--loss", type=float, default=float("inf"), help="that it must reach")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, columns = dist.get_rank(), dist.get_world_size() // options.tensor
    mesh = init_device_mesh("cpu", (columns, options.tensor), mesh_dim_names=("data", "tensor"))
    train, test, characters = text()
    torch.manual_seed(0)
    model = transformer(characters, [Layer(mlp()) for _ in range(options.layers)])
    parallelize_module(model, mesh["tensor"], PLAN)
    parameters = [*model.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, foreach=False)
    # The ranks of a row need the same samples.
    generator = torch.Generator().manual_seed(mesh.get_local_rank("data"))
    before = tested(model, test)
    for step in range(options.steps):
        loss = loss_of(model, drawn(train, options.batch // columns, generator))
        optimizer.zero_grad()
        loss.backward()
        average(parameters, mesh.get_group("data"))
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            testbed.report(step=step, loss=loss.item())
            print(f"step {step}: loss {loss.item():.3f}")
    reached = tested(model, test)
    if rank == 0:
        testbed.report(step=options.steps, test_loss=reached)
        print(f"loss on text that nobody has trained on: {before:.3f}, then {reached:.3f}")
    dist.destroy_process_group()
    if reached > options.loss:
        raise SystemExit(f"the loss {reached:.3f} is above {options.loss}")


if __name__ == "__main__":
    main()
