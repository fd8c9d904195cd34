"""The same training twice at the same time, on other hosts: in how many bits do the weights differ?

    sudo ina experiments/train_twice.yaml

Two teams of four ranks learn scikit-learn's digits (train_digits.py) from the same weights and the
same samples, each with a process group of its own. Their gradients meet in the switch in another
order: the second team's ranks have the parts of a batch in another order, and its links may have
delays and losses. After each step the first ranks of both teams compare their weights, bit by bit.

With integers and with exact sums no bit differs; with floats that are added in the order in which
they arrive some do (docs/numbers.md). `--expect` says which, and the example fails otherwise.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from train_digits import TEST, digits, network

import testbed

# The ranks of each team; one has the part of each batch that its place says.
TEAMS = ((0, 1, 2, 3), (7, 5, 6, 4))
BATCH = 100  # samples of a team


def differing_bits(mine: torch.Tensor, theirs: torch.Tensor) -> int:
    """Bits in which two float32 tensors differ."""
    differs = mine.numpy().view(np.uint32) ^ theirs.numpy().view(np.uint32)
    return int(np.unpackbits(differs.view(np.uint8)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--expect", choices=["equal", "different"], help="weights at the end")
    options = parser.parse_args()

    dist.init_process_group("ina")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    rank = dist.get_rank()
    groups = [dist.new_group(sorted(team)) for team in TEAMS]
    first = tuple(team[0] for team in TEAMS)
    judges = dist.new_group(sorted(first))
    number = next(i for i, team in enumerate(TEAMS) if rank in team)
    team = TEAMS[number]

    torch.manual_seed(0)
    images, labels = digits()
    model = DistributedDataParallel(network(), process_group=groups[number])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    draw = torch.Generator().manual_seed(0)  # of all ranks
    bits = 0
    for step in range(options.steps):
        batch = torch.randint(TEST, len(labels), (BATCH,), generator=draw)
        own = batch[team.index(rank) :: len(team)]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[own]), labels[own])
        loss.backward()
        optimizer.step()
        if rank in first:
            weights = [parameter.detach().flatten() for parameter in model.parameters()]
            mine = torch.cat([*weights, loss.detach().reshape(1)])
            both = [torch.empty_like(mine) for _ in first]
            dist.all_gather(both, mine, group=judges)
            bits = differing_bits(both[0][:-1], both[1][:-1])
            if rank == first[0]:
                losses = [each[-1].item() for each in both]
                testbed.report(step=step, bits=bits, loss=losses[0], other_loss=losses[1])
                shown = " and ".join(f"{each:.6f}" for each in losses)
                print(f"step {step}: {bits} bits differ, losses {shown}", flush=True)
    dist.destroy_process_group()
    found = "equal" if bits == 0 else "different"
    if rank == first[0] and options.expect not in (None, found):
        raise SystemExit(f"the weights are {found}: {bits} bits differ")


if __name__ == "__main__":
    main()
