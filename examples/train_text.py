"""A small transformer learns to write this repository's documentation, one character at a time.

    sudo ina experiments/train_text.yaml

An ordinary PyTorch script with DistributedDataParallel. The transformer has 1.2 million parameters.
The text is in `small_text.py`.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from small_text import LENGTH, drawn, loss_of, text
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import testbed

WIDTH = 128
TESTS = 32  # batches


class Transformer(nn.Module):
    """Predicts each next character of samples, int64[batch, LENGTH], from those before it."""

    def __init__(self, characters: int, layers: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, characters)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        inside = self.layers(self.characters(samples) + self.places, mask, is_causal=True)
        return self.scores(self.norm(inside))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32, help="samples of a step, of all ranks")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--loss", type=float, default=float("inf"), help="that it must reach")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    train, test, characters = text()
    torch.manual_seed(0)
    model = DistributedDataParallel(Transformer(characters, options.layers))
    if rank == 0:
        print(f"{sum(each.numel() for each in model.parameters())} parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.manual_seed(rank + 1)
    for step in range(options.steps):
        loss = loss_of(model, drawn(train, options.batch // ranks, generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            testbed.report(step=step, loss=loss.item())
            print(f"step {step}: loss {loss.item():.3f}")
    with torch.no_grad():
        samples = drawn(test, 8 * TESTS, torch.manual_seed(0))
        losses = [loss_of(model.module, batch) for batch in samples.split(8)]
    reached = torch.stack(losses).mean().item()
    if rank == 0:
        testbed.report(step=options.steps, test_loss=reached)
        print(f"loss on text that nobody has trained on: {reached:.3f}")
    dist.destroy_process_group()
    if reached > options.loss:
        raise SystemExit(f"the loss {reached:.3f} is above {options.loss}")


if __name__ == "__main__":
    main()
