"""A transformer is trained by ranks that keep a share of each parameter (FSDP2), and saved whole.

    sudo ina experiments/train_sharded.yaml

An ordinary PyTorch script: nothing in it knows of the testbed but the backend's name and the lines
that report the loss. Before a layer computes, its parameters are gathered as bfloat16; afterwards
each rank gets its share of the sum of their gradients. At the end rank 0 writes the whole model to
a file, and tests what it reads from there. The text and the model are in `small_text.py`.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from small_text import Layer, drawn, loss_of, mlp, tested, text, transformer
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import testbed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=16, help="samples of a step, of all ranks")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--save", default="train_sharded.pt", help="file for the model")
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--loss", type=float, default=float("inf"), help="that it must reach")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    train, test, characters = text()

    def new() -> torch.nn.Sequential:
        torch.manual_seed(0)
        return transformer(characters, [Layer(mlp()) for _ in range(options.layers)])

    model = new()
    before = tested(model, test)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in (*model.layers, model):
        fully_shard(part, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(rank)
    for step in range(options.steps):
        loss = loss_of(model, drawn(train, options.batch // ranks, generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            testbed.report(step=step, loss=loss.item())
            print(f"step {step}: loss {loss.item():.3f}")
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    dist.destroy_process_group()
    if rank == 0:
        torch.save(state, options.save)
        read = new()
        read.load_state_dict(torch.load(options.save))
        reached = tested(read, test)
        testbed.report(step=options.steps, test_loss=reached)
        print(f"loss on text that nobody has trained on: {before:.3f}, then {reached:.3f}")
        if reached > options.loss:
            raise SystemExit(f"the loss {reached:.3f} is above {options.loss}")


if __name__ == "__main__":
    main()
