"""A transformer with a mixture of experts: each character goes to the experts that a router
chooses, on whichever ranks they are, and the sum of their answers comes back.

    sudo ina experiments/train_experts.yaml

A PyTorch script that calls `testbed.torch.dispatch` and `combine`. With 4 ranks and `--parallel 2`,
two ranks share the experts. Two such groups learn from different samples: an expert's gradients are
added up in a group of its copies, all others in that of all ranks. `--backend gloo` takes
all_to_alls. `--steps-of N` adds answers and gradients as whole steps of 1 / N, so the weights are
the same bits with any backend. The text and the model are in `small_text.py`.
"""

from __future__ import annotations

import argparse
import hashlib

import torch
import torch.distributed as dist
from small_text import WIDTH, Layer, drawn, loss_of, mlp, tested, text, transformer
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import testbed
from testbed.torch import combine, dispatch


class Experts(nn.Module):
    """Takes the place of a layer's MLP. `group`: the ranks that share the experts. chosen: experts
    of a character. steps: as of `dispatch`."""

    def __init__(
        self, experts: int, chosen: int, group: dist.ProcessGroup, steps: int | None
    ) -> None:
        super().__init__()
        self.group, self.chosen, self.steps = group, chosen, steps
        self.router = nn.Linear(WIDTH, experts, bias=False)
        first = group.rank() * experts // group.size()
        mine = range(first, first + experts // group.size())
        self.experts = nn.ModuleList([mlp() for _ in range(experts)][i] for i in mine)
        self.unfairness = torch.zeros(())  # of the last call: 1 if all experts get as many

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        rows = given.flatten(0, 1)
        shares = self.router(rows).softmax(1)
        weights, chosen = shares.topk(self.chosen, 1)
        number = shares.shape[1]
        counts = chosen.flatten().bincount(minlength=number)
        self.unfairness = (counts / chosen.numel() * shares.mean(0)).sum() * number
        tokens, local, weights, _, handle = dispatch(
            rows, chosen, weights, number, self.group, steps=self.steps
        )
        answers = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            row, place = (local == i).nonzero(as_tuple=True)
            answers = answers.index_add(0, row, weights[row, place, None] * expert(tokens[row]))
        return combine(answers, handle).view_as(given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=16, help="samples of a step, of all ranks")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=4, help="of each layer")
    parser.add_argument("--parallel", type=int, default=2, help="ranks that share the experts")
    parser.add_argument("--chosen", type=int, default=2, help="experts of a character")
    parser.add_argument("--steps-of", type=int, help="N: sums are whole steps of 1 / N")
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--loss", type=float, default=float("inf"), help="that it must reach")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shape = (ranks // options.parallel, options.parallel)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "experts"))
    train, test, characters = text()
    torch.manual_seed(0)
    of_each = options.experts, options.chosen, mesh.get_group("experts"), options.steps_of
    mixtures = [Experts(*of_each) for _ in range(options.layers)]
    model = transformer(characters, [Layer(each) for each in mixtures])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(rank)
    before = tested(model, test)
    for step in range(options.steps):
        loss = loss_of(model, drawn(train, options.batch // ranks, generator))
        optimizer.zero_grad()
        (loss + 0.01 * sum(each.unfairness for each in mixtures)).backward()
        sums = []
        for name, parameter in model.named_parameters():
            group = mesh.get_group("data") if ".experts." in name else None
            given = parameter.grad / ranks
            if options.steps_of:
                given = (given.double() * options.steps_of).round().int()
            sums.append((given, dist.all_reduce(given, group=group, async_op=True)))
        for parameter, (found, work) in zip(model.parameters(), sums, strict=True):
            work.wait()
            parameter.grad = (found / (options.steps_of or 1)).float()
        if rank == 0 and step % 10 == 0:
            testbed.report(step=step, loss=loss.item())
            print(f"step {step}: loss {loss.item():.3f}")
        optimizer.step()
    reached = tested(model, test)
    if rank == 0:
        testbed.report(step=options.steps, test_loss=reached)
        print(f"loss on text that nobody has trained on: {before:.3f}, then {reached:.3f}")
    bits = torch.cat([each.detach().flatten() for each in model.parameters()]).numpy().tobytes()
    print(f"rank {rank}: weights {hashlib.sha256(bits).hexdigest()}")
    dist.destroy_process_group()
    if reached > options.loss:
        raise SystemExit(f"the loss {reached:.3f} is above {options.loss}")


if __name__ == "__main__":
    main()
