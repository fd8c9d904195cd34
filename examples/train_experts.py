"""A transformer with a mixture of experts: each character goes to the expert that a router chooses,
on whichever rank that is.

    sudo ina experiments/train_experts.yaml

An ordinary PyTorch script: nothing in it knows of the testbed but the backend's name and the lines
that report the loss. With 4 ranks and `--parallel 2`, two ranks share the experts and exchange
their characters in all-to-all calls, of as many as the router says. Two such groups learn from
different samples: an expert's gradients are added up in a group of its copies, all others in that
of all ranks. The text and the model are in `small_text.py`.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from small_text import WIDTH, Layer, drawn, loss_of, mlp, tested, text, transformer
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import testbed


class Exchange(torch.autograd.Function):
    """Rows in exchange for those of a group's other ranks: so many are given to each, and got."""

    @staticmethod
    def forward(context, rows, given, got, group):
        context.way_back = got, given, group
        into = rows.new_empty(sum(got), rows.shape[1])
        dist.all_to_all_single(into, rows.contiguous(), got, given, group=group)
        return into

    @staticmethod
    def backward(context, gradient):
        return Exchange.apply(gradient, *context.way_back), None, None, None


class Experts(nn.Module):
    """Takes the place of a layer's MLP. `group`: the ranks that share the experts."""

    def __init__(self, experts: int, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        self.router = nn.Linear(WIDTH, experts, bias=False)
        first = group.rank() * experts // group.size()
        mine = range(first, first + experts // group.size())
        self.experts = nn.ModuleList([mlp() for _ in range(experts)][i] for i in mine)
        self.unfairness = torch.zeros(())  # of the last call: 1 if all experts get as many

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        rows = given.flatten(0, 1)
        shares = self.router(rows).softmax(1)
        share, chosen = shares.max(1)
        order = chosen.argsort()
        counts = chosen.bincount(minlength=shares.shape[1])
        self.unfairness = (counts / len(rows) * shares.mean(0)).sum() * len(counts)
        coming = torch.empty_like(counts)  # rows from each rank, for each expert here
        dist.all_to_all_single(coming, counts, group=self.group)
        to, back = (each.view(self.group.size(), -1).sum(1).tolist() for each in (counts, coming))
        parts = Exchange.apply(rows[order], to, back, self.group).split(coming.tolist())
        done = [self.experts[i % len(self.experts)](part) for i, part in enumerate(parts)]
        mixed = Exchange.apply(torch.cat(done), back, to, self.group)[order.argsort()]
        return (share[:, None] * mixed).view_as(given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=16, help="samples of a step, of all ranks")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=4, help="of each layer")
    parser.add_argument("--parallel", type=int, default=2, help="ranks that share the experts")
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--loss", type=float, default=float("inf"), help="that it must reach")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shape = (ranks // options.parallel, options.parallel)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "experts"))
    train, test, characters = text()
    torch.manual_seed(0)
    mixtures = [Experts(options.experts, mesh.get_group("experts")) for _ in range(options.layers)]
    model = transformer(characters, [Layer(each) for each in mixtures])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(rank)
    before = tested(model, test)
    for step in range(options.steps):
        loss = loss_of(model, drawn(train, options.batch // ranks, generator))
        optimizer.zero_grad()
        (loss + 0.01 * sum(each.unfairness for each in mixtures)).backward()
        works = []
        for name, parameter in model.named_parameters():
            group = mesh.get_group("data") if ".experts." in name else None
            parameter.grad /= ranks
            works.append(dist.all_reduce(parameter.grad, group=group, async_op=True))
        for work in works:
            work.wait()
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
